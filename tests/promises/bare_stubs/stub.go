// A client that is nothing but generated code, gRPC, and clients/service_config.json: the Go twin of stub.py.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

const (
	timeout    = 20 * time.Second
	mostErrors = 10
)

type line map[string]any

var printing sync.Mutex

func say(what line) {
	text, err := json.Marshal(what)
	check(err)
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(text))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func newID() string {
	id := make([]byte, 16)
	_, err := rand.Read(id)
	check(err)
	return hex.EncodeToString(id)
}

func reasonOf(status *status.Status) string {
	for _, detail := range status.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

func result(change *pb.ChangeResult, what line) line {
	what["outcome"] = strings.TrimPrefix(change.GetOutcome().String(), "CHANGE_OUTCOME_")
	what["version"] = change.GetVersion()
	what["previous_version"] = change.GetPreviousVersion()
	what["request_id"] = change.GetRequestId()
	what["replayed"] = change.GetReplayed()
	return what
}

func update(stub pb.TopicPoliciesServiceClient, request *pb.UpdatePolicyRequest) (*pb.ChangeResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return stub.UpdatePolicy(ctx, request)
}

func changes(stub pb.TopicPoliciesServiceClient, topic string) {
	five, id := int32(5), newID()
	for range 2 {
		request := &pb.UpdatePolicyRequest{Topic: topic, RequestId: id, Policies: &pb.TopicPolicies{MaxProducerPerTopic: &five}}
		done, err := update(stub, request)
		check(err)
		say(result(done, line{"call": "UpdatePolicy"}))
	}
	batch := &pb.BatchUpdatePoliciesRequest{}
	for number := int32(1); number < 4; number++ {
		one := &pb.UpdatePolicyRequest{Topic: topic, RequestId: newID(), Policies: &pb.TopicPolicies{MaxConsumerPerTopic: &number}}
		batch.Changes = append(batch.Changes, &pb.PolicyChangeRequest{Change: &pb.PolicyChangeRequest_Update{Update: one}})
	}
	nowhere := &pb.PolicyChangeRequest_Update{Update: &pb.UpdatePolicyRequest{Topic: "nowhere"}}
	absent := &pb.PolicyChangeRequest_Delete{Delete: &pb.DeletePolicyRequest{Topic: topic + "-absent"}}
	batch.Changes = append(batch.Changes, &pb.PolicyChangeRequest{Change: nowhere}, &pb.PolicyChangeRequest{Change: absent})
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	answer, err := stub.BatchUpdatePolicies(ctx, batch)
	check(err)
	for _, each := range answer.GetResults() {
		if each.GetError() != nil {
			say(line{"call": "BatchUpdatePolicies", "error": reasonOf(status.FromProto(each.GetError()))})
		} else {
			say(result(each.GetSuccess(), line{"call": "BatchUpdatePolicies"}))
		}
	}
}

func watch(stub pb.TopicPoliciesServiceClient, namespace, token string) {
	for {
		request := &pb.WatchPoliciesRequest{Namespaces: []string{namespace}, Mode: pb.WatchMode_WATCH_MODE_EVERY}
		if token != "" {
			request.ResumeTokens = map[string]string{namespace: token}
		}
		stream, err := stub.WatchPolicies(context.Background(), request)
		for err == nil {
			var batch *pb.WatchPoliciesResponse
			if batch, err = stream.Recv(); err != nil {
				break
			}
			for _, event := range batch.GetEvents() {
				if event.GetResumeToken() != "" {
					token = event.GetResumeToken()
				}
				document := event.GetChange().GetDocument()
				say(line{
					"event": kind(event), "synced": event.GetBookmark().GetSynced(), "topic": document.GetTopic(),
					"previous_version": event.GetChange().GetPreviousVersion(), "version": document.GetVersion(),
					"token": event.GetResumeToken(),
				})
			}
		}
		say(line{"event": "ended", "code": status.Code(err).String()})
		time.Sleep(100 * time.Millisecond)
	}
}

func kind(event *pb.WatchEvent) string {
	content := event.ProtoReflect().WhichOneof(event.ProtoReflect().Descriptor().Oneofs().ByName("content"))
	return string(content.Name())
}

// attempt makes a change, by a call of its own or by a batch; it returns its result, or what it failed with.
func attempt(stub pb.TopicPoliciesServiceClient, request *pb.UpdatePolicyRequest, batched bool) (*pb.ChangeResult, string) {
	if !batched {
		done, err := update(stub, request)
		return done, failure(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	change := &pb.PolicyChangeRequest{Change: &pb.PolicyChangeRequest_Update{Update: request}}
	answer, err := stub.BatchUpdatePolicies(ctx, &pb.BatchUpdatePoliciesRequest{Changes: []*pb.PolicyChangeRequest{change}})
	if err != nil {
		return nil, failure(err)
	}
	if failed := answer.GetResults()[0].GetError(); failed != nil {
		return nil, "in a batch: " + reasonOf(status.FromProto(failed))
	}
	return answer.GetResults()[0].GetSuccess(), ""
}

func failure(err error) string {
	if err == nil {
		return ""
	}
	failed := status.Convert(err)
	return fmt.Sprintf("%s %s %s", failed.Code(), reasonOf(failed), failed.Message())
}

func load(stub pb.TopicPoliciesServiceClient, topic, name string, ended context.Context) {
	for value := int32(1); ended.Err() == nil; value++ {
		rate := &pb.DispatchRate{DispatchThrottlingRateInMsg: &value}
		policies := &pb.TopicPolicies{SubscriptionPolicies: map[string]*pb.SubscriptionPolicies{name: {DispatchRate: rate}}}
		request := &pb.UpdatePolicyRequest{Topic: topic, RequestId: newID(), Policies: policies}
		what, errors := line{"call": "load", "name": name, "value": value}, []string{}
		for len(errors) < mostErrors {
			done, failed := attempt(stub, request, value%3 == 0)
			if failed == "" {
				what = result(done, what)
				break
			}
			errors = append(errors, failed)
		}
		what["errors"] = errors
		say(what)
		time.Sleep(50 * time.Millisecond)
	}
}

func main() {
	config, err := os.ReadFile(os.Args[1])
	check(err)
	addresses := manual.NewBuilderWithScheme("given")
	given := resolver.State{}
	for _, address := range strings.Split(os.Args[2], ",") {
		given.Addresses = append(given.Addresses, resolver.Address{Addr: address})
	}
	addresses.InitialState(given)
	channel, err := grpc.NewClient("given:///", grpc.WithResolvers(addresses), grpc.WithDefaultServiceConfig(string(config)),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	stub := pb.NewTopicPoliciesServiceClient(channel)
	command, arguments := os.Args[3], append(os.Args[4:], "")
	switch command {
	case "changes":
		changes(stub, arguments[0])
	case "watch":
		watch(stub, arguments[0], arguments[1])
	case "load":
		clients, err := strconv.Atoi(arguments[1])
		check(err)
		ended, end := context.WithCancel(context.Background())
		var running sync.WaitGroup
		for number := range clients {
			running.Add(1)
			go func() {
				defer running.Done()
				load(stub, arguments[0], fmt.Sprintf("go-%d", number), ended)
			}()
		}
		_, err = io.ReadAll(os.Stdin)
		check(err)
		end()
		running.Wait()
	}
}
