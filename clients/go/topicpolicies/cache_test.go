package topicpolicies

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

func TestACacheFollowsThroughARestartOfTheServer(t *testing.T) {
	server := ownServer(t)
	client, namespace := connected(t, server.Address), newNamespace()
	set := func(value int32) {
		t.Helper()
		request := &pb.UpdatePolicyRequest{Topic: namespace + "/x", Policies: &pb.TopicPolicies{MaxProducerPerTopic: proto.Int32(value)}}
		if _, err := client.UpdatePolicy(t.Context(), request, grpc.WaitForReady(true)); err != nil {
			t.Fatal(err)
		}
	}
	set(1)
	cache := client.Cache(t.Context(), &pb.WatchPoliciesRequest{Topics: []string{namespace + "/x"}})
	defer cache.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	if err := cache.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	value := func() int32 { return cache.Get(namespace+"/x-partition-3", 0).GetPolicies().GetMaxProducerPerTopic() }
	if value() != 1 || len(cache.List()) != 1 || cache.Age() > time.Minute {
		t.Error(cache.List(), cache.Age())
	}
	changes := make(chan Change, 10)
	stop := cache.Listen(func(change Change) { changes <- change })
	if first := <-changes; first.Before != nil || first.Topic != "persistent://"+namespace+"/x" || first.Scope != pb.Scope_SCOPE_LOCAL {
		t.Error(first)
	}
	server.Kill()
	if value() != 1 {
		t.Error("it has lost its documents")
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	set(2)
	if next := <-changes; next.Before.GetPolicies().GetMaxProducerPerTopic() != 1 || next.After.GetPolicies().GetMaxProducerPerTopic() != 2 || value() != 2 {
		t.Error(next)
	}
	stop()
	if _, err := client.DeletePolicy(t.Context(), &pb.DeletePolicyRequest{Topic: namespace + "/x"}); err != nil {
		t.Fatal(err)
	}
	until(t, "the document is gone", func() bool { return cache.Get(namespace+"/x", 0) == nil })
	if len(changes) != 0 {
		t.Error("a stopped listener was called")
	}
	cache.Close()
	if !errors.Is(cache.Err(), context.Canceled) {
		t.Error(cache.Err())
	}
}

func TestACacheEndsWithAnErrorThatStays(t *testing.T) {
	cache := connected(t, shared(t)).Cache(t.Context(), &pb.WatchPoliciesRequest{Namespaces: []string{"no namespace"}})
	if err := cache.WaitSynced(t.Context()); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if cache.Age() != Forever || cache.List() != nil || cache.Get("t/n/x", 0) != nil {
		t.Error(cache.Age(), cache.List())
	}
}
