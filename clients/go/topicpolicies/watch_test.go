package topicpolicies

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "topicpolicies/clients/go/topicpolicies/v1"
)

// nextOf is the next event of one kind; bookmarks that were sent by time and news of loading are passed over, anything else fails the test.
func nextOf[Kind Event](t *testing.T, watch *Watch) Kind {
	t.Helper()
	for {
		event, err := watch.Next()
		if err != nil {
			t.Fatal(err)
		}
		switch each := event.(type) {
		case Kind:
			return each
		case Bookmark, NamespaceLoading:
		default:
			t.Fatalf("%T %+v, want %T", event, event, *new(Kind))
		}
	}
}

func put(t *testing.T, client *Client, key Key, producers int32) UpdateResult {
	t.Helper()
	result, err := client.Update(t.Context(), Update{Key: key, Policies: &TopicPolicies{MaxProducerPerTopic: proto.Int32(producers)}})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func watching(t *testing.T, client *Client, selection Selection) *Watch {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	t.Cleanup(cancel)
	watch, err := client.Watch(ctx, selection)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watch.Close)
	return watch
}

func TestAWatchTellsASnapshotThenSyncedThenChanges(t *testing.T) {
	client, namespace := open(t, sidecar.Address, WithActor("tester")), newNamespace()
	key := topicIn(namespace)
	before := put(t, client, key, 1)
	watch := watching(t, client, Selection{Namespaces: []string{namespace}})
	if told := nextOf[Changed](t, watch); told.Key != key || told.Version != before.Version || !told.Snapshot {
		t.Errorf("%+v", told)
	}
	nextOf[Synced](t, watch)
	after := put(t, client, key, 2)
	told := nextOf[Changed](t, watch)
	if told.Version != after.Version || told.PreviousVersion != before.Version || told.Snapshot || told.Policies.GetMaxProducerPerTopic() != 2 {
		t.Errorf("%+v", told)
	}
	// The log tells the id without its dashes.
	if origin := told.Origin; origin.GetActor() != "tester" || uuid.MustParse(origin.GetRequestId()) != uuid.MustParse(after.RequestID) {
		t.Errorf("%+v", origin)
	}
	if _, err := client.Delete(t.Context(), Deletion{Topic: key.Topic}); err != nil {
		t.Fatal(err)
	}
	if gone := nextOf[Deleted](t, watch); gone.Key != key || gone.PreviousVersion != after.Version {
		t.Errorf("%+v", gone)
	}
}

func TestAnAbsentTopicIsSaidToBeAbsent(t *testing.T) {
	key := topicIn(newNamespace())
	watch := watching(t, open(t, sidecar.Address), Selection{Topics: []string{key.Topic}, Scopes: []Scope{Local}})
	if told := nextOf[Deleted](t, watch); told.Key != key || !told.Snapshot {
		t.Errorf("%+v", told)
	}
}

func TestAWatchResumesAcrossARestartOfTheServerAndMissesAndRepeatsNothing(t *testing.T) {
	server := ownServer(t)
	client, namespace := open(t, server.Address), newNamespace()
	key := topicIn(namespace)
	watch := watching(t, client, Selection{Namespaces: []string{namespace}, Mode: Every})
	nextOf[Synced](t, watch)
	var want, told []string
	for i := range int32(3) {
		want = append(want, put(t, client, key, i+1).Version)
	}
	for range 3 {
		told = append(told, nextOf[Changed](t, watch).Version)
	}
	server.Kill()
	interrupted := nextOf[Interrupted](t, watch)
	if interrupted.Attempt != 1 || interrupted.RetryIn <= 0 || interrupted.Err == nil {
		t.Errorf("%+v", interrupted)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	want = append(want, put(t, client, key, 10).Version)
	interruptions := 1
	for len(told) < len(want) {
		event, err := watch.Next()
		if err != nil {
			t.Fatal(err)
		}
		switch each := event.(type) {
		case Changed:
			if each.Snapshot {
				t.Errorf("a snapshot: %+v", each)
			}
			told = append(told, each.Version)
		case Interrupted:
			interruptions++
		case Restarted:
			t.Errorf("%+v", each)
		}
	}
	if fmt.Sprint(told) != fmt.Sprint(want) {
		t.Errorf("told %q, want %q", told, want)
	}
	t.Logf("%d interruptions", interruptions)
}

func TestAWatchGoesOnFromASavedToken(t *testing.T) {
	client, namespace := open(t, sidecar.Address), newNamespace()
	key := topicIn(namespace)
	first := watching(t, client, Selection{Namespaces: []string{namespace}})
	nextOf[Synced](t, first)
	put(t, client, key, 1)
	nextOf[Changed](t, first)
	saved := first.Token().String()
	first.Close()
	missed := put(t, client, key, 2)
	token, err := ParseResumeToken(saved)
	if err != nil {
		t.Fatal(err)
	}
	second := watching(t, client, Selection{Namespaces: []string{namespace}, Resume: &token})
	if told := nextOf[Changed](t, second); told.Version != missed.Version || told.Snapshot {
		t.Errorf("%+v", told)
	}
	nextOf[Synced](t, second)
}

func TestATokenThatCannotBeResumedStartsOverWithASnapshot(t *testing.T) {
	client, namespace := open(t, sidecar.Address), newNamespace()
	key := topicIn(namespace)
	put(t, client, key, 1)
	other := ResumeToken{map[string]WatchToken{namespace: {Log: "another log", Positions: []string{"00000000000000000001"}}}}
	watch := watching(t, client, Selection{Namespaces: []string{namespace}, Resume: &other})
	interrupted := nextOf[Interrupted](t, watch)
	if !errors.Is(interrupted.Err, ErrOutOfRange) {
		t.Fatalf("%+v", interrupted)
	}
	if restarted := nextOf[Restarted](t, watch); restarted.Namespace != namespace || restarted.Reason == "" {
		t.Errorf("%+v", restarted)
	}
	if told := nextOf[Changed](t, watch); told.Key != key || !told.Snapshot {
		t.Errorf("%+v", told)
	}
	nextOf[Synced](t, watch)
}

func TestAWatchThatMakesNoSenseFails(t *testing.T) {
	client := open(t, sidecar.Address)
	if _, err := client.Watch(t.Context(), Selection{}); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("%v", err)
	}
	for event, err := range watching(t, client, Selection{Namespaces: []string{"not a namespace"}}).All() {
		if !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%v %v", event, err)
		}
	}
}

func TestAClosedWatchEndsWithItsContextsError(t *testing.T) {
	watch := watching(t, open(t, sidecar.Address), Selection{Namespaces: []string{newNamespace()}})
	nextOf[Synced](t, watch)
	time.AfterFunc(50*time.Millisecond, watch.Close)
	for {
		if _, err := watch.Next(); err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			return
		}
	}
}

func TestAWatchWithoutPatienceLeftGivesUp(t *testing.T) {
	session, err := newSession(Selection{Namespaces: []string{"t/n"}, Patience: time.Second}, DefaultRetries)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	session.connect(began)
	lost := &Error{Code: codes.Unavailable, Message: "lost", kind: ErrUnavailable}
	if _, err := session.broke(lost, began.Add(500*time.Millisecond), 0); err != nil {
		t.Error(err)
	}
	if _, err := session.broke(lost, began.Add(990*time.Millisecond), 0); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

func TestAFailedNamespaceSaysWhy(t *testing.T) {
	session, err := newSession(Selection{Namespaces: []string{"t/n"}}, DefaultRetries)
	if err != nil {
		t.Fatal(err)
	}
	session.connect(time.Now())
	told := func(status *pb.NamespaceStatus) Event {
		return session.received(&pb.WatchPoliciesResponse{Content: &pb.WatchPoliciesResponse_Status{Status: status}}, time.Now())
	}
	failed := &pb.NamespaceStatus{Namespace: "t/n", State: pb.NamespaceState_NAMESPACE_STATE_FAILED, Message: "so it is", Reason: "WHY"}
	if event := told(failed); event != (NamespaceUnavailable{"t/n", "so it is", "WHY"}) {
		t.Errorf("%+v", event)
	}
	loading := &pb.NamespaceStatus{Namespace: "t/n", State: pb.NamespaceState_NAMESPACE_STATE_LOADING, Message: "so it is"}
	if event := told(loading); event != (NamespaceLoading{"t/n", "so it is"}) {
		t.Errorf("%+v", event)
	}
}

func TestTokensAreReadBackAndNothingElseIs(t *testing.T) {
	token := ResumeToken{map[string]WatchToken{"t/n": {"log", []string{"1", ""}}, "t/m": {Log: "log"}}}
	if want := `{"namespaces":{"t/m":{"log":"log","positions":[]},"t/n":{"log":"log","positions":["1",""]}}}`; token.String() != want {
		t.Errorf("%s", token)
	}
	if read, err := ParseResumeToken(token.String()); err != nil || read.String() != token.String() {
		t.Errorf("%v %v", read, err)
	}
	for _, text := range []string{"", "x", "{}", "[]", `{"namespaces":[]}`, `{"namespaces":{"t/n":{}}}`, `{"namespaces":{"t/n":{"log":1,"positions":[]}}}`} {
		if _, err := ParseResumeToken(text); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
