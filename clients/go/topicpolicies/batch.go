package topicpolicies

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// The most changes and bytes of one request of a batch.
const (
	batchChanges = 1000
	batchBytes   = 3 << 20
)

// BatchResult is what became of one change of a batch.
type BatchResult struct {
	// Result is the answer to the change; nil if it failed.
	Result *pb.ChangeResult
	// Err is the *Error of the change; nil if it succeeded.
	Err error
}

// UpdateOf makes an update a change of a batch.
func UpdateOf(request *pb.UpdatePolicyRequest) *pb.PolicyChangeRequest {
	return &pb.PolicyChangeRequest{Change: &pb.PolicyChangeRequest_Update{Update: request}}
}

// DeletionOf makes a deletion a change of a batch.
func DeletionOf(request *pb.DeletePolicyRequest) *pb.PolicyChangeRequest {
	return &pb.PolicyChangeRequest{Change: &pb.PolicyChangeRequest_Delete{Delete: request}}
}

// Batch makes any number of changes and returns a result for each, in their order. It sends them in as few requests as possible, one after
// the other, so changes of one topic and scope are made in the order of the batch. A change that fails fails alone.
func (c *Client) Batch(ctx context.Context, changes []*pb.PolicyChangeRequest) []BatchResult {
	results := make([]BatchResult, 0, len(changes))
	for len(changes) > 0 {
		count := fitting(changes)
		results = append(results, c.batch(ctx, changes[:count])...)
		changes = changes[count:]
	}
	return results
}

// fitting returns how many of the next changes fit into one request: at least one.
func fitting(changes []*pb.PolicyChangeRequest) int {
	bytes := 0
	for i, change := range changes {
		bytes += proto.Size(change) + 128 // its request id and actor
		if i > 0 && (i == batchChanges || bytes > batchBytes) {
			return i
		}
	}
	return len(changes)
}

func (c *Client) batch(ctx context.Context, changes []*pb.PolicyChangeRequest) []BatchResult {
	filled, _, _ := c.settings.identified(&pb.BatchUpdatePoliciesRequest{Changes: changes})
	request := filled.(*pb.BatchUpdatePoliciesRequest)
	answer, err := c.BatchUpdatePolicies(ctx, request)
	results := make([]BatchResult, len(changes))
	for i, change := range request.Changes {
		requestID := change.GetUpdate().GetRequestId() + change.GetDelete().GetRequestId() // there is only one
		switch {
		case err != nil:
			results[i].Err = newError(status.Convert(err).Err(), errors.Is(err, ErrOutcomeUnknown), requestID)
		case i >= len(answer.GetResults()):
			results[i].Err = newError(status.Error(codes.Internal, "The answer has no result of this change."), true, requestID)
		case answer.Results[i].GetSuccess() != nil:
			results[i].Result = answer.Results[i].GetSuccess()
		default:
			results[i].Err = newError(status.ErrorProto(answer.Results[i].GetError()), true, requestID)
		}
	}
	return results
}
