package topicpolicies

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
)

var lost = &Error{Code: codes.Unavailable, Message: "The connection broke."}

func ledBy(leader string) *Error {
	failure := &Error{Code: codes.Unavailable, Reason: notLeader, FromService: true, Metadata: map[string]string{}}
	if leader != "" {
		failure.Metadata["leader"] = leader
	}
	return failure
}

func TestAddressesAreSeparatedByCommas(t *testing.T) {
	for target, addresses := range map[string][]string{
		"localhost:6680":               {"localhost:6680"},
		"one:1, two:2,three:3":         {"one:1", "two:2", "three:3"},
		"ipv4:127.0.0.1:1,127.0.0.1:2": {"ipv4:127.0.0.1:1,127.0.0.1:2"},
		"dns:///sidecars:6680":         {"dns:///sidecars:6680"},
		"unix:/run/a,b":                {"unix:/run/a,b"},
	} {
		if found := addressesOf(target); !slices.Equal(found, addresses) {
			t.Errorf("%s: %q", target, found)
		}
	}
}

func TestTheNextAddressIsUsedOnlyWhenTheCurrentOneFails(t *testing.T) {
	routes := newRoutes([]string{"one", "two"})
	for _, step := range []struct {
		address string
		failure *Error
		next    string
	}{
		{"two", lost, "one"}, // not the current address
		{"one", lost, "two"},
		{"one", lost, "two"}, // an older call to an address that is no longer the current one
		{"two", &Error{Code: codes.InvalidArgument}, "two"},
		{"two", lost, "one"},
	} {
		if routes.failed(step.address, "a/b", step.failure) != "" || routes.writer("a/b") != step.next || routes.address() != step.next {
			t.Errorf("%+v: %s", step, routes.writer("a/b"))
		}
	}
}

func TestChangesOfANamespaceGoToItsLeaderUntilACallThereFails(t *testing.T) {
	routes := newRoutes([]string{"one", "two"})
	if routes.failed("one", "a/b", ledBy("three")) != "three" {
		t.Error("no leader was named")
	}
	if routes.writer("a/b") != "three" || routes.writer("a/c") != "one" || routes.address() != "one" {
		t.Error(routes.writers, routes.address())
	}
	if routes.failed("three", "a/b", lost) != "" || routes.writer("a/b") != "one" {
		t.Error(routes.writer("a/b"))
	}
}

func TestAnAddressThatKnowsNoLeaderIsSkippedByChangesButNotByReads(t *testing.T) {
	routes := newRoutes([]string{"one", "two"})
	if routes.failed("one", "a/b", ledBy("")) != "" || routes.writer("a/b") != "two" || routes.address() != "one" {
		t.Error(routes.writer("a/b"), routes.address())
	}
	if routes.failed("two", "a/b", ledBy("")) != "" || routes.writer("a/b") != "one" {
		t.Error(routes.writer("a/b"))
	}
	if routes.failed("three", "a/b", ledBy("")) != "" || routes.writer("a/b") != "one" {
		t.Error(routes.writer("a/b"))
	}
}

func TestAServerThatNamesItselfAsLeaderIsRepeatedAfterAPause(t *testing.T) {
	if newRoutes([]string{"one"}).failed("one", "a/b", ledBy("one")) != "" {
		t.Error("the server itself counts as another leader")
	}
}

func TestNotLeaderOfAnotherServiceIsIgnored(t *testing.T) {
	foreign := ledBy("two")
	foreign.FromService = false
	routes := newRoutes([]string{"one"})
	if routes.failed("one", "a/b", foreign) != "" || routes.writer("a/b") != "one" {
		t.Error(routes.writer("a/b"))
	}
}

func TestTheNumberOfRememberedLeadersIsBounded(t *testing.T) {
	routes := newRoutes([]string{"one"})
	for number := range mostLeaders + 1 {
		routes.failed("one", fmt.Sprintf("a/%d", number), ledBy("two"))
	}
	if last := fmt.Sprintf("a/%d", mostLeaders); len(routes.writers) != mostLeaders || routes.writer(last) != "two" {
		t.Error(len(routes.writers), routes.writer(last))
	}
}

func TestAReadFollowsTheNamedLeaderOnceWithoutRememberingIt(t *testing.T) {
	routes := newRoutes([]string{"one", "two"})
	if routes.failed("one", "", ledBy("three")) != "three" || routes.address() != "one" || len(routes.writers) != 0 {
		t.Error(routes.address(), routes.writers)
	}
	if routes.failed("one", "", ledBy("")) != "" || routes.address() != "two" || len(routes.writers) != 0 {
		t.Error(routes.address(), routes.writers)
	}
}

func TestAWatchThatFindsNoRoomMovesToTheNextAddress(t *testing.T) {
	routes := newRoutes([]string{"one", "two"})
	routes.full("one")
	routes.full("one")
	if routes.address() != "two" {
		t.Error(routes.address())
	}
}
