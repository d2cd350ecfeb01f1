// The twenty tasks that every client does alike (tests/clients/twenty.md): twenty ADDRESS NAMESPACE.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"topicpolicies.example/clients/go/topicpolicies"
)

// limit is the time limit of every call.
const limit = 30 * time.Second

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: twenty ADDRESS NAMESPACE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address, namespace string) error {
	client, err := topicpolicies.New(address, topicpolicies.WithTimeout(limit))
	if err != nil {
		return err
	}
	defer client.Close()
	tour := &tour{client: client, namespace: namespace}
	for number, step := range []struct {
		what string
		do   func(context.Context) (output, error)
	}{
		{"update", tour.update},
		{"repeat", tour.repeat},
		{"unchanged", tour.unchanged},
		{"dry run", tour.dryRun},
		{"no mask", tour.noMask},
		{"clear", tour.clear},
		{"list", tour.list},
		{"etag", tour.etag},
		{"must not exist", tour.mustNotExist},
		{"skip", tour.skip},
		{"violations", tour.violations},
		{"edit", tour.edit},
		{"many", tour.many},
		{"scopes", tour.scopes},
		{"as of", tour.asOf},
		{"effective", tour.effective},
		{"list documents", tour.listDocuments},
		{"delete", tour.delete},
		{"watch and cache", tour.watchAndCache},
		{"every change", tour.everyChange},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		result, err := step.do(ctx)
		cancel()
		if err != nil {
			return fmt.Errorf("%02d %s: %w", number+1, step.what, err)
		}
		fmt.Printf("%02d %s: %s\n", number+1, step.what, strings.Join(result, ", "))
	}
	return nil
}

// output is the output of one step.
type output []string

// tour is the state that later steps need of earlier ones.
type tour struct {
	client    *topicpolicies.Client
	namespace string
	first     topicpolicies.UpdateResult
	before    string // the version of topic a before its last change
	global    topicpolicies.PolicyDocument
	other     string // a version of topic c that is not that of its GLOBAL document
}

func (t *tour) key(topic string) topicpolicies.Key {
	return topicpolicies.Key{Topic: "persistent://" + t.namespace + "/" + topic}
}

// field returns a document that sets the field that twenty.md uses.
func field(value int32) *topicpolicies.TopicPolicies {
	return &topicpolicies.TopicPolicies{MaxProducerPerTopic: proto.Int32(value)}
}

// shortName returns the name of an enum value as twenty.md prints it.
func shortName(value fmt.Stringer, prefix string) string {
	return strings.TrimPrefix(value.String(), prefix)
}

func outcomeOf(result topicpolicies.UpdateResult) string {
	return shortName(result.Outcome, "UPDATE_OUTCOME_")
}

func novelty(result topicpolicies.UpdateResult) string {
	if result.Replayed {
		return "replayed"
	}
	return "new"
}

// errNotRefused is the error of a call that should have failed.
var errNotRefused = errors.New("it was not refused")

// refusal returns the error with which a call was refused.
func refusal(err error) (*topicpolicies.Error, error) {
	var failure *topicpolicies.Error
	if errors.As(err, &failure) {
		return failure, nil
	}
	if err == nil {
		return nil, errNotRefused
	}
	return nil, err
}

// codeName returns the name of a gRPC code as gRPC's specification writes it.
func codeName(failure *topicpolicies.Error) string {
	var name strings.Builder
	for i, letter := range failure.Code.String() {
		if i > 0 && letter >= 'A' && letter <= 'Z' {
			name.WriteByte('_')
		}
		name.WriteRune(letter)
	}
	return strings.ToUpper(name.String())
}
