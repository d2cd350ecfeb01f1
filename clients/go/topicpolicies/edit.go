package topicpolicies

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// Edit reads a document, calls a function that changes a copy of it, and sends what differs, on the condition that nobody else has changed the
// document. If somebody has, it begins again, until the context ends. The function therefore may run several times. If it returns an error,
// Edit returns that error and changes nothing.
//
// The request says what else an update says: topic and scope, actor and reason, SkipIfAbsent, ValidateOnly, IncludePrevious. Edit sets its
// policies, mask and precondition, and each attempt has a request id of its own.
func (c *Client) Edit(
	ctx context.Context, request *pb.UpdatePolicyRequest, edit func(*pb.TopicPolicies) error,
) (*pb.ChangeResult, error) {
	ctx, cancel := c.settings.limited(ctx)
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		result, err := c.editOnce(ctx, request, edit)
		if !errors.Is(err, ErrConflict) {
			return result, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(rand.N(pause)):
		}
	}
}

func (c *Client) editOnce(
	ctx context.Context, request *pb.UpdatePolicyRequest, edit func(*pb.TopicPolicies) error,
) (*pb.ChangeResult, error) {
	document, err := c.GetPolicy(ctx, &pb.GetPolicyRequest{Topic: request.GetTopic(), Scope: request.GetScope()})
	if err != nil {
		return nil, err
	}
	if request.GetSkipIfAbsent() && document.Policies == nil {
		return unwritten(request, document, pb.ChangeOutcome_CHANGE_OUTCOME_SKIPPED), nil
	}
	edited := &pb.TopicPolicies{}
	if document.Policies != nil {
		edited = proto.CloneOf(document.Policies)
	}
	if err := edit(edited); err != nil {
		return nil, err
	}
	paths := PathsBetween(document.GetPolicies(), edited)
	if len(paths) == 0 {
		return unwritten(request, document, pb.ChangeOutcome_CHANGE_OUTCOME_UNCHANGED), nil
	}
	update := proto.CloneOf(request)
	update.Policies, update.UpdateMask = edited, Mask(paths...)
	update.Precondition = VersionIs(document.GetVersion())
	update.ListOperations, update.SkipIfAbsent, update.RequestId = nil, false, ""
	return c.UpdatePolicy(ctx, update)
}

// unwritten is the result of an edit that sends nothing.
func unwritten(request *pb.UpdatePolicyRequest, document *pb.PolicyDocument, outcome pb.ChangeOutcome) *pb.ChangeResult {
	result := &pb.ChangeResult{
		Document: document, Version: document.GetVersion(), PreviousVersion: document.GetVersion(), Outcome: outcome,
	}
	if request.GetIncludePrevious() {
		result.Previous = document
	}
	return result
}

// VersionIs is the precondition that a document, or its absence, has a version.
func VersionIs(version string) *pb.Precondition {
	return &pb.Precondition{Condition: &pb.Precondition_Version{Version: version}}
}

// Exists is the precondition that there is a document, or that there is none.
func Exists(exists bool) *pb.Precondition {
	return &pb.Precondition{Condition: &pb.Precondition_Exists{Exists: exists}}
}
