package topicpolicies

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// What ends calls, watches and streams of changes, and what must not end them.

// longPauses has pauses longer than any test.
var longPauses = RetryPolicy{MaxAttempts: 5, InitialBackoff: time.Hour, MaxBackoff: time.Hour, Multiplier: 1}

func TestCloseEndsAPauseBetweenAttempts(t *testing.T) {
	broken := status.Error(codes.Unavailable, "not now")
	fake := &fakeService{
		update: func(context.Context, int) (*pb.UpdatePolicyResponse, error) { return nil, broken },
		other:  func(context.Context, int) error { return broken },
	}
	address := fake.serve(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Hour)
	defer cancel()
	key := Key{Topic: "t/n/x"}
	calls := map[string]func(*Client) error{
		"update": func(c *Client) error { _, err := c.Update(ctx, Update{Key: key}); return err },
		"read":   func(c *Client) error { _, err := c.Get(ctx, key); return err },
	}
	for name, call := range calls {
		client := open(t, address+","+address+"0", WithRetries(longPauses))
		before := fake.updateCount() + len(fake.arrived())
		ended := make(chan error, 1)
		go func() { ended <- call(client) }()
		until(t, name+" arrived", func() bool { return fake.updateCount()+len(fake.arrived()) > before })
		time.Sleep(50 * time.Millisecond)
		_ = client.Close()
		select {
		case err := <-ended:
			if !errors.Is(err, ErrClosed) && !errors.Is(err, ErrOutcomeUnknown) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s did not end", name)
		}
	}
}

func TestCloseEndsTheCacheOfAnUnreachableService(t *testing.T) {
	client := open(t, "127.0.0.1:1")
	client.pauses = longPauses
	cache, err := client.Cache(context.Background(), Selection{Namespaces: []string{"t/n"}})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "it has been interrupted", func() bool { return cache.Namespace("t/n").Message != "" })
	_ = client.Close()
	select {
	case <-cache.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the cache did not end")
	}
	if !errors.Is(cache.Err(), ErrClosed) {
		t.Error(cache.Err())
	}
}

func TestAWatchWhoseTokenFunctionFailsTriesAgain(t *testing.T) {
	address := (&fakeService{}).serve(t)
	var requested atomic.Int32
	client := open(t, address, WithToken(func(context.Context) (string, error) {
		if requested.Add(1) <= 3 {
			return "", errors.New("the identity provider is down")
		}
		return "token", nil
	}))
	client.pauses = RetryPolicy{InitialBackoff: time.Millisecond, MaxBackoff: time.Millisecond, Multiplier: 1}
	watch, err := client.Watch(context.Background(), Selection{Namespaces: []string{"t/n"}})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	for interrupted := 0; ; {
		event, err := watch.Next()
		if err != nil {
			t.Fatal(err)
		}
		switch each := event.(type) {
		case Interrupted:
			interrupted++
			if !strings.Contains(each.Err.Error(), "the identity provider is down") {
				t.Error(each.Err)
			}
		case Synced:
			if interrupted != 3 {
				t.Errorf("the watch was interrupted %d times", interrupted)
			}
			return
		}
	}
}

func TestChangesThatWereNeverSentAreReportedAsNotMadeAtTheDeadline(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // connections are never answered
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client := open(t, listener.Addr().String())
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	changes := []ChangeRequest{Update{Key: Key{Topic: "t/n/x"}}, Deletion{Key: Key{Topic: "t/n/y"}}}
	failed := 0
	for result, err := range client.UpdateMany(ctx, slices.Values(changes)) {
		if err == nil && (errors.Is(result.Err, ErrOutcomeUnknown) || !errors.Is(result.Err, context.DeadlineExceeded)) {
			t.Error(result.Err)
		}
		if err == nil {
			failed++
		}
	}
	if failed != 2 {
		t.Errorf("%d results", failed)
	}
}

// streaming returns how many goroutines serve the client's streams of changes.
func streaming() int {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return strings.Count(string(stacks), "topicpolicies.(*lane).run(")
}

func TestALoopOverResultsThatEndsInAPanicLeavesNoStreamOpen(t *testing.T) {
	fake := &fakeService{many: func(stream pb.TopicPoliciesService_UpdatePoliciesServer, _ int) error {
		for {
			batch, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			for _, change := range batch.GetChanges() {
				made := &pb.PolicyChangeResult{Sequence: change.GetSequence(), Result: &pb.PolicyChangeResult_Updated{Updated: &pb.UpdatePolicyResponse{}}}
				if err := stream.Send(&pb.UpdatePoliciesResponse{Results: []*pb.PolicyChangeResult{made}}); err != nil {
					return err
				}
			}
		}
	}}
	client := open(t, fake.serve(t))
	endless := func(yield func(ChangeRequest) bool) {
		for yield(Update{Key: Key{Topic: "t/n/x"}, Policies: &TopicPolicies{MaxProducerPerTopic: proto.Int32(1)}}) {
		}
	}
	ways := map[string]func(){
		"panic":          func() { panic("the caller's own") },
		"runtime.Goexit": runtime.Goexit, // as t.FailNow does it
	}
	for name, end := range ways {
		var over sync.WaitGroup
		over.Add(1)
		go func() {
			defer over.Done()
			defer func() { _ = recover() }()
			for range client.UpdateMany(context.Background(), endless) {
				end()
			}
		}()
		over.Wait()
		until(t, name+" has ended the stream", func() bool { return streaming() == 0 })
	}
}
