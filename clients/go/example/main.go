package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/protobuf/proto"

	"topicpolicies.example/clients/go/topicpolicies"
	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

func main() {
	target := "localhost:6680"
	if len(os.Args) > 1 {
		target = os.Args[1]
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, target, "persistent://public/default/orders-go"); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, target, topic string) error {
	client, err := topicpolicies.New(target, topicpolicies.WithActor("retention-bot"))
	if err != nil {
		return err
	}
	defer client.Close()

	// Sets one field and clears another: a field that the mask names and the message does not set is cleared.
	updated, err := client.UpdatePolicy(ctx, &pb.UpdatePolicyRequest{
		Topic:      topic,
		Policies:   &pb.TopicPolicies{MaxProducerPerTopic: proto.Int32(5)},
		UpdateMask: topicpolicies.Mask("max_producer_per_topic", "message_ttl_in_seconds"),
		Reason:     "the nightly load",
	})
	if err != nil {
		return err
	}
	fmt.Println("updated to version", updated.GetVersion())

	// Edits a copy and sends what differs. If somebody else changes the document meanwhile, the function runs again.
	edited, err := client.Edit(ctx, &pb.UpdatePolicyRequest{Topic: topic}, func(policies *pb.TopicPolicies) error {
		policies.MaxProducerPerTopic = proto.Int32(policies.GetMaxProducerPerTopic() + 1)
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Println("edited: producers", edited.GetDocument().GetPolicies().GetMaxProducerPerTopic())

	// A precondition keeps a change from undoing another one.
	_, err = client.UpdatePolicy(ctx, &pb.UpdatePolicyRequest{
		Topic:        topic,
		Policies:     &pb.TopicPolicies{MaxProducerPerTopic: proto.Int32(1)},
		Precondition: topicpolicies.VersionIs(updated.GetVersion()),
	})
	if !errors.Is(err, topicpolicies.ErrConflict) {
		return fmt.Errorf("an old version was accepted: %w", err)
	}
	fmt.Println("an old version was refused")

	// A copy of the namespace's documents that follows the service.
	cache := client.Cache(ctx, &pb.WatchPoliciesRequest{Namespaces: []string{"public/default"}})
	defer cache.Close()
	if err := cache.WaitSynced(ctx); err != nil {
		return err
	}
	fmt.Println("the cache has version", cache.Get(topic, pb.Scope_SCOPE_LOCAL).GetVersion())

	if _, err := client.DeletePolicy(ctx, &pb.DeletePolicyRequest{Topic: topic}); err != nil {
		return err
	}
	fmt.Println("deleted")
	return nil
}
