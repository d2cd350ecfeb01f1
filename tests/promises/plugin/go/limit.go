// Sets how many producers a topic may have, over gRPC: the arguments are the service's address, the topic and the number.
package main

import (
	"context"
	"log"
	"os"
	"strconv"

	"google.golang.org/protobuf/proto"

	"topicpolicies.example/clients/go/topicpolicies"
	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

func main() {
	limit, err := strconv.ParseInt(os.Args[3], 10, 32)
	if err != nil {
		log.Fatal(err)
	}
	client, err := topicpolicies.New(os.Args[1], topicpolicies.WithActor("go"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	_, err = client.UpdatePolicy(context.Background(), &pb.UpdatePolicyRequest{
		Topic:      os.Args[2],
		Policies:   &pb.TopicPolicies{MaxProducerPerTopic: proto.Int32(int32(limit))},
		UpdateMask: topicpolicies.Mask("max_producer_per_topic"),
	})
	if err != nil {
		log.Fatal(err)
	}
}
