package topicpolicies

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// What can't be sent: it is refused as such, and nothing else fails with it.

const notText = "half of \xc3"

func TestWhatCannotBeEncodedIsAnInvalidArgument(t *testing.T) {
	fake := &fakeService{update: func(context.Context, int) (*pb.UpdatePolicyResponse, error) { return &pb.UpdatePolicyResponse{}, nil }}
	client := open(t, fake.serve(t), quick)
	watch, err := client.Watch(t.Context(), Selection{Namespaces: []string{notText}})
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]func() error{
		"update": func() error {
			_, err := client.Update(t.Context(), Update{Key: Key{Topic: "t/n/x"}, Reason: notText})
			return err
		},
		"deletion": func() error {
			_, err := client.Delete(t.Context(), Deletion{Key: Key{Topic: "t/n/x"}, Actor: notText})
			return err
		},
		"read":  func() error { _, err := client.Get(t.Context(), Key{Topic: notText}); return err },
		"watch": func() error { _, err := watch.Next(); return err },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, ErrInvalidArgument) || errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if fake.updateCount()+fake.deletions != 0 {
		t.Error("something arrived")
	}
}

func TestAmongManyChangesOneThatCannotBeSentFailsAlone(t *testing.T) {
	fake := &fakeService{many: func(stream pb.TopicPoliciesService_UpdatePoliciesServer, _ int) error {
		return answering(success, nil)(stream)
	}}
	client := open(t, fake.serve(t), quick)
	changes := slices.Values([]ChangeRequest{
		Update{Key: Key{Topic: "t/n/x"}},
		Update{Key: Key{Topic: "t/n/x"}, Reason: notText},
		Update{Key: Key{Topic: "t/n/x"}, Reason: strings.Repeat("x", 5<<20)}, // larger than a message that the service takes
		Deletion{Key: Key{Topic: "t/n/x"}, ETag: notText},
		Update{Key: Key{Topic: "t/n/x"}},
	})
	found := settledAll(t, client.UpdateMany(within(t, 20*time.Second), changes), 5)
	for index, result := range found {
		if sendable := index == 0 || index == 4; sendable != (result.Err == nil) || (!sendable && !errors.Is(result.Err, ErrInvalidArgument)) {
			t.Errorf("change %d: %v", index, result.Err)
		}
	}
	if fake.streams != 1 {
		t.Errorf("%d streams", fake.streams)
	}
}

func TestATokenThatCannotBeMetadataIsNotSent(t *testing.T) {
	for _, token := range []string{"secret\n", "s\u00e9cret"} {
		fake := &fakeService{update: func(context.Context, int) (*pb.UpdatePolicyResponse, error) { return &pb.UpdatePolicyResponse{}, nil }}
		client := open(t, fake.serve(t), quick, WithToken(func(context.Context) (string, error) { return token, nil }))
		_, err := client.Update(t.Context(), Update{Key: Key{Topic: "t/n/x"}})
		if !errors.Is(err, ErrPermissionDenied) || strings.Contains(err.Error(), strings.TrimSpace(token)) || len(fake.arrived()) != 0 {
			t.Errorf("%q: %v", token, err)
		}
	}
}

func TestAnErrorOfTheFunctionOfAnEditIsReturnedAtOnceWhateverItsKind(t *testing.T) {
	client := open(t, (&fakeService{}).serve(t), quick)
	for _, mine := range []error{ErrConflict, &Error{Message: "another call's", kind: ErrConflict}, io.ErrUnexpectedEOF} {
		calls := 0
		_, err := client.Edit(t.Context(), Key{Topic: "t/n/x"}, func(*TopicPolicies) error { calls++; return mine })
		if calls != 1 || err != mine {
			t.Errorf("%d calls: %v", calls, err)
		}
	}
}
