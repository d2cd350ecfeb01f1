// The Go part of the test in which all clients change one topic at once (tests/clients): it changes its own settings of the topic, and
// prints every change.
package main

import (
	"bufio"
	"context"
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
	topic, ctx := os.Args[2], context.Background()
	if parent := os.Getenv("TRACEPARENT"); parent != "" { // as an instrumentation does: each call carries its trace
		ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", parent)
	}
	if _, err := client.GetPolicy(ctx, &pb.GetPolicyRequest{Topic: topic}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		log.Fatal(err)
	}
	runs := 0
	for turn := 1; turn <= turns; turn++ {
		result, err := change(ctx, client, topic, int32(turn), &runs)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("changed %d %s %s\n", turn, result.GetPreviousVersion(), result.GetVersion())
		time.Sleep(rand.N(60 * time.Millisecond))
	}
	fmt.Printf("runs %d\n", runs)
}

// change makes even turns by an edit of a map entry, and odd ones by an update of a field.
func change(ctx context.Context, client *topicpolicies.Client, topic string, turn int32, runs *int) (*pb.ChangeResult, error) {
	if turn%2 == 1 {
		return client.UpdatePolicy(ctx, &pb.UpdatePolicyRequest{
			Topic: topic, Policies: &pb.TopicPolicies{MaxConsumerPerTopic: proto.Int32(turn)},
			UpdateMask: topicpolicies.Mask("max_consumer_per_topic"),
		})
	}
	return client.Edit(ctx, &pb.UpdatePolicyRequest{Topic: topic}, func(policies *pb.TopicPolicies) error {
		*runs++
		if policies.SubscriptionPolicies == nil {
			policies.SubscriptionPolicies = map[string]*pb.SubscriptionPolicies{}
		}
		rate := &pb.DispatchRate{DispatchThrottlingRateInMsg: proto.Int32(turn)}
		policies.SubscriptionPolicies[entry] = &pb.SubscriptionPolicies{DispatchRate: rate}
		return nil
	})
}
