package topicpolicies

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

type updating = func(context.Context, int) (*pb.UpdatePolicyResponse, error)

// refused returns the error of a follower; leader is empty if the follower does not know the leader.
func refused(leader string) error {
	info := &errdetails.ErrorInfo{Domain: domain, Reason: "NOT_LEADER", Metadata: map[string]string{"namespace": "t/n"}}
	if leader != "" {
		info.Metadata["leader"] = leader
	}
	failure, err := status.New(codes.Unavailable, "Another sidecar writes it.").WithDetails(info)
	if err != nil {
		panic(err)
	}
	return failure.Err()
}

// leading answers every update.
func leading(context.Context, int) (*pb.UpdatePolicyResponse, error) {
	return &pb.UpdatePolicyResponse{Version: "2"}, nil
}

// following names a leader, which may change.
func following(leader func() string) updating {
	return func(context.Context, int) (*pb.UpdatePolicyResponse, error) { return nil, refused(leader()) }
}

func always(address string) func() string { return func() string { return address } }

// sameRequest checks that all requests that arrived have the same request id.
func sameRequest(t *testing.T, fakes ...*fakeService) {
	t.Helper()
	ids := map[string]bool{}
	for _, fake := range fakes {
		fake.mu.Lock()
		for _, request := range fake.requests {
			ids[request.GetRequestId()] = true
		}
		fake.mu.Unlock()
	}
	if len(ids) != 1 || ids[""] {
		t.Errorf("request ids: %v", ids)
	}
}

func TestAChangeRefusedByAFollowerGoesToTheLeaderAndLaterChangesGoThereAtOnceOverOneConnection(t *testing.T) {
	leader := &fakeService{update: leading}
	follower := &fakeService{update: following(always(leader.serve(t)))}
	client := open(t, follower.serve(t), WithActor("retention-bot"), WithToken(func(context.Context) (string, error) { return "secret", nil }))
	began := time.Now()
	if result, err := client.Update(t.Context(), oneField); err != nil || result.Version != "2" {
		t.Fatal(result, err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the change took %s", took)
	}
	sameRequest(t, follower, leader)
	for range 4 {
		if _, err := client.Update(t.Context(), oneField); err != nil {
			t.Fatal(err)
		}
	}
	if follower.updateCount() != 1 || leader.updateCount() != 5 || leader.connections != 1 {
		t.Errorf(
			"the follower received %d updates, the leader %d over %d connections", follower.updateCount(), leader.updateCount(), leader.connections,
		)
	}
	for _, sent := range leader.metadata {
		if actor, token := sent.Get("topicpolicies-actor"), sent.Get("authorization"); len(actor) != 1 || len(token) != 1 ||
			token[0] != "Bearer secret" {
			t.Errorf("the leader was sent %q and %q", actor, token)
		}
	}
}

func TestADeletionRefusedByAFollowerGoesToTheLeaderWithTheSameRequestID(t *testing.T) {
	leader := &deleting{}
	follower := &deleting{leader: serving(t, leader)}
	if _, err := open(t, serving(t, follower), quick).Delete(t.Context(), Deletion{Key: oneField.Key}); err != nil {
		t.Fatal(err)
	}
	if follower.id.Load() == nil || leader.id.Load() == nil || *follower.id.Load() != *leader.id.Load() {
		t.Error("the follower and the leader did not receive the same request id")
	}
}

type deleting struct {
	pb.UnimplementedTopicPoliciesServiceServer
	leader string
	id     atomic.Pointer[string]
}

func (d *deleting) DeletePolicy(_ context.Context, request *pb.DeletePolicyRequest) (*pb.DeletePolicyResponse, error) {
	id := request.GetRequestId()
	d.id.Store(&id)
	if d.leader != "" {
		return nil, refused(d.leader)
	}
	return &pb.DeletePolicyResponse{}, nil
}

func TestReadsDryRunsAndWatchesStayAtTheFollower(t *testing.T) {
	leader := &fakeService{update: leading}
	address := leader.serve(t)
	follower := &fakeService{update: func(context.Context, int) (*pb.UpdatePolicyResponse, error) { return nil, refused(address) }}
	client := open(t, follower.serve(t), quick)
	if _, err := client.Update(t.Context(), oneField); err != nil || follower.updateCount() != 1 {
		t.Fatal(err, follower.updateCount())
	}
	follower.update = leading // answers dry runs
	dry := oneField
	dry.ValidateOnly = true
	if _, err := client.Update(t.Context(), dry); err != nil || follower.updateCount() != 2 {
		t.Error(err, follower.updateCount())
	}
	if _, err := client.Get(t.Context(), oneField.Key); err != nil || follower.reads != 1 || leader.reads != 0 {
		t.Error(err, follower.reads, leader.reads)
	}
	nextOf[Synced](t, watching(t, client, Selection{Namespaces: []string{"t/n"}}))
	if follower.watches != 1 || leader.watches != 0 {
		t.Error(follower.watches, leader.watches)
	}
}

func TestALeaderThatChangesTwiceIsFollowedWithOneRequestID(t *testing.T) {
	last := &fakeService{update: leading}
	second := &fakeService{update: following(always(last.serve(t)))}
	first := &fakeService{update: following(always(second.serve(t)))}
	follower := &fakeService{update: following(always(first.serve(t)))}
	if result, err := open(t, follower.serve(t), quick).Update(t.Context(), oneField); err != nil || result.Version != "2" {
		t.Fatal(result, err)
	}
	if follower.updateCount() != 1 || first.updateCount() != 1 || second.updateCount() != 1 || last.updateCount() != 1 {
		t.Error(follower.updateCount(), first.updateCount(), second.updateCount(), last.updateCount())
	}
	sameRequest(t, follower, first, second, last)
}

func TestAChangeFailsWithNotLeaderAfterTheMaximumOfHopsIfFollowersNameEachOther(t *testing.T) {
	var address atomic.Value
	address.Store("")
	one := &fakeService{update: following(func() string { return address.Load().(string) })}
	other := &fakeService{update: following(always(one.serve(t)))}
	address.Store(other.serve(t))
	_, err := open(t, address.Load().(string), quick).Update(t.Context(), oneField)
	var failure *Error
	if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) || !errors.As(err, &failure) || failure.Reason != "NOT_LEADER" {
		t.Errorf("%#v", err)
	}
	if one.updateCount()+other.updateCount() != mostHops+1 || one.updateCount() == 0 {
		t.Errorf("the servers received %d and %d updates", one.updateCount(), other.updateCount())
	}
	sameRequest(t, one, other)
}

func TestTheTimeLimitOfACallBoundsItsHopsBetweenServersToo(t *testing.T) {
	one := &fakeService{}
	address := one.serve(t)
	other := &fakeService{update: following(always(address))}
	named := other.serve(t)
	one.update = following(always(named))
	// The second pause is longer than the call.
	growing := RetryPolicy{MaxAttempts: 5, InitialBackoff: 50 * time.Millisecond, MaxBackoff: time.Minute, Multiplier: 1000}
	began := time.Now()
	_, err := open(t, address, WithRetries(growing), WithTimeout(5*time.Second)).Update(t.Context(), oneField)
	if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) || time.Since(began) > 5*time.Second || one.updateCount() != 2 ||
		other.updateCount() != 1 {
		t.Errorf("%v after %s, %d and %d updates", err, time.Since(began), one.updateCount(), other.updateCount())
	}
}

func TestAChangeRefusedUntilItsDeadlineIsReportedAsNotMade(t *testing.T) {
	refusing := &fakeService{update: func(context.Context, int) (*pb.UpdatePolicyResponse, error) {
		return nil, fromTheService(codes.Unavailable, "NOT_LEADER")
	}}
	unsent := func(
		ctx context.Context, method string, request, answer any, connection *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		if refusing.updateCount() < 2 {
			return call(ctx, method, request, answer, connection, options...)
		}
		<-ctx.Done() // later attempts are not sent
		return status.FromContextError(ctx.Err()).Err()
	}
	client := open(t, refusing.serve(t), quick, WithTimeout(time.Second), WithDialOptions(grpc.WithChainUnaryInterceptor(unsent)))
	_, err := client.Update(t.Context(), oneField)
	if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) || refusing.updateCount() != 2 {
		t.Errorf("%v after %d updates", err, refusing.updateCount())
	}
}

func TestAnUnreachableLeaderIsForgottenAndTheFollowerIsCalledAgain(t *testing.T) {
	leader := &fakeService{update: leading}
	address, unreachable := leader.serve(t), unusedAddress(t)
	follower := &fakeService{update: func(_ context.Context, attempt int) (*pb.UpdatePolicyResponse, error) {
		if attempt < 3 {
			return nil, refused(unreachable) // the follower has not noticed yet
		}
		return nil, refused(address)
	}}
	if _, err := open(t, follower.serve(t), quick).Update(t.Context(), oneField); err != nil {
		t.Fatal(err)
	}
	if follower.updateCount() != 3 || leader.updateCount() != 1 {
		t.Error(follower.updateCount(), leader.updateCount())
	}
	sameRequest(t, follower, leader)
}

func TestAChangeWhoseLeaderStaysUnreachableIsReportedAsNotMade(t *testing.T) {
	follower := &fakeService{update: following(always(unusedAddress(t)))}
	began := time.Now()
	_, err := open(t, follower.serve(t), quick, WithTimeout(time.Second)).Update(t.Context(), oneField)
	if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) || follower.updateCount() < 2 ||
		time.Since(began) > 10*time.Second {
		t.Errorf("%v after %d updates and %s", err, follower.updateCount(), time.Since(began))
	}
}

func TestALeaderThatHangsIsAbandonedAndItsSuccessorGetsTheSameRequestID(t *testing.T) {
	hanging := &fakeService{update: func(ctx context.Context, _ int) (*pb.UpdatePolicyResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	successor := &fakeService{update: leading}
	before, after := hanging.serve(t), successor.serve(t)
	follower := &fakeService{update: func(_ context.Context, attempt int) (*pb.UpdatePolicyResponse, error) {
		if attempt == 1 {
			return nil, refused(before)
		}
		return nil, refused(after)
	}}
	retries := DefaultRetries
	retries.AttemptTimeout = time.Second
	if _, err := open(t, follower.serve(t), WithRetries(retries)).Update(t.Context(), oneField); err != nil {
		t.Fatal(err)
	}
	if hanging.updateCount() == 0 || successor.updateCount() != 1 {
		t.Error(hanging.updateCount(), successor.updateCount())
	}
	sameRequest(t, follower, hanging, successor)
}

func TestAChangeOfUnknownOutcomeIsRepeatedAndItsResultComesFromTheNextLeader(t *testing.T) {
	successor := &fakeService{update: func(context.Context, int) (*pb.UpdatePolicyResponse, error) {
		return &pb.UpdatePolicyResponse{Version: "2", Replayed: true}, nil
	}}
	address := successor.serve(t)
	former := &fakeService{update: func(_ context.Context, attempt int) (*pb.UpdatePolicyResponse, error) {
		if attempt == 1 {
			return nil, fromTheService(codes.DeadlineExceeded, "OUTCOME_UNKNOWN")
		}
		return nil, refused(address)
	}}
	result, err := open(t, former.serve(t), quick).Update(t.Context(), oneField)
	if err != nil || !result.Replayed || former.updateCount() != 2 {
		t.Fatal(result, err, former.updateCount())
	}
	sameRequest(t, former, successor)
}

func TestAChangeWhoseRefusalNamesNoLeaderIsRepeatedUntilThereIsOne(t *testing.T) {
	follower := &fakeService{update: func(ctx context.Context, attempt int) (*pb.UpdatePolicyResponse, error) {
		if attempt <= 2*DefaultRetries.MaxAttempts {
			return nil, refused("")
		}
		return leading(ctx, attempt)
	}}
	if _, err := open(t, follower.serve(t), quick).Update(t.Context(), oneField); err != nil ||
		follower.updateCount() != 2*DefaultRetries.MaxAttempts+1 {
		t.Error(err, follower.updateCount())
	}
	sameRequest(t, follower)
}

func TestChangesWhoseRefusalNamesNoLeaderGoToTheNextAddressButReadsStay(t *testing.T) {
	first, second := &fakeService{update: following(always(""))}, &fakeService{update: leading}
	client := open(t, first.serve(t)+", "+second.serve(t), quick)
	for range 2 {
		if _, err := client.Update(t.Context(), oneField); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Get(t.Context(), oneField.Key); err != nil || first.reads != 1 || second.reads != 0 {
		t.Error(err, first.reads, second.reads)
	}
	if first.updateCount() != 1 || second.updateCount() != 2 {
		t.Error(first.updateCount(), second.updateCount())
	}
}

func TestTheNextAddressIsUsedWhenOneIsUnreachable(t *testing.T) {
	last := &fakeService{update: leading}
	client := open(t, strings.Join([]string{unusedAddress(t), unusedAddress(t), last.serve(t)}, ","), quick)
	if _, err := client.Get(t.Context(), oneField.Key); err != nil || last.reads != 1 {
		t.Error(err, last.reads)
	}
	if _, err := client.Update(t.Context(), oneField); err != nil || last.updateCount() != 1 {
		t.Error(err, last.updateCount())
	}
}

func TestAChangeIsReportedAsNotMadeIfNoneOfSeveralAddressesIsReachable(t *testing.T) {
	client := open(t, unusedAddress(t)+","+unusedAddress(t), quick, WithTimeout(500*time.Millisecond))
	if _, err := client.Update(t.Context(), oneField); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) {
		t.Error(err)
	}
}

func TestAWatchMovesToTheNextAddressWhenItsServerIsLost(t *testing.T) {
	first, second := &fakeService{}, &fakeService{}
	address, end := first.start(t)
	watch := watching(t, open(t, address+","+second.serve(t), quick), Selection{Namespaces: []string{"t/n"}})
	nextOf[Synced](t, watch)
	end()
	nextOf[Interrupted](t, watch)
	nextOf[Synced](t, watch)
	if first.watches != 1 || second.watches != 1 {
		t.Error(first.watches, second.watches)
	}
}

func TestWithoutRetriesTheErrorNamesTheLeaderAndOnlyTheNextCallGoesThere(t *testing.T) {
	leader := &fakeService{update: leading}
	address := leader.serve(t)
	follower := &fakeService{update: following(always(address))}
	client := open(t, follower.serve(t), WithRetries(NoRetries))
	_, err := client.Update(t.Context(), oneField)
	var failure *Error
	if !errors.As(err, &failure) || failure.Metadata["leader"] != address || leader.updateCount() != 0 {
		t.Error(err, leader.updateCount())
	}
	if _, err := client.Update(t.Context(), oneField); err != nil || follower.updateCount() != 1 || leader.updateCount() != 1 {
		t.Error(err, follower.updateCount(), leader.updateCount())
	}
}

func TestTheLeaderIsCalledWithTheSameTLS(t *testing.T) {
	certificate, authority := selfSigned(t)
	secured := grpc.Creds(credentials.NewServerTLSFromCert(&certificate))
	leader := &fakeService{update: leading}
	follower := &fakeService{update: following(always(leader.serve(t, secured)))}
	client := open(t, follower.serve(t, secured), WithTLS(&tls.Config{RootCAs: authority, ServerName: "sidecar"}))
	if _, err := client.Update(t.Context(), oneField); err != nil || follower.updateCount() != 1 || leader.updateCount() != 1 {
		t.Error(err, follower.updateCount(), leader.updateCount())
	}
}

func TestATokenIsNotSentInTheClearToALeaderOnAnotherMachine(t *testing.T) {
	var requested atomic.Int64
	follower := &fakeService{update: following(always("192.0.2.1:6680"))}
	client := open(t, follower.serve(t), quick, WithToken(func(context.Context) (string, error) {
		requested.Add(1)
		return "secret", nil
	}))
	for call := range 2 {
		if _, err := client.Update(t.Context(), oneField); !errors.Is(err, ErrFailedPrecondition) || requested.Load() != int64(call+1) ||
			follower.updateCount() != call+1 {
			t.Errorf("%v, the token was requested %d times, %d updates arrived", err, requested.Load(), follower.updateCount())
		}
	}
}

func TestAChangeOfTheStubWithoutARequestIDFollowsTheLeaderButIsNotRepeated(t *testing.T) {
	leader := &fakeService{update: func(context.Context, int) (*pb.UpdatePolicyResponse, error) {
		return nil, status.Error(codes.Unavailable, "broken, perhaps after it was made")
	}}
	follower := &fakeService{update: following(always(leader.serve(t)))}
	_, err := open(t, follower.serve(t), quick).Stub().UpdatePolicy(t.Context(), &pb.UpdatePolicyRequest{Topic: oneField.Topic})
	if status.Code(err) != codes.Unavailable || follower.updateCount() != 1 || leader.updateCount() != 1 {
		t.Error(err, follower.updateCount(), leader.updateCount())
	}
}
