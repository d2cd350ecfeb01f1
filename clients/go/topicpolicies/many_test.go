package topicpolicies

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// updates yields updates of the topics of a namespace in turn; number i sets the field to i.
func updates(namespace string, topics, changes int) iter.Seq[ChangeRequest] {
	return func(yield func(ChangeRequest) bool) {
		for i := range changes {
			key := Key{Topic: fmt.Sprintf("%s/m%d", namespace, i%topics)}
			if !yield(Update{Key: key, Policies: &TopicPolicies{MaxProducerPerTopic: proto.Int32(int32(i))}}) {
				return
			}
		}
	}
}

// settledAll returns the results by index. It checks that each comes once, and that the iteration has no error.
func settledAll(t *testing.T, results iter.Seq2[ChangeResult, error], want int) map[int]ChangeResult {
	t.Helper()
	found := map[int]ChangeResult{}
	for result, err := range results {
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := found[result.Index]; twice {
			t.Errorf("change %d has two results", result.Index)
		}
		found[result.Index] = result
	}
	if len(found) != want {
		t.Errorf("%d results instead of %d", len(found), want)
	}
	return found
}

func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func TestManyChangesAreMadeInOrderAndEachHasItsResult(t *testing.T) {
	client, namespace := open(t, sidecar.Address), newNamespace()
	const topics, changes = 7, 3_000
	wrong, deletedKey := Key{Topic: namespace + "/m0"}, Key{Topic: namespace + "/m1"}
	all := func(yield func(ChangeRequest) bool) {
		for each := range updates(namespace, topics, changes) {
			if !yield(each) {
				return
			}
		}
		_ = yield(Update{Key: wrong, Mask: []string{"nope"}}) && yield(Deletion{Key: deletedKey, IncludePrevious: true, Reason: "not needed"})
	}
	found := settledAll(t, client.UpdateMany(within(t, time.Minute), all), changes+2)
	versions := map[Key]string{}
	for i := range changes {
		result := found[i].Updated
		if result == nil || found[i].Err != nil || result.Outcome != UpdateOutcomeApplied ||
			result.Document.Policies.GetMaxProducerPerTopic() != int32(i) {
			t.Fatalf("%d: %+v", i, found[i])
		}
		if before, known := versions[result.Document.Key]; known && result.PreviousVersion != before {
			t.Errorf("%d was made after %s, not after %s", i, result.PreviousVersion, before)
		}
		versions[result.Document.Key] = result.Version
	}
	var failure *Error
	if err := found[changes].Err; !errors.Is(err, ErrInvalidArgument) || !errors.As(err, &failure) || failure.Reason != "UNKNOWN_PATH" ||
		!failure.FromService {
		t.Errorf("%v", err)
	}
	deleted := found[changes+1].Deleted
	if deleted == nil || deleted.Outcome != DeleteOutcomeDeleted || deleted.Previous == nil {
		t.Errorf("%+v", found[changes+1])
	}
}

func TestNoChangesHaveNoResults(t *testing.T) {
	for result, err := range open(t, unusedAddress(t)).UpdateMany(t.Context(), slices.Values([]ChangeRequest{})) {
		t.Error(result, err)
	}
}

func TestManyChangesContinueAfterARestartOfTheServerAndEachIsMadeOnce(t *testing.T) {
	server := ownServer(t)
	client, namespace := open(t, server.Address), newNamespace()
	const topics, changes, before = 5, 2_500, 300
	results := 0
	for result, err := range client.UpdateMany(within(t, time.Minute), updates(namespace, topics, changes)) {
		if err != nil || result.Err != nil {
			t.Fatal(result.Err, err)
		}
		if results++; results == before {
			server.Kill()
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if results != changes {
		t.Errorf("%d results", results)
	}
	last := map[string]string{}
	made := 0
	for entry, err := range client.History(t.Context(), HistoryQuery{Namespace: namespace, Order: HistoryOrderOldestFirst}).All() {
		if err != nil {
			t.Fatal(err)
		}
		if entry.Outcome != pb.HistoryOutcome_HISTORY_OUTCOME_APPLIED {
			continue
		}
		made++
		if previous := last[entry.Document.Topic]; previous != "" && entry.Previous.Version != previous {
			t.Errorf("%+v was made after %s", entry.Document, entry.Previous.Version)
		}
		last[entry.Document.Topic] = entry.Document.Version
	}
	if made != changes {
		t.Errorf("%d changes were made", made)
	}
}

// answering answers changes as a test specifies; if answer returns nil, the change gets no result.
func answering(
	answer func(*pb.PolicyChangeRequest) *pb.PolicyChangeResult, end func(seen int) error,
) func(pb.TopicPoliciesService_UpdatePoliciesServer) error {
	return func(stream pb.TopicPoliciesService_UpdatePoliciesServer) error {
		for seen := 0; ; {
			batch, err := stream.Recv()
			if err != nil {
				return nil // the caller has ended the stream
			}
			for _, change := range batch.GetChanges() {
				seen++
				if result := answer(change); result != nil {
					result.Sequence = change.GetSequence()
					if err := stream.Send(&pb.UpdatePoliciesResponse{Results: []*pb.PolicyChangeResult{result}}); err != nil {
						return err
					}
				}
				if end != nil {
					if err := end(seen); err != nil {
						return err
					}
				}
			}
		}
	}
}

func success(change *pb.PolicyChangeRequest) *pb.PolicyChangeResult {
	answer := &pb.UpdatePolicyResponse{Outcome: UpdateOutcomeApplied, RequestId: change.GetUpdate().GetRequestId()}
	return &pb.PolicyChangeResult{Result: &pb.PolicyChangeResult_Updated{Updated: answer}}
}

func refusal(err error) *pb.PolicyChangeResult {
	return &pb.PolicyChangeResult{Result: &pb.PolicyChangeResult_Error{Error: status.Convert(err).Proto()}}
}

func TestChangesWithoutAResultOnABrokenStreamAreRepeatedInOrderWithTheSameRequestIDs(t *testing.T) {
	const changes, answered, broke = 40, 10, 25
	ids := make([][]string, 2)
	fake := &fakeService{}
	fake.many = func(stream pb.TopicPoliciesService_UpdatePoliciesServer, number int) error {
		note := func(change *pb.PolicyChangeRequest) *pb.PolicyChangeResult {
			ids[number-1] = append(ids[number-1], change.GetUpdate().GetRequestId())
			if number == 1 && len(ids[0]) > answered {
				return nil
			}
			return success(change)
		}
		return answering(note, func(seen int) error {
			if number == 1 && seen == broke {
				return errNotNow
			}
			return nil
		})(stream)
	}
	found := settledAll(t, open(t, fake.serve(t), quick).UpdateMany(within(t, 20*time.Second), updates("t/n", 1, changes)), changes)
	for i := range changes {
		if found[i].Err != nil {
			t.Error(found[i].Err)
		}
	}
	if len(ids[0]) != broke || len(ids[1]) != changes-answered {
		t.Fatalf("%d and %d changes arrived", len(ids[0]), len(ids[1]))
	}
	if !slices.Equal(ids[0][answered:], ids[1][:broke-answered]) {
		t.Errorf("%q was repeated as %q", ids[0][answered:], ids[1][:broke-answered])
	}
	for i, id := range ids[1] {
		if found[answered+i].Updated.RequestID != id {
			t.Errorf("change %d has the request id %s, %s arrived", answered+i, found[answered+i].Updated.RequestID, id)
		}
	}
}

func TestChangesOfALedNamespaceGoToItsLeaderInOrderAndTheOthersStay(t *testing.T) {
	const changes = 60
	var led, kept []int32
	leader := &fakeService{many: func(stream pb.TopicPoliciesService_UpdatePoliciesServer, _ int) error {
		return answering(func(change *pb.PolicyChangeRequest) *pb.PolicyChangeResult {
			led = append(led, change.GetUpdate().GetPolicies().GetMaxProducerPerTopic())
			return success(change)
		}, nil)(stream)
	}}
	address := leader.serve(t)
	follower := &fakeService{many: func(stream pb.TopicPoliciesService_UpdatePoliciesServer, _ int) error {
		return answering(func(change *pb.PolicyChangeRequest) *pb.PolicyChangeResult {
			if namespaceOf(change.GetUpdate().GetTopic()) == "t/led" {
				return refusal(refused(address))
			}
			kept = append(kept, change.GetUpdate().GetPolicies().GetMaxProducerPerTopic())
			return success(change)
		}, nil)(stream)
	}}
	both := func(yield func(ChangeRequest) bool) {
		for i := range int32(changes) {
			for _, namespace := range []string{"t/led", "t/own"} {
				if !yield(Update{Key: Key{Topic: namespace + "/x"}, Policies: &TopicPolicies{MaxProducerPerTopic: proto.Int32(i)}}) {
					return
				}
			}
		}
	}
	for _, result := range settledAll(t, open(t, follower.serve(t), quick).UpdateMany(within(t, 20*time.Second), both), 2*changes) {
		if result.Err != nil {
			t.Error(result.Err)
		}
	}
	if len(led) != changes || len(kept) != changes || !slices.IsSorted(led) || !slices.IsSorted(kept) {
		t.Errorf("the leader was sent %v, the follower kept %v", led, kept)
	}
	if leader.streams != 1 || follower.streams != 1 {
		t.Errorf("%d streams to the leader, %d to the follower", leader.streams, follower.streams)
	}
}

func TestChangesRefusedByAServerThatIsStoppingGoToTheNextAddress(t *testing.T) {
	const changes = 20
	stopping := &fakeService{many: func(stream pb.TopicPoliciesService_UpdatePoliciesServer, _ int) error {
		return answering(func(*pb.PolicyChangeRequest) *pb.PolicyChangeResult {
			return refusal(fromTheService(codes.Unavailable, shuttingDown))
		}, nil)(stream)
	}}
	next := &fakeService{many: func(stream pb.TopicPoliciesService_UpdatePoliciesServer, _ int) error {
		return answering(success, nil)(stream)
	}}
	client := open(t, stopping.serve(t)+","+next.serve(t), quick)
	for _, result := range settledAll(t, client.UpdateMany(within(t, 20*time.Second), updates("t/n", 2, changes)), changes) {
		if result.Err != nil {
			t.Error(result.Err)
		}
	}
}

func TestTheErrorOfOneChangeIsReturnedAndTheChangeIsNotRepeated(t *testing.T) {
	for reason, want := range map[string]error{"OUTCOME_UNKNOWN": ErrOutcomeUnknown, "NOT_APPENDED": ErrUnavailable} {
		code := codes.Unavailable
		if reason == "OUTCOME_UNKNOWN" {
			code = codes.DeadlineExceeded
		}
		arrived := atomic.Int64{}
		fake := &fakeService{many: func(stream pb.TopicPoliciesService_UpdatePoliciesServer, _ int) error {
			return answering(func(*pb.PolicyChangeRequest) *pb.PolicyChangeResult {
				arrived.Add(1)
				return refusal(fromTheService(code, reason))
			}, nil)(stream)
		}}
		found := settledAll(t, open(t, fake.serve(t), quick).UpdateMany(within(t, 20*time.Second), updates("t/n", 1, 1)), 1)
		var failure *Error
		if err := found[0].Err; !errors.Is(err, want) || !errors.As(err, &failure) || failure.Reason != reason ||
			(failure.RequestID != "") != (want == ErrOutcomeUnknown) {
			t.Errorf("%#v", err)
		}
		if arrived.Load() != 1 {
			t.Errorf("%s: arrived %d times", reason, arrived.Load())
		}
	}
}

func TestEveryChangeFailsIfTheStreamIsRefused(t *testing.T) {
	fake := &fakeService{many: func(pb.TopicPoliciesService_UpdatePoliciesServer, int) error {
		return status.Error(codes.PermissionDenied, "not you")
	}}
	for _, result := range settledAll(t, open(t, fake.serve(t), quick).UpdateMany(within(t, 20*time.Second), updates("t/n", 3, 10)), 10) {
		if !errors.Is(result.Err, ErrPermissionDenied) || errors.Is(result.Err, ErrOutcomeUnknown) {
			t.Error(result.Err)
		}
	}
}

func TestWithNoRetriesChangesWithoutAResultOnABrokenStreamHaveAnUnknownOutcome(t *testing.T) {
	fake := &fakeService{many: func(stream pb.TopicPoliciesService_UpdatePoliciesServer, _ int) error {
		return answering(func(*pb.PolicyChangeRequest) *pb.PolicyChangeResult { return nil }, func(int) error { return errNotNow })(stream)
	}}
	found := settledAll(t, open(t, fake.serve(t), WithRetries(NoRetries)).UpdateMany(within(t, 20*time.Second), updates("t/n", 1, 1)), 1)
	if !errors.Is(found[0].Err, ErrOutcomeUnknown) || fake.streams != 1 {
		t.Error(found[0].Err, fake.streams)
	}
}

func TestManyChangesWithoutAConnectionAreReportedAsNotMade(t *testing.T) {
	client := open(t, unusedAddress(t), quick, WithTimeout(300*time.Millisecond))
	for _, result := range settledAll(t, client.UpdateMany(within(t, 20*time.Second), updates("t/n", 3, 10)), 10) {
		if !errors.Is(result.Err, ErrUnavailable) || errors.Is(result.Err, ErrOutcomeUnknown) {
			t.Error(result.Err)
		}
	}
}

func TestASilentStreamIsReplacedByANewOne(t *testing.T) {
	fake := &fakeService{}
	fake.many = func(stream pb.TopicPoliciesService_UpdatePoliciesServer, number int) error {
		return answering(func(change *pb.PolicyChangeRequest) *pb.PolicyChangeResult {
			if number == 1 {
				return nil
			}
			return success(change)
		}, nil)(stream)
	}
	client := open(t, fake.serve(t), quick, func(s *settings) { s.retries.AttemptTimeout = 200 * time.Millisecond })
	found := settledAll(t, client.UpdateMany(within(t, 20*time.Second), updates("t/n", 1, 3)), 3)
	if found[0].Err != nil || fake.streams != 2 {
		t.Error(found[0].Err, fake.streams)
	}
}

func TestAStreamDoesNotCountAsSilentWhileTheCallerTakesNoResults(t *testing.T) {
	fake := &fakeService{many: func(stream pb.TopicPoliciesService_UpdatePoliciesServer, _ int) error {
		return answering(success, nil)(stream)
	}}
	client := open(t, fake.serve(t), quick, WithTimeout(time.Second), func(s *settings) { s.retries.AttemptTimeout = 100 * time.Millisecond })
	for result, err := range client.UpdateMany(within(t, 20*time.Second), updates("t/n", 1, 10)) {
		if err != nil || result.Err != nil {
			t.Error(result.Err, err)
		}
		time.Sleep(150 * time.Millisecond)
	}
	if fake.streams != 1 {
		t.Errorf("%d streams", fake.streams)
	}
}

func TestNoMoreChangesAreTakenThanMayBeInFlight(t *testing.T) {
	var arrived atomic.Int64
	fake := &fakeService{many: func(stream pb.TopicPoliciesService_UpdatePoliciesServer, _ int) error {
		return answering(func(*pb.PolicyChangeRequest) *pb.PolicyChangeResult {
			arrived.Add(1)
			return nil
		}, nil)(stream)
	}}
	for _, each := range []struct {
		filler  string
		most    int64
		options []ManyOption
	}{{"", mostInFlight, nil}, {strings.Repeat("x", 1<<20), mostBytesInFlight >> 20, nil}, {"", 3, []ManyOption{MaxInFlight(3)}}} {
		var taken atomic.Int64
		arrived.Store(0)
		endless := func(yield func(ChangeRequest) bool) {
			for yield(Update{Key: oneField.Key, Policies: oneField.Policies, Actor: each.filler}) {
				taken.Add(1)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			until(t, "the bound is reached", func() bool { return taken.Load() >= each.most && arrived.Load() >= each.most })
			time.Sleep(200 * time.Millisecond)
			cancel()
		}()
		results, ended := 0, error(nil)
		for result, err := range open(t, fake.serve(t), quick).UpdateMany(ctx, endless, each.options...) {
			if ended = err; err != nil {
				break
			}
			results++
			if !errors.Is(result.Err, ErrOutcomeUnknown) || !errors.Is(result.Err, context.Canceled) {
				t.Error(result.Err)
			}
		}
		if !errors.Is(ended, context.Canceled) {
			t.Error(ended)
		}
		if int64(results) != each.most || taken.Load() > each.most+1 {
			t.Errorf("%d changes were taken and %d have a result, %d may be in flight", taken.Load(), results, each.most)
		}
	}
}

func TestLeavingTheLoopEndsTheStreamAndTakesNoMoreChanges(t *testing.T) {
	ended, closed := make(chan struct{}), make(chan struct{})
	fake := &fakeService{many: func(stream pb.TopicPoliciesService_UpdatePoliciesServer, _ int) error {
		defer close(ended)
		return answering(success, nil)(stream)
	}}
	endless := func(yield func(ChangeRequest) bool) {
		defer close(closed)
		for yield(oneField) {
		}
	}
	for range open(t, fake.serve(t), quick).UpdateMany(t.Context(), endless) {
		break
	}
	for what, channel := range map[string]chan struct{}{"the stream": ended, "the changes": closed} {
		select {
		case <-channel:
		case <-time.After(20 * time.Second):
			t.Errorf("%s did not end", what)
		}
	}
}

func TestClosingTheClientEndsManyChanges(t *testing.T) {
	fake := &fakeService{many: func(stream pb.TopicPoliciesService_UpdatePoliciesServer, _ int) error {
		return answering(func(*pb.PolicyChangeRequest) *pb.PolicyChangeResult { return nil }, nil)(stream)
	}}
	client := open(t, fake.serve(t))
	endless := func(yield func(ChangeRequest) bool) {
		for yield(oneField) {
		}
	}
	time.AfterFunc(100*time.Millisecond, func() { _ = client.Close() })
	var last error
	for result, err := range client.UpdateMany(within(t, 20*time.Second), endless) {
		last = err
		if err == nil && !errors.Is(result.Err, ErrOutcomeUnknown) && !errors.Is(result.Err, ErrClosed) {
			t.Error(result.Err)
		}
	}
	if !errors.Is(last, ErrClosed) {
		t.Error(last)
	}
}

func TestBatchesAreBoundedInChangesAndBytes(t *testing.T) {
	batches := func(sizes ...int) (found []int) {
		l := &lane{inFlight: map[uint64]*parcel{}, wake: make(chan struct{}, 1)}
		var parcels []*parcel
		for i, size := range sizes {
			parcels = append(parcels, &parcel{change: &pb.PolicyChangeRequest{Sequence: uint64(i)}, size: size})
		}
		l.put(parcels, time.Now())
		for batch, _ := l.take(); len(batch) > 0; batch, _ = l.take() {
			found = append(found, len(batch))
		}
		if l.sent != len(sizes) {
			t.Errorf("%d of %d were sent", l.sent, len(sizes))
		}
		return found
	}
	if found := batches(slices.Repeat([]int{10}, 2_500)...); !slices.Equal(found, []int{1000, 1000, 500}) {
		t.Errorf("%v", found)
	}
	const half, whole = 1 << 19, 1 << 20
	if found := batches(half, half, 1, half, 2*whole, 1, whole); !slices.Equal(found, []int{2, 2, 1, 1, 1}) {
		t.Errorf("%v", found)
	}
}

func TestAResultOfAnotherKindThanItsChangeLeavesTheOutcomeUnknown(t *testing.T) {
	wrong := func(change *pb.PolicyChangeRequest) *pb.PolicyChangeResult {
		switch {
		case change.GetDelete() != nil:
			return &pb.PolicyChangeResult{Result: &pb.PolicyChangeResult_Updated{Updated: &pb.UpdatePolicyResponse{}}}
		case change.GetUpdate().GetTopic() == "t/n/y":
			return &pb.PolicyChangeResult{Result: &pb.PolicyChangeResult_Deleted{Deleted: &pb.DeletePolicyResponse{}}}
		default:
			return &pb.PolicyChangeResult{}
		}
	}
	fake := &fakeService{many: func(stream pb.TopicPoliciesService_UpdatePoliciesServer, _ int) error {
		return answering(wrong, nil)(stream)
	}}
	policies := &TopicPolicies{MaxProducerPerTopic: proto.Int32(1)}
	changes := []ChangeRequest{
		Update{Key: Key{Topic: "t/n/x"}, Policies: policies},
		Update{Key: Key{Topic: "t/n/y"}, Policies: policies},
		Deletion{Key: Key{Topic: "t/n/z"}},
	}
	found := settledAll(t, open(t, fake.serve(t), quick).UpdateMany(within(t, 20*time.Second), slices.Values(changes)), 3)
	for index, result := range found {
		if !errors.Is(result.Err, ErrOutcomeUnknown) || result.Updated != nil || result.Deleted != nil {
			t.Errorf("%d: %+v", index, result)
		}
	}
}

func TestALimitOfFewerThanOneChangeInFlightIsRefused(t *testing.T) {
	refused := 0
	for result, err := range open(t, "127.0.0.1:1").UpdateMany(t.Context(), updates("t/n", 1, 1), MaxInFlight(0)) {
		if !errors.Is(err, ErrInvalidArgument) {
			t.Error(result, err)
		}
		refused++
	}
	if refused != 1 {
		t.Errorf("refused %d times", refused)
	}
}
