package topicpolicies

import (
	"context"
	"iter"
	"time"

	"github.com/google/uuid"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	pb "topicpolicies/clients/go/topicpolicies/v1"
)

// Client changes, reads and follows topic policies. It may be used by many goroutines. Close it when it is no longer needed.
//
// Every call fails with an *Error, or with the context's error when the context was cancelled.
type Client struct {
	line    *line
	stub    pb.TopicPoliciesServiceClient
	target  string
	actor   string
	timeout time.Duration
	retries RetryPolicy
}

// New makes a client of the service at a target: its address, as gRPC understands it, or the addresses of several sidecars, separated by commas,
// which take turns when they can't be reached; empty is DefaultTarget. It connects with the first call.
//
// A change of a namespace that one sidecar leads goes to that one, wherever it is, with the same TLS and token; reads and watches stay where they
// are.
func New(target string, options ...Option) (*Client, error) {
	if target == "" {
		target = DefaultTarget
	}
	chosen := settings{timeout: 30 * time.Second, retries: DefaultRetries}
	for _, option := range options {
		option(&chosen)
	}
	if err := checkActor(chosen.actor); err != nil {
		return nil, err
	}
	if err := chosen.retries.check(); err != nil {
		return nil, err
	}
	line, err := newLine(addressesOf(target), chosen)
	if err != nil {
		return nil, err
	}
	return &Client{
		line:    line,
		stub:    pb.NewTopicPoliciesServiceClient(line),
		target:  target,
		actor:   chosen.actor,
		timeout: chosen.timeout,
		retries: chosen.retries,
	}, nil
}

// Close ends all calls and watches, and the connections.
func (c *Client) Close() error { return c.line.close() }

// Stub is the generated client on the same connections, for what this package has no words for. The actor is not added to its calls, and its
// streams go where reads go.
func (c *Client) Stub() pb.TopicPoliciesServiceClient { return c.stub }

// Update is a change of some fields of one document.
type Update struct {
	Key
	// Policies has the new values of the masked fields.
	Policies *TopicPolicies
	// Mask names the fields to change (see Path). What it names and Policies does not set is cleared. "*" alone replaces the whole
	// document. Empty means the fields that Policies sets.
	Mask []string
	// Etag is the version that the document must have; empty: any.
	Etag string
	// SkipIfAbsent does nothing when there is no document.
	SkipIfAbsent bool
	// ValidateOnly checks everything and answers what would be, without writing.
	ValidateOnly bool
	// RequestID is a UUID, to repeat an earlier request and learn what it did; empty: a new one is made.
	RequestID string
	// ListOperations says what to do with list fields, by path; the others are replaced.
	ListOperations map[string]ListOperation
}

// UpdateResult is what became of an update.
type UpdateResult struct {
	// Document is the document after the change. Its Policies are nil if there is none, or if this answers a repeat whose document is
	// no longer known. With ValidateOnly its version is the present one.
	Document
	// PreviousVersion is the version that the change was applied to. Along all changes of a document each version is the next one's
	// previous one.
	PreviousVersion string
	// Outcome is what became of it.
	Outcome UpdateOutcome
	// RequestID is empty if nothing had to be sent.
	RequestID string
	// Repeated tells whether this is the answer to an earlier request of the same id, given again.
	Repeated bool
}

// Update changes the masked fields of one document, and no others.
func (c *Client) Update(ctx context.Context, update Update) (UpdateResult, error) {
	request, err := update.request()
	if err != nil {
		return UpdateResult{}, err
	}
	answer, err := invoke(ctx, c, request.GetRequestId(), request, c.stub.UpdatePolicy)
	if err != nil {
		return UpdateResult{}, err
	}
	return UpdateResult{
		Document:        Document{Key{answer.GetTopic(), answer.GetScope()}, answer.Policies, answer.GetVersion()},
		PreviousVersion: answer.GetPreviousVersion(),
		Outcome:         answer.GetOutcome(),
		RequestID:       answer.GetRequestId(),
		Repeated:        answer.GetRepeated(),
	}, nil
}

func (u Update) request() (*pb.UpdatePolicyRequest, error) {
	policies, mask := u.Policies, u.Mask
	if policies == nil {
		policies = &TopicPolicies{}
	}
	if len(mask) == 0 {
		mask = PathsOf(policies)
	}
	if len(mask) == 0 {
		return nil, invalid("update_mask", "EMPTY_MASK", "There is nothing to change: give at least one value or path.")
	}
	return &pb.UpdatePolicyRequest{
		Topic:          u.Topic,
		Scope:          u.Scope,
		Policies:       policies,
		UpdateMask:     &fieldmaskpb.FieldMask{Paths: mask},
		SkipIfAbsent:   u.SkipIfAbsent,
		Etag:           u.Etag,
		RequestId:      orNew(u.RequestID),
		ValidateOnly:   u.ValidateOnly,
		ListOperations: u.ListOperations,
	}, nil
}

// Get reads one document; an absent one is no error.
func (c *Client) Get(ctx context.Context, key Key) (Document, error) {
	return c.GetAtLeast(ctx, key, "")
}

// GetAtLeast reads one document that has reached a version of it, as an update returned it: on any server.
func (c *Client) GetAtLeast(ctx context.Context, key Key, version string) (Document, error) {
	request := &pb.GetPolicyRequest{Topic: key.Topic, Scope: key.Scope, AtLeast: version}
	answer, err := invoke(ctx, c, "", request, c.stub.GetPolicy)
	if err != nil {
		return Document{}, err
	}
	return documentOf(answer), nil
}

// List gives the documents of a namespace, tenant/namespace, ordered by topic and scope, page by page as they are asked for. No scopes are
// both. It ends with the first error.
func (c *Client) List(ctx context.Context, namespace string, scopes ...Scope) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		request := &pb.ListPoliciesRequest{Namespace: namespace, Scopes: scopes}
		for {
			page, err := invoke(ctx, c, "", request, c.stub.ListPolicies)
			if err != nil {
				yield(Document{}, err)
				return
			}
			for _, entry := range page.GetEntries() {
				if !yield(documentOf(entry), nil) {
					return
				}
			}
			request.PageToken = page.GetNextPageToken()
			if request.PageToken == "" {
				return
			}
		}
	}
}

// Deletion names the documents of one topic to delete.
type Deletion struct {
	Topic string
	// Scopes and, for each, the etag that its document must have, empty for any. None at all is Local.
	Scopes map[Scope]string
	// RequestID is a UUID, to repeat an earlier request; empty: a new one is made.
	RequestID string
}

// DeleteResult is what became of one scope of a deletion.
type DeleteResult struct {
	Scope   Scope
	Outcome DeleteOutcome
	// Version is the version of the absence.
	Version string
	// PreviousVersion is the version that was deleted.
	PreviousVersion string
	// Err is set if this scope failed; the others are not concerned.
	Err error
	// Repeated tells whether this is the answer to an earlier request of the same id, given again.
	Repeated bool
}

// Delete deletes documents of one topic, scope by scope: one may fail and the other succeed, so look at each result.
func (c *Client) Delete(ctx context.Context, deletion Deletion) ([]DeleteResult, error) {
	request := &pb.DeletePolicyRequest{Topic: deletion.Topic, RequestId: orNew(deletion.RequestID)}
	for _, scope := range []Scope{pb.Scope_SCOPE_UNSPECIFIED, Local, Global} {
		if etag, asked := deletion.Scopes[scope]; asked {
			request.Deletes = append(request.Deletes, &pb.ScopedDelete{Scope: scope, Etag: etag})
		}
	}
	answer, err := invoke(ctx, c, request.GetRequestId(), request, c.stub.DeletePolicy)
	if err != nil {
		return nil, err
	}
	results := make([]DeleteResult, 0, len(answer.GetResults()))
	for _, each := range answer.GetResults() {
		result := DeleteResult{
			Scope: each.GetScope(), Outcome: each.GetOutcome(), Version: each.GetVersion(),
			PreviousVersion: each.GetPreviousVersion(), Repeated: each.GetRepeated(),
		}
		if each.GetError() != nil {
			result.Err = fromStatus(statusOf(each.GetError()), nil)
		}
		results = append(results, result)
	}
	return results, nil
}

// invoke makes one call. requestID is that of a change, empty for a read.
func invoke[Request, Answer any](
	ctx context.Context, c *Client, requestID string, request *Request,
	method func(context.Context, *Request, ...grpc.CallOption) (*Answer, error),
) (*Answer, error) {
	noted := &call{}
	answer, err := method(context.WithValue(c.tagged(ctx), callKey{}, noted), request)
	if err == nil {
		return answer, nil
	}
	failure := fromError(err)
	sent, ambiguous := noted.state()
	switch {
	case requestID != "" && ambiguous && !settled(failure):
		return nil, outcomeUnknown(failure, requestID)
	case ctx.Err() == context.Canceled:
		return nil, ctx.Err()
	case !sent && failure.Code == codes.DeadlineExceeded:
		failure.Code, failure.kind = codes.Unavailable, ErrUnavailable
		failure.Message = "There was no connection to the service at " + c.target + " in time: " + failure.Message
	case requestID != "" && failure.Code == codes.DeadlineExceeded: // all that was sent was refused, and the last attempt did not go out
		failure.Code, failure.kind = codes.Unavailable, ErrUnavailable
		failure.Message = "The change was not made, nobody took it in time: " + failure.Message
	}
	return nil, failure
}

func (c *Client) tagged(ctx context.Context) context.Context {
	if c.actor == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, actorKey, c.actor)
}

func checkActor(actor string) error {
	for i := range len(actor) {
		if b := actor[i]; b < ' ' || b > '~' || (b == ' ' && (i == 0 || i == len(actor)-1)) {
			return invalid("actor", "MALFORMED_ACTOR", "The actor is sent as metadata: printable ASCII, without blanks around it.")
		}
	}
	return nil
}

func orNew(requestID string) string {
	if requestID == "" {
		return uuid.NewString()
	}
	return requestID
}

func statusOf(s *pb.Status) *status.Status {
	return status.FromProto(&rpcstatus.Status{Code: s.GetCode(), Message: s.GetMessage(), Details: s.GetDetails()})
}
