package topicpolicies

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// readVectors reads a file of test vectors that all clients share (clients/vectors).
func readVectors[Vectors any](t *testing.T, name string) (read Vectors) {
	t.Helper()
	text, err := os.ReadFile("../../vectors/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// written is a message in Protobuf's JSON form; nil if there is none.
type written[Message any, Pointer interface {
	*Message
	proto.Message
}] struct{ message Pointer }

func (w *written[Message, Pointer]) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	w.message = new(Message)
	return protojson.Unmarshal(text, w.message)
}

type (
	writtenPolicies = written[pb.TopicPolicies, *pb.TopicPolicies]
	writtenToken    = written[pb.WatchToken, *pb.WatchToken]
	writtenEvent    = written[pb.WatchEvent, *pb.WatchEvent]
)

type application struct {
	Name           string
	Document       writtenPolicies
	Policies       writtenPolicies
	Mask           []string
	ListOperations map[string]string
	After          writtenPolicies
	Reason         string
}

func TestUpdatesDoWhatTheSharedVectorsSay(t *testing.T) {
	vectors := readVectors[[]application](t, "apply.json")
	if len(vectors) < 60 {
		t.Fatalf("only %d", len(vectors))
	}
	client, namespace := open(t, sidecar.Address), newNamespace()
	for number, vector := range vectors {
		t.Run(vector.Name, func(t *testing.T) {
			vector.run(t, client, Key{Topic: fmt.Sprintf("%s/v%d", namespace, number), Scope: vector.scope()})
		})
	}
}

// scope returns GLOBAL for lists of clusters, since a server with rules but without a cluster accepts them only there.
func (v application) scope() Scope {
	for _, each := range []writtenPolicies{v.Document, v.Policies} {
		if len(each.message.GetReplicationClusters()) > 0 {
			return ScopeGlobal
		}
	}
	return ScopeLocal
}

func (v application) run(t *testing.T, client *Client, key Key) {
	before := v.Document.message
	if before != nil {
		made, err := client.Update(t.Context(), Update{Key: key, Policies: before, Mask: []string{"*"}})
		if err != nil {
			t.Fatal(err)
		}
		if !made.Document.Exists() { // an update without fields does not create an empty document
			t.Fatalf("%v was not made", before)
		}
	}
	update := Update{Key: key, Policies: v.Policies.message, Mask: v.Mask, ListOperations: map[string]ListOperation{}}
	for path, name := range v.ListOperations {
		update.ListOperations[path] = ListOperation(pb.ListOperation_value[name])
	}
	_, err := client.Update(t.Context(), update)
	want := v.After.message
	if v.Reason != "" {
		var failure *Error
		if !errors.As(err, &failure) || !slices.ContainsFunc(failure.Violations, func(each Violation) bool { return each.Reason == v.Reason }) {
			t.Fatalf("%v, want %s", err, v.Reason)
		}
		want = before
	} else if err != nil {
		t.Fatal(err)
	}
	read, err := client.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if read.Exists() != (want != nil) || (want != nil && !proto.Equal(read.Policies, want)) {
		t.Errorf("%v, want %v", read.Policies, want)
	}
}

type failed struct {
	Code      string
	Reason    string
	Service   bool
	Metadata  map[string]string
	NeverSent bool
}

// error returns the error of an attempt.
func (f failed) error(t *testing.T) *Error {
	t.Helper()
	grpcStatus := status.New(codeNamed(t, f.Code), "A sentence.")
	if f.Reason != "" {
		info := &errdetails.ErrorInfo{Domain: "another.service", Reason: f.Reason, Metadata: f.Metadata}
		if f.Service {
			info.Domain = domain
		}
		var err error
		if grpcStatus, err = grpcStatus.WithDetails(info); err != nil {
			t.Fatal(err)
		}
	}
	return fromStatus(grpcStatus, grpcStatus.Err())
}

func codeNamed(t *testing.T, name string) (code codes.Code) {
	t.Helper()
	if err := code.UnmarshalJSON([]byte(`"` + name + `"`)); err != nil {
		t.Fatal(err)
	}
	return code
}

type repetition struct {
	Name, Call, Then, Code, At string
	Failures                   []failed
}

func TestCallsAreRepeatedAsTheSharedVectorsSay(t *testing.T) {
	vectors := readVectors[[]repetition](t, "retries.json")
	if len(vectors) < 59 {
		t.Fatalf("only %d", len(vectors))
	}
	for _, vector := range vectors {
		t.Run(vector.Name, func(t *testing.T) {
			if vector.Call == "watch" {
				vector.watch(t)
			} else {
				vector.call(t)
			}
		})
	}
}

func (v repetition) watch(t *testing.T) {
	session, err := newSession(Selection{Namespaces: []string{"t/n"}}, watchPauses)
	if err != nil {
		t.Fatal(err)
	}
	session.connect(time.Now())
	for _, failure := range v.Failures {
		interrupted, err := session.broke(failure.error(t), time.Now(), 0.5)
		switch {
		case v.Then == "repeat" && (err != nil || interrupted.RetryIn <= 0):
			t.Errorf("%+v %v", interrupted, err)
		case v.Then == "give up" && status.Code(err) != codeNamed(t, v.Code):
			t.Errorf("%v", err)
		}
	}
}

func (v repetition) call(t *testing.T) {
	change := v.Call == "change"
	at, namespace, requestID := "127.0.0.1:6680", "", ""
	if change {
		namespace, requestID = "t/n", "0123456789abcdef0123456789abcdef"
	}
	routes := newRoutes([]string{at})
	attempts := repeats{policy: DefaultRetries, change: change, repeatable: change}
	known := verdict{requestID: requestID, target: at}
	then, leader := "", ""
	var final *Error
	for number, each := range v.Failures {
		if number > 0 && then != "repeat" {
			t.Fatalf("attempt %d: %s", number, then)
		}
		failure := each.error(t)
		known.sent = known.sent || !each.NeverSent
		known.ambiguous = known.ambiguous || (!each.NeverSent && ambiguous(failure))
		leader = routes.failed(at, namespace, failure)
		wait, repeat := attempts.failed(failure, !each.NeverSent, 1, leader != "", 0.5)
		final = known.of(failure)
		switch {
		case repeat && wait == 0:
			then = "repeat at once"
		case repeat:
			then = "repeat"
		case errors.Is(final, ErrOutcomeUnknown):
			then = "outcome unknown"
		default:
			then = "give up"
		}
	}
	if then != v.Then {
		t.Fatalf("%s, want %s", then, v.Then)
	}
	switch {
	case leader != v.At || (change && v.At != "" && routes.writer(namespace) != v.At):
		t.Errorf("at %q, want %q", leader, v.At)
	case then == "give up" && (final.Code != codeNamed(t, v.Code) || final.RequestID != ""):
		t.Errorf("%+v", final)
	case then == "outcome unknown" && final.RequestID != requestID:
		t.Errorf("%+v", final)
	}
}

type watched struct {
	Name       string
	Namespaces []string
	Mode       string
	Steps      []struct {
		Connect map[string]writtenToken
		Receive []writtenEvent
		At      *float64
		Expect  *expectation
	}
}

type expectation struct {
	Documents map[string]string
	Told      [][3]*string
	Entries   []string
	Tokens    map[string]writtenToken
	Synced    []string
	States    map[string][2]*string
	Staleness map[string]*float64
}

func TestAWatchAndItsCacheBehaveAsTheSharedVectorsSay(t *testing.T) {
	vectors := readVectors[[]watched](t, "watch.json")
	if len(vectors) < 45 {
		t.Fatalf("only %d", len(vectors))
	}
	for _, vector := range vectors {
		t.Run(vector.Name, vector.run)
	}
}

// follower is a cache that receives the events of a test vector, at the vector's times, with the calls of its listener.
type follower struct {
	session  *session
	cache    *PolicyCache
	listener *listener
	calls    []string
	entries  []string
	began    time.Time
	now      time.Time
	streams  int
}

func (v watched) run(t *testing.T) {
	session, err := newSession(Selection{Namespaces: v.Namespaces, Mode: WatchMode(pb.WatchMode_value[v.Mode])}, watchPauses)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	f := &follower{session: session, cache: newCache(v.Namespaces), began: began, now: began}
	f.listener = newListener(f.cache, func(change Change) {
		f.calls = append(f.calls, fmt.Sprint(nameOf(change.Key), versionOf(change.Before), versionOf(change.After)))
	})
	f.cache.listeners[f.listener] = struct{}{}
	for _, step := range v.Steps {
		if step.At != nil {
			f.now = began.Add(time.Duration(*step.At * float64(time.Second)))
		}
		if step.Connect != nil {
			f.connect(t, step.Connect)
		}
		if len(step.Receive) > 0 {
			f.receive(step.Receive)
		}
		if step.Expect != nil {
			f.check(t, step.Expect)
		}
	}
}

func (f *follower) connect(t *testing.T, resume map[string]writtenToken) {
	t.Helper()
	if f.streams++; f.streams > 1 {
		interrupted, err := f.session.broke(lost, f.now, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.apply([]Event{interrupted})
	}
	request, events := f.session.connect(f.now)
	if !maps.EqualFunc(request.GetResume(), resume, sameToken) {
		t.Errorf("resumes from %v, want %v", request.GetResume(), resume)
	}
	f.apply(events)
}

func sameToken(found *pb.WatchToken, want writtenToken) bool { return proto.Equal(found, want.message) }

func (f *follower) receive(events []writtenEvent) {
	for _, each := range events {
		if event := f.session.receive(each.message); event != nil {
			f.apply([]Event{event})
		}
	}
}

func (f *follower) apply(events []Event) {
	for _, event := range events {
		if entry, ok := event.(Entry); ok {
			f.entries = append(f.entries, entry.Position)
		}
		f.cache.apply(event, f.now)
		f.listener.deliverAll()
	}
}

func (f *follower) check(t *testing.T, want *expectation) {
	t.Helper()
	if want.Documents != nil {
		found := map[string]string{}
		for _, document := range f.cache.Documents() {
			found[nameOf(document.Key)] = document.Version
		}
		if !maps.Equal(found, want.Documents) {
			t.Errorf("documents %v, want %v", found, want.Documents)
		}
	}
	if want.Told != nil {
		var calls []string
		for _, each := range want.Told {
			calls = append(calls, fmt.Sprint(*each[0], orNone(each[1]), orNone(each[2])))
		}
		if !slices.Equal(f.calls, calls) {
			t.Errorf("calls of the listener %q, want %q", f.calls, calls)
		}
		f.calls = nil
	}
	if want.Entries != nil {
		if !slices.Equal(f.entries, want.Entries) {
			t.Errorf("entries %q, want %q", f.entries, want.Entries)
		}
		f.entries = nil
	}
	if want.Tokens != nil {
		found := map[string]*pb.WatchToken{}
		for name, token := range f.session.token().Namespaces {
			found[name] = token.message()
		}
		if !maps.EqualFunc(found, want.Tokens, sameToken) {
			t.Errorf("tokens %v, want %v", found, want.Tokens)
		}
	}
	if want.Synced != nil {
		var found []string
		for name, part := range f.cache.parts {
			if part.synced {
				found = append(found, name)
			}
		}
		if slices.Sort(found); !slices.Equal(found, want.Synced) {
			t.Errorf("synced %q, want %q", found, want.Synced)
		}
	}
	for name, state := range want.States {
		found := f.cache.Namespace(name)
		if state[0] == nil {
			if found.State != stateUnset {
				t.Errorf("%s: %+v, want no state", name, found)
			}
			continue
		}
		if strings.TrimPrefix(found.State.String(), "NAMESPACE_STATE_") != *state[0] || found.Reason != strings.TrimSpace(orEmpty(state[1])) {
			t.Errorf("%s: %+v, want %s", name, found, *state[0])
		}
	}
	for name, seconds := range want.Staleness {
		found, wanted := f.cache.stalenessAt(f.now, name), Forever
		if seconds != nil {
			wanted = time.Duration(*seconds * float64(time.Second))
		}
		if math.Abs(float64(found-wanted)) > float64(time.Millisecond) {
			t.Errorf("%q: stale for %s, want %s", name, found, wanted)
		}
	}
}

func nameOf(key Key) string {
	return key.Topic + " " + strings.TrimPrefix(key.Scope.String(), "SCOPE_")
}

func versionOf(document *PolicyDocument) string {
	if document == nil {
		return orNone(nil)
	}
	return orNone(&document.Version)
}

func orNone(text *string) string {
	if text == nil {
		return " none"
	}
	return " " + *text
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
