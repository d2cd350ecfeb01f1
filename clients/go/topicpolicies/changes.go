package topicpolicies

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// Update is a change of some fields of one document.
type Update struct {
	Key
	// Policies has the new values of the masked fields. What the mask names and Policies does not set is cleared.
	Policies *TopicPolicies
	// Mask names the fields to change (see Path). "*" alone replaces the whole document. Empty means what Policies sets: leaf by leaf in
	// objects, entry by entry in maps.
	Mask []string
	// ListOperations says what to do with list fields, by path; the others are replaced.
	ListOperations map[string]ListOperation
	// ETag is the version that the document, or its absence, must have; empty: any.
	ETag string
	// MustNotExist fails with ErrAlreadyExists when there is a document.
	MustNotExist bool
	// SkipIfAbsent does nothing when there is no document.
	SkipIfAbsent bool
	// ValidateOnly checks everything and answers what would be, without writing.
	ValidateOnly bool
	// IncludePrevious has the answer tell the document before the change.
	IncludePrevious bool
	// RequestID is a UUID, to repeat an earlier request and learn what it did; empty: a new one is made.
	RequestID string
	// Actor says who asks, and Reason why; both are kept in the log. Empty: the client's actor, and no reason.
	Actor  string
	Reason string
}

// UpdateResult is what became of an update.
type UpdateResult struct {
	// Document is the document after the change. With ValidateOnly it is the one that would be, with the present version. It is empty only if
	// this answers a repeat and the document is not known any more, because there were changes since.
	Document PolicyDocument
	// Version is the version after the change. It is empty only if this answers a repeat of which it is no longer known.
	Version string
	// PreviousVersion is the version that the change was applied to. Along all changes of a document each version is the next one's
	// previous one.
	PreviousVersion string
	// Previous is the document that the change was applied to; nil if it was not asked for, or is not known any more.
	Previous *PolicyDocument
	// Outcome is what became of it.
	Outcome UpdateOutcome
	// RequestID is the request's id, 32 hexadecimal digits; empty if nothing had to be sent.
	RequestID string
	// Replayed tells whether this is the answer to an earlier request of the same id, given again.
	Replayed bool
}

// Update changes the masked fields of one document, and no others.
func (c *Client) Update(ctx context.Context, update Update) (UpdateResult, error) {
	answer, err := invoke(ctx, c, update.request(), c.stub.UpdatePolicy)
	if err != nil {
		return UpdateResult{}, err
	}
	return updateResultOf(answer), nil
}

// request has a mask only where the caller gave one: what no mask means is the service's to say.
func (u Update) request() *pb.UpdatePolicyRequest {
	request := &pb.UpdatePolicyRequest{
		Topic:           u.Topic,
		Scope:           u.Scope,
		Policies:        u.Policies,
		ListOperations:  u.ListOperations,
		Etag:            u.ETag,
		MustNotExist:    u.MustNotExist,
		SkipIfAbsent:    u.SkipIfAbsent,
		RequestId:       orNew(u.RequestID),
		ValidateOnly:    u.ValidateOnly,
		Actor:           u.Actor,
		Reason:          u.Reason,
		IncludePrevious: u.IncludePrevious,
	}
	if len(u.Mask) > 0 {
		request.UpdateMask = &fieldmaskpb.FieldMask{Paths: u.Mask}
	}
	return request
}

func updateResultOf(m *pb.UpdatePolicyResponse) UpdateResult {
	return UpdateResult{
		Document:        documentOf(m.GetDocument()),
		Version:         m.GetVersion(),
		PreviousVersion: m.GetPreviousVersion(),
		Previous:        knownDocument(m.GetPrevious()),
		Outcome:         m.GetOutcome(),
		RequestID:       m.GetRequestId(),
		Replayed:        m.GetReplayed(),
	}
}

// Deletion names one document to delete.
type Deletion struct {
	Key
	// ETag is the version that the document must have; empty: any.
	ETag string
	// ValidateOnly checks everything and answers what would be, without writing.
	ValidateOnly bool
	// IncludePrevious has the answer tell the document that was deleted.
	IncludePrevious bool
	// RequestID is a UUID, to repeat an earlier request; empty: a new one is made.
	RequestID string
	// Actor says who asks, and Reason why, as in Update.
	Actor  string
	Reason string
}

// DeleteResult is what became of a deletion.
type DeleteResult struct {
	// Document is the absence after the deletion. With ValidateOnly it has the present version. It is empty only where Version is.
	Document PolicyDocument
	// Version is the version after the deletion. It is empty only if this answers a repeat of which it is no longer known.
	Version string
	// PreviousVersion is the version that was deleted.
	PreviousVersion string
	// Previous is the document that was deleted; nil if it was not asked for, or is not known any more.
	Previous *PolicyDocument
	// Outcome is what became of it.
	Outcome DeleteOutcome
	// RequestID is the request's id, 32 hexadecimal digits.
	RequestID string
	// Replayed tells whether this is the answer to an earlier request of the same id, given again.
	Replayed bool
}

// Delete deletes one document. One that is not there is deleted already: DeleteOutcomeAbsent.
func (c *Client) Delete(ctx context.Context, deletion Deletion) (DeleteResult, error) {
	answer, err := invoke(ctx, c, deletion.request(), c.stub.DeletePolicy)
	if err != nil {
		return DeleteResult{}, err
	}
	return deleteResultOf(answer), nil
}

func (d Deletion) request() *pb.DeletePolicyRequest {
	return &pb.DeletePolicyRequest{
		Topic:           d.Topic,
		Scope:           d.Scope,
		Etag:            d.ETag,
		RequestId:       orNew(d.RequestID),
		ValidateOnly:    d.ValidateOnly,
		Actor:           d.Actor,
		Reason:          d.Reason,
		IncludePrevious: d.IncludePrevious,
	}
}

func deleteResultOf(m *pb.DeletePolicyResponse) DeleteResult {
	return DeleteResult{
		Document:        documentOf(m.GetDocument()),
		Version:         m.GetVersion(),
		PreviousVersion: m.GetPreviousVersion(),
		Previous:        knownDocument(m.GetPrevious()),
		Outcome:         m.GetOutcome(),
		RequestID:       m.GetRequestId(),
		Replayed:        m.GetReplayed(),
	}
}

// orNew is a request id in the form in which the service tells it.
func orNew(requestID string) string {
	if requestID == "" {
		return strings.ReplaceAll(uuid.NewString(), "-", "")
	}
	return requestID
}
