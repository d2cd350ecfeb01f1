// An example of the client's main features. Start "topicpolicies serve --data policies.db", then "go run ./example". If the server works
// with a broker, the topic has to exist.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"google.golang.org/protobuf/proto"

	"topicpolicies.example/clients/go/topicpolicies"
	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

func main() {
	target := flag.String("target", topicpolicies.DefaultTarget, "the service's address")
	topic := flag.String("topic", "persistent://public/default/orders-go", "a topic to change")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, *target, *topic); err != nil {
		log.Fatalf("example: %v", err)
	}
}

func run(ctx context.Context, target, topic string) error {
	client, err := topicpolicies.New(target, topicpolicies.WithActor("go-example"))
	if err != nil {
		return err
	}
	defer client.Close()
	key := topicpolicies.Key{Topic: topic}

	// A cache, and a listener that is called for every change.
	cache, err := client.Cache(ctx, topicpolicies.Selection{Topics: []string{topic}})
	if err != nil {
		return err
	}
	defer cache.Close()
	if err := cache.WaitSynced(ctx); err != nil {
		return err
	}
	limits := make(chan int32, 100)
	stop := cache.Listen(func(change topicpolicies.Change) {
		if change.After != nil {
			limits <- change.After.Policies.GetMaxProducerPerTopic()
		}
	})
	defer stop()

	// An update: sets two fields and clears a third.
	updated, err := client.Update(ctx, topicpolicies.Update{
		Key: key,
		Policies: &topicpolicies.TopicPolicies{
			MaxProducerPerTopic: proto.Int32(5),
			RetentionPolicies:   &pb.RetentionPolicies{RetentionTimeInMinutes: proto.Int32(60), RetentionSizeInMb: proto.Int64(512)},
		},
		Mask: []string{"max_producer_per_topic", "retention_policies", "message_ttl_in_seconds"},
	})
	if err != nil {
		return err
	}
	fmt.Printf("updated to version %s\n", updated.Version)

	// An edit: sets one entry of a map and leaves the others alone. If another writer was faster, the function runs again. The reason is
	// stored in the log.
	edited, err := client.Edit(ctx, key, func(policies *topicpolicies.TopicPolicies) error {
		policies.MaxProducerPerTopic = proto.Int32(policies.GetMaxProducerPerTopic() + 1)
		if policies.SubscriptionPolicies == nil {
			policies.SubscriptionPolicies = map[string]*pb.SubscriptionPolicies{}
		}
		rate := &pb.DispatchRate{DispatchThrottlingRateInMsg: proto.Int32(100)}
		policies.SubscriptionPolicies["billing"] = &pb.SubscriptionPolicies{DispatchRate: rate}
		return nil
	}, func(update *topicpolicies.Update) { update.Reason = "billing reads slowly" })
	if err != nil {
		return err
	}
	fmt.Printf("edited: at most %d producers\n", edited.Document.Policies.GetMaxProducerPerTopic())

	// An old etag is a conflict, not a lost update.
	_, err = client.Update(ctx, topicpolicies.Update{
		Key: key, Policies: &topicpolicies.TopicPolicies{MaxProducerPerTopic: proto.Int32(1)}, ETag: updated.Version,
	})
	if !errors.Is(err, topicpolicies.ErrConflict) {
		return fmt.Errorf("an old etag was accepted: %w", err)
	}
	fmt.Println("an old etag was refused")

	// Wait until the listener was called; then the cache has the change too.
	for limit := int32(0); limit != edited.Document.Policies.GetMaxProducerPerTopic(); {
		select {
		case limit = <-limits:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	document, _ := cache.Get(key)
	fmt.Printf("the cache has version %s, confirmed %s ago\n", document.Version, cache.Staleness().Round(time.Millisecond))

	if _, err := client.Delete(ctx, topicpolicies.Deletion{Key: key, ETag: edited.Version}); err != nil {
		return err
	}
	fmt.Println("deleted")
	return nil
}
