package topicpolicies

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// fake answers as a test specifies, for what the real service can't be made to do.
type fake struct {
	pb.UnimplementedTopicPoliciesServiceServer
	update func(attempt int) error
	batch  func(number int) error
	watch  func(number int, request *pb.WatchPoliciesRequest, stream grpc.ServerStreamingServer[pb.WatchPoliciesResponse]) error

	mu       sync.Mutex
	updates  []*pb.UpdatePolicyRequest
	metadata []metadata.MD
	batches  []*pb.BatchUpdatePoliciesRequest
	watches  []*pb.WatchPoliciesRequest
}

func (f *fake) UpdatePolicy(ctx context.Context, request *pb.UpdatePolicyRequest) (*pb.ChangeResult, error) {
	f.mu.Lock()
	sent, _ := metadata.FromIncomingContext(ctx)
	f.updates, f.metadata = append(f.updates, request), append(f.metadata, sent)
	attempt := len(f.updates)
	f.mu.Unlock()
	if f.update == nil {
		return &pb.ChangeResult{RequestId: request.RequestId}, nil
	}
	return &pb.ChangeResult{RequestId: request.RequestId}, f.update(attempt)
}

func (f *fake) GetPolicy(ctx context.Context, request *pb.GetPolicyRequest) (*pb.PolicyDocument, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (f *fake) ListPolicies(_ context.Context, request *pb.ListPoliciesRequest) (*pb.ListPoliciesResponse, error) {
	pages := map[string]*pb.ListPoliciesResponse{
		"":  {Documents: []*pb.PolicyDocument{{Topic: "a"}, {Topic: "b"}}, NextPageToken: "1"},
		"1": {NextPageToken: "2"},
		"2": {Documents: []*pb.PolicyDocument{{Topic: "c"}}, NextPageToken: "3"},
	}
	if page := pages[request.GetPageToken()]; page != nil {
		return page, nil
	}
	return nil, status.Error(codes.InvalidArgument, "There is no such page.")
}

func (f *fake) BatchUpdatePolicies(
	_ context.Context, request *pb.BatchUpdatePoliciesRequest,
) (*pb.BatchUpdatePoliciesResponse, error) {
	f.mu.Lock()
	f.batches = append(f.batches, request)
	number := len(f.batches)
	f.mu.Unlock()
	if f.batch != nil {
		if err := f.batch(number); err != nil {
			return nil, err
		}
	}
	answer := &pb.BatchUpdatePoliciesResponse{}
	for _, change := range request.GetChanges() {
		result := &pb.ChangeResult{RequestId: change.GetUpdate().GetRequestId() + change.GetDelete().GetRequestId()}
		answer.Results = append(answer.Results, &pb.PolicyChangeResult{Result: &pb.PolicyChangeResult_Success{Success: result}})
	}
	return answer, nil
}

func (f *fake) WatchPolicies(request *pb.WatchPoliciesRequest, stream grpc.ServerStreamingServer[pb.WatchPoliciesResponse]) error {
	f.mu.Lock()
	f.watches = append(f.watches, request)
	number := len(f.watches)
	f.mu.Unlock()
	return f.watch(number, request, stream)
}

// serve serves a fake; it returns its address.
func (f *fake) serve(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterTopicPoliciesServiceServer(server, f)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// refusing returns an error of the service.
func refusing(code codes.Code, reason string) error {
	with, err := status.New(code, "It is so.").WithDetails(&errdetails.ErrorInfo{Domain: domain, Reason: reason})
	if err != nil {
		panic(err)
	}
	return with.Err()
}

var update = &pb.UpdatePolicyRequest{Topic: "t/n/x", Policies: &pb.TopicPolicies{MaxProducerPerTopic: proto.Int32(1)}}

func TestTheServiceConfigIsThatOfAllClients(t *testing.T) {
	shared, err := os.ReadFile("../../service_config.json")
	if err != nil || string(shared) != serviceConfig {
		t.Errorf("it is another one: copy clients/service_config.json: %v", err)
	}
}

func TestTheFirstProgramOfTheReadmeIsTheExample(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("../example/main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```go\n")
	if first, _, _ := strings.Cut(rest, "```"); first != string(program) {
		t.Error("the README shows another program than example/main.go")
	}
}

func TestAChangeIsRepeatedByGRPCWithTheSameIDAndTheRequestStaysAsItWas(t *testing.T) {
	service := &fake{update: func(attempt int) error {
		if attempt < 3 {
			return refusing(codes.Unavailable, "NOT_APPENDED")
		}
		return nil
	}}
	client := connected(t, service.serve(t), WithActor("somebody"))
	before := proto.CloneOf(update)
	result, err := client.UpdatePolicy(t.Context(), update)
	if err != nil || len(service.updates) != 3 || !proto.Equal(before, update) {
		t.Fatal(err, len(service.updates), update)
	}
	for _, each := range service.updates {
		if each.GetActor() != "somebody" || len(each.GetRequestId()) != 32 || each.GetRequestId() != result.GetRequestId() {
			t.Error(each)
		}
	}
	named := proto.CloneOf(update)
	named.RequestId, named.Actor = "0123456789abcdef0123456789abcdef", "another"
	if _, err := client.UpdatePolicy(t.Context(), named); err != nil || !proto.Equal(service.updates[3], named) {
		t.Error(err, service.updates[3])
	}
}

func TestALargeBatchIsRepeatedToo(t *testing.T) {
	service := &fake{batch: func(number int) error {
		if number == 1 {
			return refusing(codes.Unavailable, "NOT_APPENDED")
		}
		return nil
	}}
	large := &pb.UpdatePolicyRequest{Topic: "t/n/" + strings.Repeat("x", 2<<20)}
	for _, each := range connected(t, service.serve(t)).Batch(t.Context(), []*pb.PolicyChangeRequest{UpdateOf(large)}) {
		if each.Err != nil || len(service.batches) != 2 {
			t.Error(each.Err, len(service.batches))
		}
	}
}

func TestAnErrorHasItsKindAndItsDetails(t *testing.T) {
	service := &fake{update: func(int) error {
		with, err := status.New(codes.ResourceExhausted, "It is so.").WithDetails(
			&errdetails.ErrorInfo{Domain: domain, Reason: "LIMIT_REACHED", Metadata: map[string]string{"most": "5"}},
			&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "topic"}}},
			&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)},
		)
		if err != nil {
			return err
		}
		return with.Err()
	}}
	_, err := connected(t, service.serve(t)).UpdatePolicy(t.Context(), update)
	var failure *Error
	if !errors.As(err, &failure) || !errors.Is(err, ErrLimit) || errors.Is(err, ErrConflict) || errors.Is(err, ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	if failure.Reason != "LIMIT_REACHED" || failure.Metadata["most"] != "5" || failure.Violations[0].GetField() != "topic" ||
		failure.RetryAfter != time.Second || failure.Message != "It is so." || status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%+v", failure)
	}
}

func TestAChangeWithoutAnAnswerHasAnUnknownOutcomeAndARequestID(t *testing.T) {
	for name, failed := range map[string]func(int) error{
		"too slow":    func(int) error { time.Sleep(4 * time.Second); return nil },
		"unknown":     func(int) error { return refusing(codes.DeadlineExceeded, "OUTCOME_UNKNOWN") },
		"unavailable": func(int) error { return status.Error(codes.Unavailable, "gone") },
	} {
		t.Run(name, func(t *testing.T) {
			service := &fake{update: failed}
			_, err := connected(t, service.serve(t), WithTimeout(2*time.Second)).UpdatePolicy(t.Context(), update)
			var failure *Error
			if !errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrUnavailable) || !errors.As(err, &failure) {
				t.Fatal(err)
			}
			service.mu.Lock() // a call that was given up may still arrive
			defer service.mu.Unlock()
			if failure.RequestID != service.updates[0].GetRequestId() || !strings.Contains(err.Error(), failure.RequestID) {
				t.Error(err)
			}
		})
	}
}

func TestACallEndsAtTheDeadlineOfTheContextOrOfTheClient(t *testing.T) {
	address := (&fake{}).serve(t)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for ctx, client := range map[context.Context]*Client{
		short:       connected(t, address),
		t.Context(): connected(t, address, WithTimeout(50*time.Millisecond)),
	} {
		_, err := client.GetPolicy(ctx, &pb.GetPolicyRequest{Topic: "t/n/x"})
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrOutcomeUnknown) {
			t.Error(err)
		}
	}
}

func TestATokenIsReadForEveryCallAndNeverSentInTheClearToAnotherMachine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	service := &fake{}
	client := connected(t, service.serve(t), WithToken(TokenFile(path)))
	for _, token := range []string{"first", "second"} {
		if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := client.UpdatePolicy(t.Context(), update); err != nil {
			t.Fatal(err)
		}
		if found := service.metadata[len(service.metadata)-1].Get("authorization"); !slices.Equal(found, []string{"Bearer " + token}) {
			t.Error(found)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := client.UpdatePolicy(t.Context(), update); err == nil || len(service.updates) != 2 {
		t.Error(err)
	}
	if client, err := New("sidecar.example:6680", WithoutTLS(), WithToken(TokenFile(path))); err == nil {
		_ = client.Close()
		t.Error("it would send the token in the clear")
	}
}

func TestAddressesOfThisMachineNeedNoTLS(t *testing.T) {
	for address, local := range map[string]bool{
		"localhost:6680": true, "127.0.0.1:1": true, "[::1]:1": true, "unix:/run/x": true, "dns:///localhost:1": true, "dns:localhost:1": true,
		"sidecar:6680": false, "10.0.0.1:1": false, "dns:///sidecar:1": false, "localhost.example:1": false, "": false,
	} {
		if isLocal(address) != local {
			t.Errorf("%q: %v", address, !local)
		}
	}
}

func TestAnotherAddressIsUsedIfOneCantBeReached(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	for _, scheme := range []string{"", "ipv4:"} {
		client := connected(t, scheme+listener.Addr().String()+","+(&fake{}).serve(t))
		if _, err := client.UpdatePolicy(t.Context(), update); err != nil {
			t.Error(err)
		}
	}
}

func TestAListReadsPageAfterPageAndEndsWithAnError(t *testing.T) {
	client := connected(t, (&fake{}).serve(t))
	var topics []string
	var last error
	for document, err := range client.ListPolicies(t.Context(), &pb.ListPoliciesRequest{Namespace: "t/n"}) {
		topics, last = append(topics, document.GetTopic()), err
	}
	if !slices.Equal(topics, []string{"a", "b", "c", ""}) || !errors.Is(last, ErrInvalid) {
		t.Error(topics, last)
	}
}

func TestABatchIsSentInPartsAndEachChangeHasAResult(t *testing.T) {
	service := &fake{batch: func(number int) error {
		if number == 2 {
			return status.Error(codes.Internal, "It is so.")
		}
		return nil
	}}
	client := connected(t, service.serve(t), WithActor("somebody"))
	var changes []*pb.PolicyChangeRequest
	for i := range 2500 {
		if i%2 == 0 {
			changes = append(changes, UpdateOf(update))
		} else {
			changes = append(changes, DeletionOf(&pb.DeletePolicyRequest{Topic: fmt.Sprint("t/n/", i)}))
		}
	}
	results := client.Batch(t.Context(), changes)
	ids := map[string]bool{}
	for i, each := range results {
		var failure *Error
		switch {
		case i/1000 != 1 && each.Err == nil:
			ids[each.Result.GetRequestId()] = true
		case i/1000 == 1 && errors.Is(each.Err, ErrOutcomeUnknown) && errors.As(each.Err, &failure):
			ids[failure.RequestID] = true
		default:
			t.Fatal(i, each)
		}
	}
	if len(results) != 2500 || len(ids) != 2500 || len(service.batches) != 3 || service.batches[0].GetChanges()[0].GetUpdate().GetActor() != "somebody" {
		t.Error(len(results), len(ids), len(service.batches))
	}
	if update.GetRequestId() != "" || len(client.Batch(t.Context(), nil)) != 0 {
		t.Error(update)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, each := range client.Batch(ended, changes[:2]) {
		if !errors.Is(each.Err, context.Canceled) || errors.Is(each.Err, ErrOutcomeUnknown) {
			t.Error(each.Err)
		}
	}
	large := &pb.UpdatePolicyRequest{Topic: "t/n/" + strings.Repeat("x", 1<<20)}
	client.Batch(t.Context(), slices.Repeat([]*pb.PolicyChangeRequest{UpdateOf(large)}, 5))
	if len(service.batches) != 6 {
		t.Error(len(service.batches), "requests")
	}
}

// sending sends events, and then ends the stream with an error.
func sending(stream grpc.ServerStreamingServer[pb.WatchPoliciesResponse], err error, events ...*pb.WatchEvent) error {
	if failed := stream.Send(&pb.WatchPoliciesResponse{Events: events}); failed != nil {
		return failed
	}
	return err
}

func TestAWatchGoesOnWhereItBrokeAndEndsWithAnErrorThatStays(t *testing.T) {
	synced := &pb.WatchEvent_Bookmark{Bookmark: &pb.Bookmark{Synced: true}}
	service := &fake{watch: func(number int, _ *pb.WatchPoliciesRequest, stream grpc.ServerStreamingServer[pb.WatchPoliciesResponse]) error {
		change := &pb.WatchEvent{Namespace: "t/n", Content: &pb.WatchEvent_Change{Change: &pb.PolicyChange{}}}
		switch number {
		case 1:
			return sending(stream, status.Error(codes.Unavailable, "gone"), change)
		case 2:
			return sending(stream, nil, change, &pb.WatchEvent{Namespace: "t/n", ResumeToken: "k1", Content: synced})
		case 3:
			return refusing(codes.ResourceExhausted, "LIMIT_REACHED")
		}
		return refusing(codes.PermissionDenied, "PERMISSION_DENIED")
	}}
	client := connected(t, service.serve(t))
	var found []string
	var last error
	request := &pb.WatchPoliciesRequest{Namespaces: []string{"t/n"}, ResumeTokens: map[string]string{"t/m": "k0"}}
	for event, err := range client.WatchPolicies(t.Context(), request) {
		found, last = append(found, fmt.Sprintf("%T", event.GetContent())), err
	}
	change, again := "*topicpoliciesv1.WatchEvent_Change", "*topicpoliciesv1.WatchEvent_Reset_"
	if !slices.Equal(found, []string{change, again, change, "*topicpoliciesv1.WatchEvent_Bookmark", "<nil>"}) || !errors.Is(last, ErrDenied) {
		t.Error(found, last)
	}
	var tokens []string
	for _, each := range service.watches {
		tokens = append(tokens, fmt.Sprint(each.GetResumeTokens()))
	}
	if !slices.Equal(tokens, []string{"map[t/m:k0]", "map[t/m:k0]", "map[t/m:k0 t/n:k1]", "map[t/m:k0 t/n:k1]"}) {
		t.Error(tokens)
	}
}

func TestAWatchEndsWithItsContextAndIfItsCallerLeavesIt(t *testing.T) {
	ended := make(chan struct{}, 2)
	service := &fake{watch: func(_ int, _ *pb.WatchPoliciesRequest, stream grpc.ServerStreamingServer[pb.WatchPoliciesResponse]) error {
		err := sending(stream, nil, &pb.WatchEvent{Namespace: "t/n"})
		<-stream.Context().Done()
		ended <- struct{}{}
		return err
	}}
	client := connected(t, service.serve(t))
	for range client.WatchPolicies(t.Context(), &pb.WatchPoliciesRequest{}) {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range client.WatchPolicies(ctx, &pb.WatchPoliciesRequest{}) {
		last = err
		cancel()
	}
	if !errors.Is(last, context.Canceled) {
		t.Error(last)
	}
	<-ended
	<-ended
}
