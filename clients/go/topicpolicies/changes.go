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
	// Policies has the new values of the masked fields. A field that the mask names and Policies does not set is cleared.
	Policies *TopicPolicies
	// Mask has the paths of the fields to change (see Path). "*" alone replaces the whole document. If it is empty, the fields and map
	// entries that Policies sets are changed, and nothing is cleared.
	Mask []string
	// ListOperations says what to do with list fields, by path; a list without an entry here is replaced.
	ListOperations map[string]ListOperation
	// ETag is the version that the document, or its absence, must have; empty: any.
	ETag string
	// MustNotExist makes the update fail with ErrAlreadyExists if there is a document.
	MustNotExist bool
	// SkipIfAbsent makes the update do nothing if there is no document.
	SkipIfAbsent bool
	// ValidateOnly checks everything and returns what the result would be, without writing.
	ValidateOnly bool
	// IncludePrevious returns the document before the change too.
	IncludePrevious bool
	// RequestID is a UUID; if it is empty, a new one is used. Set it to the id of an earlier request to repeat that request and learn its
	// outcome.
	RequestID string
	// Actor says who makes the change, and Reason why; both are stored in the log. If they are empty, the client's actor is used, and no
	// reason.
	Actor  string
	Reason string
}

// UpdateResult is the result of an update.
type UpdateResult struct {
	// Document is the document after the change. With ValidateOnly, it is the document as it would be, with the present version. It is
	// empty only in the answer to a repeat, if later changes have replaced the document.
	Document PolicyDocument
	// Version is the version after the change. It is empty only in the answer to a repeat, if it is no longer known.
	Version string
	// PreviousVersion is the version that the change was applied to. Along all changes of a document, each version is the next one's
	// previous version.
	PreviousVersion string
	// Previous is the document that the change was applied to; nil if it was not requested, or is no longer known.
	Previous *PolicyDocument
	// Outcome says what the update did.
	Outcome UpdateOutcome
	// RequestID is the id of the request, 32 hexadecimal digits; empty if nothing had to be sent.
	RequestID string
	// Replayed reports whether this is the answer to an earlier request with the same id, returned again.
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

// request builds the request message. It has a mask only if the caller gave one: the service defines what no mask means.
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
	// ETag is the version that the document, or its absence, must have; empty: any.
	ETag string
	// ValidateOnly checks everything and returns what the result would be, without writing.
	ValidateOnly bool
	// IncludePrevious returns the document that was deleted too.
	IncludePrevious bool
	// RequestID is a UUID; if it is empty, a new one is used. Set it to the id of an earlier request to repeat that request.
	RequestID string
	// Actor says who makes the change, and Reason why, as in Update.
	Actor  string
	Reason string
}

// DeleteResult is the result of a deletion.
type DeleteResult struct {
	// Document has the version after the deletion, and no policies. With ValidateOnly, it has the present version. It is empty only if
	// Version is.
	Document PolicyDocument
	// Version is the version after the deletion. It is empty only in the answer to a repeat, if it is no longer known.
	Version string
	// PreviousVersion is the version that was deleted.
	PreviousVersion string
	// Previous is the document that was deleted; nil if it was not requested, or is no longer known.
	Previous *PolicyDocument
	// Outcome says what the deletion did.
	Outcome DeleteOutcome
	// RequestID is the id of the request, 32 hexadecimal digits.
	RequestID string
	// Replayed reports whether this is the answer to an earlier request with the same id, returned again.
	Replayed bool
}

// Delete deletes one document. If there is none, that is no error (the outcome is DeleteOutcomeAbsent), unless an ETag is given that does
// not match the version of the absence: that is ErrConflict, as with a document.
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

// orNew returns the request id, or a new one in the form in which the service returns ids.
func orNew(requestID string) string {
	if requestID == "" {
		return strings.ReplaceAll(uuid.NewString(), "-", "")
	}
	return requestID
}
