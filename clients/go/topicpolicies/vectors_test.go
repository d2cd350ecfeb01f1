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
}] struct {
	message Pointer
	given   bool
}

func (w *written[Message, Pointer]) UnmarshalJSON(text []byte) error {
	w.given = true
	if string(text) == "null" {
		return nil
	}
	w.message = new(Message)
	return protojson.Unmarshal(text, w.message)
}

type (
	writtenPolicies = written[pb.TopicPolicies, *pb.TopicPolicies]
	writtenEvent    = written[pb.WatchEvent, *pb.WatchEvent]
)

func TestUpdatesDoWhatTheVectorsSay(t *testing.T) {
	client, namespace := connected(t, shared(t)), newNamespace()
	for number, vector := range readVectors[[]struct {
		Name                      string
		Document, Policies, After writtenPolicies
		Mask                      []string
		ListOperations            map[string]string
		Reason                    string
	}](t, "apply.json") {
		t.Run(vector.Name, func(t *testing.T) {
			update := &pb.UpdatePolicyRequest{
				Topic: fmt.Sprintf("%s/v%d", namespace, number), Policies: vector.Policies.message, UpdateMask: Mask(vector.Mask...),
				ListOperations: map[string]pb.ListOperation{},
			}
			if len(vector.Document.message.GetReplicationClusters())+len(vector.Policies.message.GetReplicationClusters()) > 0 {
				update.Scope = pb.Scope_SCOPE_GLOBAL // a server without a cluster accepts lists of clusters only there
			}
			for path, name := range vector.ListOperations {
				update.ListOperations[path] = pb.ListOperation(pb.ListOperation_value[name])
			}
			create(t, client, update, vector.Document.message)
			_, err := client.UpdatePolicy(t.Context(), update)
			want := vector.After.message
			if vector.Reason != "" {
				var failure *Error
				if !errors.As(err, &failure) || failure.Reason != "INVALID_REQUEST" || !slices.ContainsFunc(failure.Violations,
					func(each *errdetails.BadRequest_FieldViolation) bool { return each.GetReason() == vector.Reason }) {
					t.Fatalf("%v, want %s", err, vector.Reason)
				}
				want = vector.Document.message
			} else if err != nil {
				t.Fatal(err)
			}
			read, err := client.GetPolicy(t.Context(), &pb.GetPolicyRequest{Topic: update.Topic, Scope: update.Scope})
			if err != nil || !proto.Equal(read.GetPolicies(), want) {
				t.Errorf("%v, want %v: %v", read.GetPolicies(), want, err)
			}
		})
	}
}

// create creates the document that a request changes; none if it is nil.
func create(t *testing.T, client *Client, request *pb.UpdatePolicyRequest, policies *pb.TopicPolicies) {
	t.Helper()
	if policies == nil {
		return
	}
	creation := &pb.UpdatePolicyRequest{Topic: request.Topic, Scope: request.Scope, Policies: policies, UpdateMask: Mask("*")}
	if made, err := client.UpdatePolicy(t.Context(), creation); err != nil || made.GetDocument().GetPolicies() == nil {
		t.Fatal(made, err)
	}
}

func TestAnEditDoesWhatTheVectorsSay(t *testing.T) {
	client, namespace := connected(t, shared(t)), newNamespace()
	for number, vector := range readVectors[[]struct {
		Name                                       string
		Document, Meanwhile, Edit, Previous, After writtenPolicies
		Options                                    []string
		Runs                                       int
		Outcome                                    string
	}](t, "edits.json") {
		t.Run(vector.Name, func(t *testing.T) {
			request := &pb.UpdatePolicyRequest{
				Topic:           fmt.Sprintf("%s/v%d", namespace, number),
				SkipIfAbsent:    slices.Contains(vector.Options, "skipIfAbsent"),
				IncludePrevious: slices.Contains(vector.Options, "includePrevious"),
				ValidateOnly:    slices.Contains(vector.Options, "validateOnly"),
			}
			create(t, client, request, vector.Document.message)
			runs := 0
			result, err := client.Edit(t.Context(), request, func(policies *pb.TopicPolicies) (err error) {
				runs++
				proto.Merge(policies, vector.Edit.message)
				if vector.Meanwhile.given && runs == 1 {
					if vector.Meanwhile.message != nil {
						_, err = client.UpdatePolicy(t.Context(), &pb.UpdatePolicyRequest{Topic: request.Topic, Policies: vector.Meanwhile.message})
					} else {
						_, err = client.DeletePolicy(t.Context(), &pb.DeletePolicyRequest{Topic: request.Topic})
					}
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if runs != vector.Runs || result.GetOutcome().String() != "CHANGE_OUTCOME_"+vector.Outcome {
				t.Errorf("%d runs, %s", runs, result.GetOutcome())
			}
			previous := result.GetPrevious()
			if (previous != nil) != vector.Previous.given || !proto.Equal(previous.GetPolicies(), vector.Previous.message) {
				t.Errorf("previous: %v", previous)
			}
			after, err := client.GetPolicy(t.Context(), &pb.GetPolicyRequest{Topic: request.Topic})
			if err != nil || !proto.Equal(after.GetPolicies(), vector.After.message) || result.GetVersion() != after.GetVersion() {
				t.Errorf("%v, of version %s: %v", after, result.GetVersion(), err)
			}
		})
	}
}

func TestErrorsAreOfTheKindsOfTheVectors(t *testing.T) {
	for _, vector := range readVectors[[]struct {
		Name, Call, Code, Reason, Domain, Error string
		Repeat, Resume                          bool
		Began                                   *bool
	}](t, "retries.json") {
		t.Run(vector.Name, func(t *testing.T) {
			var code codes.Code
			if err := code.UnmarshalJSON([]byte(`"` + vector.Code + `"`)); err != nil {
				t.Fatal(err)
			}
			from := status.New(code, "It is so.")
			if vector.Reason != "" {
				info := &errdetails.ErrorInfo{Domain: vector.Domain, Reason: vector.Reason}
				if info.Domain == "" {
					info.Domain = domain
				}
				from, _ = from.WithDetails(info)
			}
			if vector.Call == "watch" {
				for _, began := range []bool{false, true} {
					failure := newError(from.Err(), false, "")
					if (vector.Began == nil || *vector.Began == began) && failure.resumable(began) != vector.Resume {
						t.Errorf("began %v: %v", began, failure)
					}
				}
				return
			}
			failure := newError(from.Err(), vector.Call == "change", "an id")
			if errors.Is(failure, ErrOutcomeUnknown) != (vector.Error == "outcome unknown") || failure.Code != code || failure.RequestID != "an id" {
				t.Errorf("%v", failure)
			}
			if strings.Contains(serviceConfig, `"`+vector.Code+`"`) != vector.Repeat {
				t.Errorf("gRPC repeats something else")
			}
		})
	}
}

type expectation struct {
	Documents map[string]string
	Listener  [][3]*string
	Tokens    map[string]string
	Synced    []string
	Age       json.RawMessage // null is given as such
}

func TestAWatchAndItsCacheBehaveAsTheVectorsSay(t *testing.T) {
	for _, vector := range readVectors[[]struct {
		Name       string
		Namespaces []string
		Steps      []struct {
			Connect map[string]string
			Receive []writtenEvent
			At      *float64
			Expect  *expectation
		}
	}](t, "watch.json") {
		t.Run(vector.Name, func(t *testing.T) {
			began := time.Now()
			f := &follower{
				places: &places[*pb.WatchEvent]{(*pb.WatchEvent).GetResumeToken, map[string]string{}, map[string]struct{}{}},
				cache:  newCache(&pb.WatchPoliciesRequest{Namespaces: vector.Namespaces}, nil),
				now:    began,
			}
			f.cache.Listen(func(change Change) {
				name := change.Topic + " " + strings.TrimPrefix(change.Scope.String(), "SCOPE_")
				f.calls = append(f.calls, fmt.Sprint(name, versionOf(change.Before), versionOf(change.After)))
			})
			for _, step := range vector.Steps {
				if step.At != nil {
					f.now = began.Add(time.Duration(*step.At * float64(time.Second)))
				}
				if step.Connect != nil {
					for _, namespace := range f.places.again() {
						f.cache.apply(beginsAgain(namespace), f.now)
					}
					if !maps.Equal(f.places.tokens, step.Connect) {
						t.Errorf("resumes from %v, want %v", f.places.tokens, step.Connect)
					}
				}
				for _, each := range step.Receive {
					f.places.take(each.message)
					f.cache.apply(each.message, f.now)
				}
				if step.Expect != nil {
					f.check(t, step.Expect)
				}
			}
		})
	}
}

// follower is a cache that receives the events of a vector, at the vector's times.
type follower struct {
	places *places[*pb.WatchEvent]
	cache  *PolicyCache
	calls  []string
	now    time.Time
}

func (f *follower) check(t *testing.T, want *expectation) {
	t.Helper()
	if want.Documents != nil {
		found := map[string]string{}
		for _, document := range f.cache.List() {
			found[document.Topic+" "+strings.TrimPrefix(document.Scope.String(), "SCOPE_")] = document.Version
		}
		if !maps.Equal(found, want.Documents) {
			t.Errorf("documents %v, want %v", found, want.Documents)
		}
	}
	if want.Listener != nil {
		var calls []string
		for _, each := range want.Listener {
			calls = append(calls, fmt.Sprint(*each[0], orNone(each[1]), orNone(each[2])))
		}
		if !slices.Equal(f.calls, calls) {
			t.Errorf("calls of the listener %q, want %q", f.calls, calls)
		}
		f.calls = nil
	}
	if want.Tokens != nil && !maps.Equal(f.places.tokens, want.Tokens) {
		t.Errorf("tokens %v, want %v", f.places.tokens, want.Tokens)
	}
	if want.Synced != nil {
		var found []string
		for name, part := range f.cache.copies {
			if part.synced {
				found = append(found, name)
			}
		}
		if slices.Sort(found); !slices.Equal(found, want.Synced) {
			t.Errorf("synced %q, want %q", found, want.Synced)
		}
	}
	if want.Age != nil {
		found, wanted := f.cache.ageAt(f.now), Forever
		if seconds := 0.0; string(want.Age) != "null" {
			if err := json.Unmarshal(want.Age, &seconds); err != nil {
				t.Fatal(err)
			}
			wanted = time.Duration(seconds * float64(time.Second))
		}
		if math.Abs(float64(found-wanted)) > float64(time.Millisecond) {
			t.Errorf("age %s, want %s", found, wanted)
		}
	}
}

func versionOf(document *pb.PolicyDocument) string {
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
