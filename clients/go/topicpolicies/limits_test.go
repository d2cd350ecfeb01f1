package topicpolicies

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// neverFor settles all changes but those of one topic.
func neverFor(topic string) *fakeService {
	return &fakeService{many: func(stream pb.TopicPoliciesService_UpdatePoliciesServer, _ int) error {
		return answering(func(change *pb.PolicyChangeRequest) *pb.PolicyChangeResult {
			if change.GetUpdate().GetTopic() == topic {
				return nil
			}
			return success(change)
		}, nil)(stream)
	}}
}

func TestTheTimeOfOneOfManyChangesEndsAlthoughOthersAreAnswered(t *testing.T) {
	client := open(t, neverFor("t/n/never").serve(t), WithTimeout(300*time.Millisecond))
	began := time.Now()
	var over atomic.Bool
	changes := func(yield func(ChangeRequest) bool) {
		for more := yield(Update{Key: Key{Topic: "t/n/never"}}); more && !over.Load() && time.Since(began) < 10*time.Second; {
			time.Sleep(20 * time.Millisecond)
			more = yield(Update{Key: Key{Topic: "t/n/x"}})
		}
	}
	late := 0
	for result, err := range client.UpdateMany(within(t, 20*time.Second), changes) {
		switch {
		case err != nil:
			t.Fatal(err)
		case result.Index != 0 && result.Err != nil:
			t.Error(result.Err)
		case result.Index == 0:
			late++
			over.Store(true)
			if !errors.Is(result.Err, ErrOutcomeUnknown) || !errors.Is(result.Err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
				t.Error(time.Since(began), result.Err)
			}
		}
	}
	if late != 1 {
		t.Errorf("%d results", late)
	}
}

func TestTheTimeOfManyChangesEndsWithoutRetriesToo(t *testing.T) {
	client := open(t, neverFor("t/n/m0").serve(t), WithRetries(NoRetries), WithTimeout(200*time.Millisecond))
	began := time.Now()
	for _, result := range settledAll(t, client.UpdateMany(within(t, 20*time.Second), updates("t/n", 1, 3)), 3) {
		if !errors.Is(result.Err, ErrOutcomeUnknown) {
			t.Error(result.Err)
		}
	}
	if time.Since(began) > 10*time.Second {
		t.Error(time.Since(began))
	}
}

func TestAChangeThatWasWithdrawnIsNotSent(t *testing.T) {
	l := &lane{inFlight: map[uint64]*parcel{}, wake: make(chan struct{}, 1)}
	var parcels []*parcel
	for i := range uint64(4) {
		each := Update{Key: Key{Topic: "t/n/x"}}.parcel()
		each.change.Sequence = i
		parcels = append(parcels, each)
	}
	l.put(parcels[:2], time.Now())
	l.take()
	l.put(parcels[2:], time.Now())
	if !l.withdraw(parcels[1]) || l.withdraw(parcels[2]) {
		t.Error("only the first two were sent")
	}
	batch, _ := l.take()
	if len(batch) != 1 || batch[0].GetSequence() != 3 || !l.hasSent(parcels[3]) || len(l.inFlight) != 2 {
		t.Error(batch, len(l.inFlight))
	}
}

func TestAWatchOfASilentServiceGivesUpWhenItsPatienceIsOver(t *testing.T) {
	client := open(t, (&fakeService{}).serve(t), quick)
	watch, err := client.Watch(within(t, 20*time.Second), Selection{Namespaces: []string{"t/n"}, Patience: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if event, err := watch.Next(); err != nil {
		t.Fatal(event, err)
	}
	time.Sleep(500 * time.Millisecond) // the caller's own time
	began := time.Now()
	_, err = watch.Next()
	if waited := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || waited < 250*time.Millisecond || waited > 10*time.Second {
		t.Error(waited, err)
	}
	if !strings.Contains(err.Error(), "silent") {
		t.Error(err)
	}
}

func TestALoopWhoseContextEndsInItsBodyEndsWithTheError(t *testing.T) {
	client := open(t, neverFor("").serve(t))
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		var last error
		for _, err := range client.UpdateMany(ctx, updates("t/n", 1, 1000), MaxInFlight(1)) {
			cancel()
			time.Sleep(5 * time.Millisecond) // the next change waits to be taken
			last = err
		}
		cancel()
		if !errors.Is(last, context.Canceled) {
			t.Fatal("the end looked like that of the changes")
		}
	}
}
