package topicpolicies

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

var errNotNow = status.Error(codes.Unavailable, "not now")

// everyRead has each kind of read, by its method.
var everyRead = map[string]func(context.Context, *Client) error{
	"GetPolicy": func(ctx context.Context, client *Client) error {
		_, err := client.Get(ctx, oneField.Key)
		return err
	},
	"ListPolicies": func(ctx context.Context, client *Client) error {
		for _, err := range client.List(ctx, "t/n").All() {
			return err
		}
		return nil
	},
	"ListHistory": func(ctx context.Context, client *Client) error {
		for _, err := range client.History(ctx, HistoryQuery{Namespace: "t/n"}).All() {
			return err
		}
		return nil
	},
	"GetEffectivePolicy": func(ctx context.Context, client *Client) error {
		_, err := client.Effective(ctx, EffectiveQuery{Topic: oneField.Topic})
		return err
	},
	"GetServerInfo": func(ctx context.Context, client *Client) error {
		_, err := client.ServerInfo(ctx)
		return err
	},
}

// failing returns a function that fails the first attempts, and no later ones.
func failing(attempts int, failure error) func(context.Context, int) error {
	return func(_ context.Context, attempt int) error {
		if attempt <= attempts {
			return failure
		}
		return nil
	}
}

func unavailable(context.Context, int) error { return errNotNow }

// arrivalsOf returns the expected arrivals of one method, with the number of previous attempts in gRPC's metadata.
func arrivalsOf(method string, before ...string) []arrival {
	var all []arrival
	for _, each := range before {
		all = append(all, arrival{method, each})
	}
	return all
}

// byGRPC returns the previous attempts according to gRPC's metadata, for each of a number of attempts that gRPC makes itself.
func byGRPC(attempts int) []string {
	before := []string{""}
	for number := 1; number < attempts; number++ {
		before = append(before, strconv.Itoa(number))
	}
	return before
}

// byClient returns the previous attempts according to gRPC's metadata, for each of a number of attempts that the client makes: none.
func byClient(attempts int) []string { return make([]string, attempts) }

func expect(t *testing.T, fake *fakeService, expected []arrival) {
	t.Helper()
	if arrived := fake.arrived(); !slices.Equal(arrived, expected) {
		t.Errorf("%v arrived instead of %v", arrived, expected)
	}
}

func TestGRPCRepeatsReadsIfThereIsOneAddress(t *testing.T) {
	for method, read := range everyRead {
		for _, code := range []codes.Code{codes.Unavailable, codes.Canceled} {
			fake := &fakeService{other: failing(2, status.Error(code, "not now"))}
			if err := read(t.Context(), open(t, fake.serve(t), quick)); err != nil {
				t.Errorf("%s, %s: %v", method, code, err)
			}
			expect(t, fake, arrivalsOf(method, byGRPC(3)...))
		}
	}
}

func TestAReadThatAlwaysFailsReachesTheServiceMaxAttemptsTimes(t *testing.T) {
	for method, read := range everyRead {
		for most := 2; most <= 5; most++ {
			fake := &fakeService{other: unavailable}
			err := read(t.Context(), open(t, fake.serve(t), quick, func(s *settings) { s.retries.MaxAttempts = most }))
			if status.Code(err) != codes.Unavailable {
				t.Errorf("%s: %v", method, err)
			}
			expect(t, fake, arrivalsOf(method, byGRPC(most)...))
		}
	}
}

func TestWithNoRetriesAReadIsSentOnce(t *testing.T) {
	for method, read := range everyRead {
		fake := &fakeService{other: unavailable}
		if err := read(t.Context(), open(t, fake.serve(t), WithRetries(NoRetries))); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", method, err)
		}
		expect(t, fake, arrivalsOf(method, byClient(1)...))
	}
}

func TestAReadThatFailsPermanentlyIsSentOnce(t *testing.T) {
	for method, read := range everyRead {
		for _, code := range []codes.Code{codes.InvalidArgument, codes.Internal, codes.ResourceExhausted, codes.DeadlineExceeded} {
			fake := &fakeService{other: failing(1, status.Error(code, "never"))}
			if err := read(t.Context(), open(t, fake.serve(t), quick)); status.Code(err) != code {
				t.Errorf("%s: %v", method, err)
			}
			expect(t, fake, arrivalsOf(method, byClient(1)...))
		}
	}
}

func TestWithSeveralAddressesReadsMoveToTheNextOneAndGRPCRepeatsNone(t *testing.T) {
	for method, read := range everyRead {
		first, second := &fakeService{other: unavailable}, &fakeService{}
		if err := read(t.Context(), open(t, first.serve(t)+","+second.serve(t), quick)); err != nil {
			t.Errorf("%s: %v", method, err)
		}
		expect(t, first, arrivalsOf(method, byClient(1)...))
		expect(t, second, arrivalsOf(method, byClient(1)...))
	}
}

func TestGRPCRepeatsNoReadAtAnAddressThatTheClientWasNotGiven(t *testing.T) {
	elsewhere := &fakeService{other: unavailable}
	stub, err := open(t, (&fakeService{}).serve(t), quick).line.stub(elsewhere.serve(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stub.GetPolicy(t.Context(), &pb.GetPolicyRequest{}); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	expect(t, elsewhere, arrivalsOf("GetPolicy", byClient(1)...))
}

// unavailableTwice fails the first two updates.
func unavailableTwice(ctx context.Context, attempt int) (*pb.UpdatePolicyResponse, error) {
	if attempt <= 2 {
		return nil, errNotNow
	}
	return leading(ctx, attempt)
}

func TestGRPCRepeatsNoChange(t *testing.T) {
	leader := &fakeService{update: unavailableTwice}
	address := leader.serve(t)
	follower := &fakeService{update: func(_ context.Context, attempt int) (*pb.UpdatePolicyResponse, error) {
		if attempt <= 2 {
			return nil, errNotNow
		}
		return nil, refused(address)
	}}
	client := open(t, follower.serve(t), quick)
	if _, err := client.Update(t.Context(), oneField); err != nil {
		t.Fatal(err)
	}
	// A leader that fails is forgotten, and learned again.
	expect(t, follower, arrivalsOf("UpdatePolicy", byClient(5)...))
	expect(t, leader, arrivalsOf("UpdatePolicy", byClient(3)...))
}

func TestGRPCRepeatsNoDeletion(t *testing.T) {
	fake := &fakeService{other: failing(2, errNotNow)}
	if _, err := open(t, fake.serve(t), quick).Delete(t.Context(), Deletion{Key: oneField.Key}); err != nil {
		t.Fatal(err)
	}
	expect(t, fake, arrivalsOf("DeletePolicy", byClient(3)...))
}

// breaksOff breaks one attempt off after its answer has begun, which gRPC does not retry; the other attempts end as specified.
func breaksOff(at int, others error) func(context.Context, int) error {
	return func(ctx context.Context, attempt int) error {
		if attempt != at {
			return others
		}
		if err := grpc.SendHeader(ctx, metadata.Pairs("begun", "yes")); err != nil {
			return err
		}
		return errNotNow
	}
}

func TestAReadWhoseAnswerIsCutOffIsRepeatedByTheClient(t *testing.T) {
	for method, read := range everyRead {
		fake := &fakeService{other: breaksOff(1, nil)}
		if err := read(t.Context(), open(t, fake.serve(t), quick)); err != nil {
			t.Errorf("%s: %v", method, err)
		}
		expect(t, fake, arrivalsOf(method, byClient(2)...))
	}
}

func TestGRPCAndTheClientTogetherMakeAtMostMaxAttempts(t *testing.T) {
	for method, read := range everyRead {
		fake := &fakeService{other: breaksOff(2, errNotNow)}
		if err := read(t.Context(), open(t, fake.serve(t), quick)); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", method, err)
		}
		expect(t, fake, arrivalsOf(method, "", "1", "", "", ""))
	}
}

// all is a service config with which gRPC retries everything, changes too, and refuses lists.
const all = `{"methodConfig": [
	{"name": [{"service": "topicpolicies.v1.TopicPoliciesService", "method": "ListPolicies"}], "maxRequestMessageBytes": 0},
	{"name": [{}], "retryPolicy":
		{"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
		"retryableStatusCodes": ["UNAVAILABLE"]}}]}`

// named resolves names of one scheme to an address, with a service config.
func named(t *testing.T, scheme, address string) Option {
	names := manual.NewBuilderWithScheme(scheme)
	names.BuildCallback = func(_ resolver.Target, connection resolver.ClientConn, _ resolver.BuildOptions) {
		config := connection.ParseServiceConfig(all)
		if config.Err != nil {
			t.Error(config.Err)
		}
		names.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: address}}, ServiceConfig: config})
	}
	return WithDialOptions(grpc.WithResolvers(names))
}

func TestTheServiceConfigOfANameResolverIsIgnored(t *testing.T) {
	fake := &fakeService{update: unavailableTwice, other: unavailable}
	client := open(t, "names:///localhost:1", quick, named(t, "names", fake.serve(t)))
	if _, err := client.Update(t.Context(), oneField); err != nil {
		t.Fatal(err)
	}
	if err := everyRead["ListPolicies"](t.Context(), client); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	expect(t, fake, append(arrivalsOf("UpdatePolicy", byClient(3)...), arrivalsOf("ListPolicies", byGRPC(5)...)...))
}

func TestTheServiceConfigOfAnXDSTargetIsUsedExceptForItsRetryPolicy(t *testing.T) {
	fake := &fakeService{update: unavailableTwice, other: failing(2, errNotNow)}
	client := open(t, "xds:///localhost:1", quick, named(t, "xds", fake.serve(t)))
	if _, err := client.Update(t.Context(), oneField); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Get(t.Context(), oneField.Key); err != nil {
		t.Fatal(err)
	}
	expect(t, fake, append(arrivalsOf("UpdatePolicy", byClient(3)...), arrivalsOf("GetPolicy", byClient(3)...)...))
	if err := everyRead["ListPolicies"](t.Context(), client); !errors.Is(err, ErrResourceExhausted) {
		t.Error(err)
	}
}

func TestWithADefaultServiceConfigOfTheCallerTheClientRepeatsReads(t *testing.T) {
	fake := &fakeService{other: failing(2, errNotNow)}
	client := open(t, fake.serve(t), quick, WithDialOptions(grpc.WithDefaultServiceConfig(`{}`)))
	if _, err := client.Get(t.Context(), oneField.Key); err != nil {
		t.Error(err)
	}
	expect(t, fake, arrivalsOf("GetPolicy", byClient(3)...))
}

func TestEveryRetryPolicyMakesAServiceConfigThatGRPCAccepts(t *testing.T) {
	const long = 1<<63 - 1
	for _, policy := range []RetryPolicy{
		DefaultRetries,
		{MaxAttempts: 2, InitialBackoff: 1, MaxBackoff: 1, Multiplier: 1},
		{MaxAttempts: 5, InitialBackoff: time.Second + 1, MaxBackoff: long, Multiplier: 1.0 / 3 * 4},
		{MaxAttempts: 5, InitialBackoff: long, MaxBackoff: long, Multiplier: 1000},
	} {
		client, err := New("localhost:1", WithRetries(policy))
		if err != nil {
			t.Errorf("%+v: %v", policy, err)
			continue
		}
		_ = client.Close()
	}
}

func TestTheDelayAfterALimitIsThatOfTheServicePlusTheUsualPause(t *testing.T) {
	refusal, err := status.New(codes.ResourceExhausted, "too much").WithDetails(
		&errdetails.ErrorInfo{Domain: "topicpolicies", Reason: "PRINCIPAL_LIMIT"},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(3500 * time.Millisecond)},
	)
	if err != nil {
		t.Fatal(err)
	}
	failure := fromError(refusal.Err())
	if failure.RetryAfter != 3500*time.Millisecond {
		t.Fatalf("%+v", failure)
	}
	for _, change := range []bool{false, true} {
		attempts := repeats{policy: DefaultRetries, change: change, repeatable: change}
		for number := range 20 { // more than MaxAttempts: nothing was done
			wait, again := attempts.failed(failure, true, 1, false, 0.5)
			if !again || wait <= failure.RetryAfter || wait > failure.RetryAfter+DefaultRetries.MaxBackoff {
				t.Fatalf("attempt %d: %s %t", number, wait, again)
			}
		}
		none := repeats{policy: NoRetries, change: change, repeatable: change}
		if _, again := none.failed(failure, true, 1, false, 0.5); again {
			t.Error("repeated with NoRetries")
		}
	}
	if ambiguous(failure) {
		t.Error("a change refused by a limit counts as possibly made")
	}
	session, err := newSession(Selection{Namespaces: []string{"t/n"}}, watchPauses)
	if err != nil {
		t.Fatal(err)
	}
	session.connect(time.Now())
	interrupted, err := session.broke(failure, time.Now(), 0)
	if err != nil || interrupted.RetryIn != failure.RetryAfter+50*time.Millisecond {
		t.Errorf("%+v %v", interrupted, err)
	}
}

func TestACallRefusedByAPassingLimitIsRepeated(t *testing.T) {
	refusal, err := status.New(codes.ResourceExhausted, "too much").WithDetails(
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)},
	)
	if err != nil {
		t.Fatal(err)
	}
	service := &fakeService{other: failing(2, refusal.Err())}
	client := open(t, service.serve(t))
	if err := everyRead["GetServerInfo"](t.Context(), client); err != nil {
		t.Error(err)
	}
}

func TestAWatchWhoseTokenExpiresIsReopenedOnce(t *testing.T) {
	session, err := newSession(Selection{Namespaces: []string{"t/n"}}, watchPauses)
	if err != nil {
		t.Fatal(err)
	}
	session.connect(time.Now())
	expired := &Error{Code: codes.Unauthenticated, Reason: "CREDENTIALS_EXPIRED", FromService: true}
	if _, err := session.broke(expired, time.Now(), 0); err != nil {
		t.Fatalf("the watch ended, but the next stream may have a newer token: %v", err)
	}
	if _, err := session.broke(expired, time.Now(), 0); err == nil {
		t.Fatal("the watch continues although the next stream's token has expired too")
	}
}
