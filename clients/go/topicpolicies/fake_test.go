package topicpolicies

import (
	"context"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// fakeService answers as a test specifies, and records the requests: for cases that the real service can't be made to produce.
type fakeService struct {
	pb.UnimplementedTopicPoliciesServiceServer
	update func(ctx context.Context, attempt int) (*pb.UpdatePolicyResponse, error)
	other  func(ctx context.Context, attempt int) error // the error of reads and deletions; nil: they succeed
	watch  func(*pb.WatchPoliciesRequest, pb.TopicPoliciesService_WatchPoliciesServer) error
	many   func(stream pb.TopicPoliciesService_UpdatePoliciesServer, number int) error

	mu          sync.Mutex
	arrivals    []arrival
	requests    []*pb.UpdatePolicyRequest
	metadata    []metadata.MD
	reads       int
	deletions   int
	watches     int
	streams     int
	connections int
}

// arrival is an attempt that arrived, and the number of previous attempts of the call according to gRPC's metadata: empty if there were
// none.
type arrival struct{ method, before string }

// updateCount returns how many updates arrived.
func (f *fakeService) updateCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

func (f *fakeService) UpdatePolicy(ctx context.Context, request *pb.UpdatePolicyRequest) (*pb.UpdatePolicyResponse, error) {
	sent, _ := metadata.FromIncomingContext(ctx)
	f.mu.Lock()
	f.requests, f.metadata = append(f.requests, request), append(f.metadata, sent)
	attempt := len(f.requests)
	f.mu.Unlock()
	return f.update(ctx, attempt)
}

func (f *fakeService) GetPolicy(ctx context.Context, request *pb.GetPolicyRequest) (*pb.GetPolicyResponse, error) {
	answer := &pb.GetPolicyResponse{}
	for _, scope := range request.GetScopes() {
		answer.Documents = append(answer.Documents, &pb.PolicyDocument{Topic: request.GetTopic(), Scope: scope, Version: "1"})
	}
	return answer, f.counted(ctx, &f.reads)
}

func (f *fakeService) GetEffectivePolicy(ctx context.Context, _ *pb.GetEffectivePolicyRequest) (*pb.GetEffectivePolicyResponse, error) {
	return &pb.GetEffectivePolicyResponse{}, f.counted(ctx, &f.reads)
}

func (f *fakeService) GetServerInfo(ctx context.Context, _ *pb.GetServerInfoRequest) (*pb.GetServerInfoResponse, error) {
	return &pb.GetServerInfoResponse{}, f.counted(ctx, &f.reads)
}

func (f *fakeService) ListPolicies(ctx context.Context, _ *pb.ListPoliciesRequest) (*pb.ListPoliciesResponse, error) {
	return &pb.ListPoliciesResponse{}, f.counted(ctx, &f.reads)
}

func (f *fakeService) ListHistory(ctx context.Context, _ *pb.ListHistoryRequest) (*pb.ListHistoryResponse, error) {
	return &pb.ListHistoryResponse{}, f.counted(ctx, &f.reads)
}

func (f *fakeService) DeletePolicy(ctx context.Context, _ *pb.DeletePolicyRequest) (*pb.DeletePolicyResponse, error) {
	return &pb.DeletePolicyResponse{}, f.counted(ctx, &f.deletions)
}

func (f *fakeService) counted(ctx context.Context, attempts *int) error {
	f.mu.Lock()
	*attempts++
	attempt := *attempts
	f.mu.Unlock()
	if f.other == nil {
		return nil
	}
	return f.other(ctx, attempt)
}

// arrived returns the attempts in their order of arrival.
func (f *fakeService) arrived() []arrival {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.arrivals)
}

// WatchPolicies sends SYNCED for an empty namespace, and then nothing.
func (f *fakeService) WatchPolicies(request *pb.WatchPoliciesRequest, stream pb.TopicPoliciesService_WatchPoliciesServer) error {
	f.mu.Lock()
	f.watches++
	f.mu.Unlock()
	if f.watch != nil {
		return f.watch(request, stream)
	}
	synced := &pb.Bookmark{Kind: pb.BookmarkKind_BOOKMARK_KIND_SYNCED, Token: &pb.WatchToken{Log: "a"}, ConfirmedTime: timestamppb.Now()}
	event := &pb.WatchEvent{Namespace: request.GetNamespaces()[0], Content: &pb.WatchEvent_Bookmark{Bookmark: synced}}
	if err := stream.Send(&pb.WatchPoliciesResponse{Events: []*pb.WatchEvent{event}}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

// UpdatePolicies behaves as the test specifies; number counts its streams from 1.
func (f *fakeService) UpdatePolicies(stream pb.TopicPoliciesService_UpdatePoliciesServer) error {
	f.mu.Lock()
	f.streams++
	number := f.streams
	f.mu.Unlock()
	return f.many(stream, number)
}

// TagConn does nothing.
func (f *fakeService) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn counts connections.
func (f *fakeService) HandleConn(_ context.Context, event stats.ConnStats) {
	if _, begins := event.(*stats.ConnBegin); begins {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.connections++
	}
}

// TagRPC does nothing.
func (f *fakeService) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC records the attempts that arrive.
func (f *fakeService) HandleRPC(_ context.Context, event stats.RPCStats) {
	if begins, ok := event.(*stats.InHeader); ok {
		f.mu.Lock()
		defer f.mu.Unlock()
		before := strings.Join(begins.Header.Get("grpc-previous-rpc-attempts"), ",")
		f.arrivals = append(f.arrivals, arrival{path.Base(begins.FullMethod), before})
	}
}

func (f *fakeService) serve(t *testing.T, options ...grpc.ServerOption) (address string) {
	t.Helper()
	address, _ = f.start(t, options...)
	return address
}

// start starts the service; end stops it before the test ends.
func (f *fakeService) start(t *testing.T, options ...grpc.ServerOption) (address string, end func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(append(options, grpc.StatsHandler(f))...)
	pb.RegisterTopicPoliciesServiceServer(server, f)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String(), server.Stop
}

// serving serves any implementation.
func serving(t *testing.T, service pb.TopicPoliciesServiceServer) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterTopicPoliciesServiceServer(server, service)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func open(t *testing.T, target string, options ...Option) *Client {
	t.Helper()
	client, err := New(target, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}
