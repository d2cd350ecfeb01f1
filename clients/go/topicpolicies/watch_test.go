package topicpolicies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// nextOf returns the next event of one kind. It skips timed bookmarks and Status events; any other event fails the test.
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
		case Bookmark, Status:
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

func TestAWatchDeliversASnapshotThenSyncedThenChanges(t *testing.T) {
	client, namespace := open(t, sidecar.Address, WithActor("tester")), newNamespace()
	key := topicIn(namespace)
	before := put(t, client, key, 1)
	watch := watching(t, client, Selection{Namespaces: []string{namespace}, Mode: WatchModeEvery, IncludePrevious: true})
	if got := nextOf[Changed](t, watch); got.Document.Key != key || got.Document.Version != before.Version || !got.Snapshot {
		t.Errorf("%+v", got)
	}
	if synced := nextOf[Synced](t, watch); synced.Namespace != namespace || synced.ConfirmedTime.IsZero() {
		t.Errorf("%+v", synced)
	}
	after := put(t, client, key, 2)
	got := nextOf[Changed](t, watch)
	if got.Document.Version != after.Version || got.PreviousVersion != before.Version || got.Snapshot {
		t.Errorf("%+v", got)
	}
	if got.Document.Policies.GetMaxProducerPerTopic() != 2 || got.Previous == nil || got.Previous.Policies.GetMaxProducerPerTopic() != 1 {
		t.Errorf("%+v", got)
	}
	if origin := got.Origin; origin.GetActor() != "tester" || origin.GetRequestId() != after.RequestID {
		t.Errorf("%+v", origin)
	}
	if _, err := client.Delete(t.Context(), Deletion{Key: key, Actor: "another actor", Reason: "not needed any more"}); err != nil {
		t.Fatal(err)
	}
	deleted := nextOf[Changed](t, watch)
	if deleted.Document.Key != key || deleted.Document.Exists() || deleted.PreviousVersion != after.Version {
		t.Errorf("%+v", deleted)
	}
	if deleted.Origin.GetActor() != "another actor" || deleted.Origin.GetReason() != "not needed any more" {
		t.Errorf("%+v", deleted.Origin)
	}
}

func TestAWatchDeliversTheAbsenceOfATopicWithoutADocument(t *testing.T) {
	key := topicIn(newNamespace())
	watch := watching(t, open(t, sidecar.Address), Selection{Topics: []string{key.Topic}, Scopes: []Scope{ScopeLocal}})
	if got := nextOf[Changed](t, watch); got.Document.Key != key || got.Document.Exists() || !got.Snapshot {
		t.Errorf("%+v", got)
	}
}

func TestAWatchResumesAcrossARestartOfTheServerAndMissesAndRepeatsNothing(t *testing.T) {
	server := ownServer(t)
	client, namespace := open(t, server.Address), newNamespace()
	key := topicIn(namespace)
	watch := watching(t, client, Selection{Namespaces: []string{namespace}, Mode: WatchModeEvery})
	nextOf[Synced](t, watch)
	var want, got []string
	for i := range int32(3) {
		want = append(want, put(t, client, key, i+1).Version)
	}
	for range 3 {
		got = append(got, nextOf[Changed](t, watch).Document.Version)
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
	for len(got) < len(want) {
		event, err := watch.Next()
		if err != nil {
			t.Fatal(err)
		}
		switch each := event.(type) {
		case Changed:
			if each.Snapshot {
				t.Errorf("a snapshot: %+v", each)
			}
			got = append(got, each.Document.Version)
		case Interrupted:
			interruptions++
		case Reset:
			t.Errorf("%+v", each)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	t.Logf("%d interruptions", interruptions)
}

func TestAWatchResumesFromASavedToken(t *testing.T) {
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
	if got := nextOf[Changed](t, second); got.Document.Version != missed.Version || got.Snapshot {
		t.Errorf("%+v", got)
	}
	nextOf[Synced](t, second)
}

func TestAWatchResumesFromTheTokenOfAList(t *testing.T) {
	client, namespace := open(t, sidecar.Address), newNamespace()
	put(t, client, topicIn(namespace), 1)
	list := client.List(t.Context(), namespace)
	if list.Token() != nil {
		t.Error("there is a token before anything was read")
	}
	for document, err := range list.All() {
		if err != nil || document.Key != topicIn(namespace) {
			t.Fatal(document, err)
		}
	}
	later := put(t, client, topicIn(namespace), 2)
	watch := watching(t, client, Selection{Namespaces: []string{namespace}, Resume: list.Token()})
	if got := nextOf[Changed](t, watch); got.Snapshot || got.Document.Version != later.Version {
		t.Errorf("%+v", got)
	}
	nextOf[Synced](t, watch)
}

func TestATokenThatCannotBeResumedCausesAResetAndASnapshot(t *testing.T) {
	client, namespace := open(t, sidecar.Address), newNamespace()
	key := topicIn(namespace)
	put(t, client, key, 1)
	other := ResumeToken{map[string]WatchToken{namespace: {Log: "another log", Positions: []string{"00000000000000000001"}}}}
	watch := watching(t, client, Selection{Namespaces: []string{namespace}, Resume: &other})
	if reset := nextOf[Reset](t, watch); reset.Namespace != namespace || reset.Reason != "TOKEN_OUT_OF_RANGE" || reset.Message == "" {
		t.Errorf("%+v", reset)
	}
	if token := watch.Token(); len(token.Namespaces) != 0 { // even if SYNCED came in the same batch
		t.Errorf("%s", token)
	}
	if got := nextOf[Changed](t, watch); got.Document.Key != key || !got.Snapshot {
		t.Errorf("%+v", got)
	}
	nextOf[Synced](t, watch)
}

func TestANamespaceThatTheTokenDoesNotCoverStartsOverWithAReset(t *testing.T) {
	session, err := newSession(Selection{
		Namespaces: []string{"t/n", "t/m"}, Resume: &ResumeToken{map[string]WatchToken{"t/n": {Log: "L"}}},
	}, watchPauses)
	if err != nil {
		t.Fatal(err)
	}
	request, events := session.connect(time.Now())
	if len(request.GetResume()) != 1 || len(events) != 1 || events[0].(Reset).Namespace != "t/m" || events[0].(Reset).Reason != "" {
		t.Errorf("%v %+v", request, events)
	}
}

func TestEveryChangeIsDeliveredFromTheBeginningAndTheWatchEndsWhenSynced(t *testing.T) {
	client, namespace := open(t, sidecar.Address), newNamespace()
	key := topicIn(namespace)
	const changes = 3
	for i := range int32(changes) {
		put(t, client, key, i+1)
	}
	for _, mode := range []WatchMode{WatchModeEvery, WatchModeEntries} {
		watch := watching(t, client, Selection{Topics: []string{key.Topic}, Mode: mode, FromBeginning: true, EndWhenSynced: true})
		var producers []int32
		synced := false
		for event, err := range watch.All() {
			if err != nil {
				t.Fatal(err)
			}
			switch each := event.(type) {
			case Changed:
				if each.Snapshot || mode != WatchModeEvery {
					t.Errorf("%s: %+v", mode, each)
				}
				producers = append(producers, each.Document.Policies.GetMaxProducerPerTopic())
			case Entry:
				if each.Kind != pb.HistoryKind_HISTORY_KIND_UPDATE || each.Outcome != pb.HistoryOutcome_HISTORY_OUTCOME_APPLIED ||
					mode != WatchModeEntries {
					t.Errorf("%s: %+v", mode, each)
				}
				producers = append(producers, each.Document.Policies.GetMaxProducerPerTopic())
			case Synced:
				synced = true
			}
		}
		if fmt.Sprint(producers) != "[1 2 3]" || !synced {
			t.Errorf("%s: %v, synced %t", mode, producers, synced)
		}
		if _, err := watch.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

func TestAStreamThatEndsBeforeSyncedIsOpenedAgain(t *testing.T) {
	fake := &fakeService{}
	fake.watch = func(request *pb.WatchPoliciesRequest, stream pb.TopicPoliciesService_WatchPoliciesServer) error {
		fake.mu.Lock()
		number := fake.watches
		fake.mu.Unlock()
		if number == 1 {
			return nil
		}
		synced := &pb.Bookmark{Kind: pb.BookmarkKind_BOOKMARK_KIND_SYNCED, Token: &pb.WatchToken{Log: "a"}}
		event := &pb.WatchEvent{Namespace: "t/n", Content: &pb.WatchEvent_Bookmark{Bookmark: synced}}
		return stream.Send(&pb.WatchPoliciesResponse{Events: []*pb.WatchEvent{event}})
	}
	watch := watching(t, open(t, fake.serve(t), quick), Selection{Namespaces: []string{"t/n"}, EndWhenSynced: true})
	nextOf[Interrupted](t, watch)
	nextOf[Synced](t, watch)
	if _, err := watch.Next(); !errors.Is(err, io.EOF) || fake.watches != 2 {
		t.Error(err, fake.watches)
	}
}

func TestAWatchWithAnInvalidSelectionFails(t *testing.T) {
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
	if err := endOfWatch(watch); !errors.Is(err, context.Canceled) || status.Code(err) != codes.Canceled {
		t.Errorf("%v", err)
	}
}

func TestAWatchEndsWithItsClient(t *testing.T) {
	client, err := New(sidecar.Address)
	if err != nil {
		t.Fatal(err)
	}
	watch := watching(t, client, Selection{Namespaces: []string{newNamespace()}})
	nextOf[Synced](t, watch)
	time.AfterFunc(50*time.Millisecond, func() { _ = client.Close() })
	if err := endOfWatch(watch); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
}

// endOfWatch returns the error with which a watch ends.
func endOfWatch(watch *Watch) error {
	for {
		if _, err := watch.Next(); err != nil {
			return err
		}
	}
}

func TestAWatchGivesUpWhenItsPatienceIsOver(t *testing.T) {
	session, err := newSession(Selection{Namespaces: []string{"t/n"}, Patience: time.Second}, watchPauses)
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

func TestAWatchPausesLongerEachTimeAndLongestIfTheServerHasNoRoom(t *testing.T) {
	session, err := newSession(Selection{Namespaces: []string{"t/n"}}, watchPauses)
	if err != nil {
		t.Fatal(err)
	}
	pause := func(code codes.Code) time.Duration {
		interrupted, err := session.broke(&Error{Code: code}, time.Now(), 0)
		if err != nil {
			t.Fatal(err)
		}
		return interrupted.RetryIn
	}
	for _, want := range []time.Duration{50, 100, 200, 400, 800, 1600, 3200, 5000, 5000} {
		if found := pause(codes.Unavailable); found != want*time.Millisecond {
			t.Errorf("%s instead of %d ms", found, want)
		}
	}
	session.receive(&pb.WatchEvent{
		Namespace: "t/n", Content: &pb.WatchEvent_Bookmark{Bookmark: &pb.Bookmark{Kind: pb.BookmarkKind_BOOKMARK_KIND_SYNCED}},
	})
	if found := pause(codes.Unavailable); found != 50*time.Millisecond {
		t.Errorf("after SYNCED %s", found)
	}
	if found := pause(codes.ResourceExhausted); found != 5*time.Second {
		t.Errorf("without room %s", found)
	}
}

func TestTheStateOfANamespaceIsDeliveredWithItsReason(t *testing.T) {
	session, err := newSession(Selection{Namespaces: []string{"t/n"}}, watchPauses)
	if err != nil {
		t.Fatal(err)
	}
	session.connect(time.Now())
	receive := func(status *pb.NamespaceStatus) Event {
		return session.receive(&pb.WatchEvent{Namespace: "t/n", Content: &pb.WatchEvent_Status{Status: status}})
	}
	failed := receive(&pb.NamespaceStatus{State: NamespaceStateFailed, Reason: pb.ErrorReason_ERROR_REASON_LOG_UNREACHABLE, Message: "so it is"})
	if failed != (Status{"t/n", NamespaceStateFailed, "LOG_UNREACHABLE", "so it is"}) {
		t.Errorf("%+v", failed)
	}
	newer := receive(&pb.NamespaceStatus{State: NamespaceStateLoading, Reason: 9999})
	if newer != (Status{"t/n", NamespaceStateLoading, "9999", ""}) {
		t.Errorf("%+v", newer)
	}
	if ready := receive(&pb.NamespaceStatus{State: NamespaceStateReady}); ready != (Status{Namespace: "t/n", State: NamespaceStateReady}) {
		t.Errorf("%+v", ready)
	}
}

func TestEntriesAndGapsAreDeliveredAndEntriesAdvanceTheToken(t *testing.T) {
	session, err := newSession(Selection{Namespaces: []string{"t/n"}, Mode: WatchModeEntries}, watchPauses)
	if err != nil {
		t.Fatal(err)
	}
	session.connect(time.Now())
	receive := func(namespace string, event *pb.WatchEvent) Event {
		event.Namespace = namespace
		return session.receive(event)
	}
	entry := func(scope Scope, position string) *pb.WatchEvent {
		document := &pb.PolicyDocument{Topic: "persistent://t/n/x", Scope: scope, Version: position}
		return &pb.WatchEvent{Content: &pb.WatchEvent_Entry{Entry: &pb.HistoryEntry{Document: document, Position: position}}}
	}
	synced := &pb.Bookmark{Kind: pb.BookmarkKind_BOOKMARK_KIND_SYNCED, Token: &pb.WatchToken{Log: "L", Positions: []string{"p1"}}}
	if _, got := receive("t/n", &pb.WatchEvent{Content: &pb.WatchEvent_Bookmark{Bookmark: synced}}).(Synced); !got {
		t.Error("SYNCED was not delivered")
	}
	known, ok := receive("t/n", entry(ScopeGlobal, "p2")).(Entry)
	if !ok || known.Namespace != "t/n" || known.Position != "p2" || known.Document.Scope != ScopeGlobal {
		t.Errorf("%+v", known)
	}
	if got := receive("t/n", entry(7, "p3")); got != nil {
		t.Errorf("%+v", got)
	}
	if got := receive("t/other", entry(ScopeLocal, "p4")); got != nil {
		t.Errorf("%+v", got)
	}
	ended := time.Unix(1_000_000_000, 0)
	gap := &pb.HistoryGap{EndTime: timestamppb.New(ended), Reason: pb.HistoryGapReason_HISTORY_GAP_REASON_OVERRUN}
	got, ok := receive("t/n", &pb.WatchEvent{Content: &pb.WatchEvent_Gap{Gap: gap}}).(Gap)
	if !ok || got.Namespace != "t/n" || !got.Start.IsZero() || !got.End.Equal(ended) || got.Reason != gap.GetReason() {
		t.Errorf("%+v", got)
	}
	if want := (ResumeToken{map[string]WatchToken{"t/n": {Log: "L", Positions: []string{"p3"}}}}); session.token().String() != want.String() {
		t.Errorf("%s", session.token())
	}
}

func TestSavedTokensAreParsedAndOtherTextsAreRefused(t *testing.T) {
	token := ResumeToken{map[string]WatchToken{"t/n": {"log", []string{"1", ""}, "x"}, "t/m": {Log: "log"}}}
	want := `{"namespaces":{"t/m":{"log":"log","positions":[],"left_out":""},"t/n":{"log":"log","positions":["1",""],"left_out":"x"}}}`
	if token.String() != want {
		t.Errorf("%s", token)
	}
	if read, err := ParseResumeToken(token.String()); err != nil || read.String() != token.String() {
		t.Errorf("%v %v", read, err)
	}
	for _, text := range []string{
		"", "x", "{}", "[]", `{"namespaces":[]}`, `{"namespaces":{"t/n":{}}}`, `{"namespaces":{"t/n":{"log":1,"positions":[]}}}`,
	} {
		if _, err := ParseResumeToken(text); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
