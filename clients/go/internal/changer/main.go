// The Go part of the test in which all clients change one topic at once (tests/clients): it changes its own settings of the topic, and
// prints every change.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"topicpolicies.example/clients/go/topicpolicies"
	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

const entry = "of go.1" // a key that needs backticks

func main() {
	turns, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	client, err := topicpolicies.New(os.Args[1], topicpolicies.WithActor("go"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	key := topicpolicies.Key{Topic: os.Args[2]}
	ctx := context.Background()
	if parent := os.Getenv("TRACEPARENT"); parent != "" { // as an instrumentation does: each call carries its trace
		ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", parent)
	}
	if _, err := client.Get(ctx, key); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		log.Fatal(err)
	}
	runs := 0
	for turn := 1; turn <= turns; turn++ {
		result, err := change(ctx, client, key, int32(turn), &runs)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("changed %d %s %s\n", turn, result.PreviousVersion, result.Version)
		time.Sleep(rand.N(60 * time.Millisecond))
	}
	fmt.Printf("runs %d\n", runs)
}

// change makes even turns by an edit of a map entry, and odd ones by an update of a field.
func change(
	ctx context.Context, client *topicpolicies.Client, key topicpolicies.Key, turn int32, runs *int,
) (topicpolicies.UpdateResult, error) {
	if turn%2 == 1 {
		policies := &topicpolicies.TopicPolicies{MaxConsumerPerTopic: proto.Int32(turn)}
		return client.Update(ctx, topicpolicies.Update{Key: key, Policies: policies, Mask: []string{"max_consumer_per_topic"}})
	}
	for {
		result, err := client.Edit(ctx, key, func(policies *topicpolicies.TopicPolicies) error {
			*runs++
			if policies.SubscriptionPolicies == nil {
				policies.SubscriptionPolicies = map[string]*pb.SubscriptionPolicies{}
			}
			rate := &pb.DispatchRate{DispatchThrottlingRateInMsg: proto.Int32(turn)}
			policies.SubscriptionPolicies[entry] = &pb.SubscriptionPolicies{DispatchRate: rate}
			return nil
		})
		if !errors.Is(err, topicpolicies.ErrConflict) { // edit gave up after many conflicts; nothing was lost, so try again
			return result, err
		}
	}
}
