package topicpolicies

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// What can go wrong, for errors.Is: one error per thing that a caller would handle differently. A call that was not answered in time
// matches context.DeadlineExceeded, and one that its caller cancelled context.Canceled, whatever else they match.
var (
	// ErrInvalidArgument: the request is wrong and will stay wrong; also returned before anything is sent.
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrNotFound: the topic, namespace or tenant does not exist.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the document is not at the version that the etag demanded, or others changed it again and again. Read it again and decide
	// anew.
	ErrConflict = errors.New("conflict")
	// ErrAlreadyExists: there is a document, and MustNotExist was set.
	ErrAlreadyExists = errors.New("already exists")
	// ErrFailedPrecondition: the request does not fit the present state, such as topic policies being disabled.
	ErrFailedPrecondition = errors.New("failed precondition")
	// ErrOutOfRange: the history does not tell for certain what was there.
	ErrOutOfRange = errors.New("out of range")
	// ErrResourceExhausted: a limit of the service was met; nothing was done.
	ErrResourceExhausted = errors.New("resource exhausted")
	// ErrPermissionDenied: the caller is unknown or may not do this.
	ErrPermissionDenied = errors.New("permission denied")
	// ErrUnavailable: the service, or the change log behind it, can't be reached; nothing was done.
	ErrUnavailable = errors.New("unavailable")
	// ErrOutcomeUnknown: a change may or may not have been made: its answer was lost, or did not come in time. To learn what happened,
	// repeat the same call with the error's RequestID: what was done is not done twice.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("closed")
)

var kinds = map[codes.Code]error{
	codes.InvalidArgument:    ErrInvalidArgument,
	codes.NotFound:           ErrNotFound,
	codes.Aborted:            ErrConflict,
	codes.AlreadyExists:      ErrAlreadyExists,
	codes.FailedPrecondition: ErrFailedPrecondition,
	codes.OutOfRange:         ErrOutOfRange,
	codes.ResourceExhausted:  ErrResourceExhausted,
	codes.Unauthenticated:    ErrPermissionDenied,
	codes.PermissionDenied:   ErrPermissionDenied,
	codes.Unavailable:        ErrUnavailable,
	codes.DeadlineExceeded:   context.DeadlineExceeded,
}

// domain is the domain of the service's own reasons.
const domain = "topicpolicies"

// Violation is one thing that is wrong with a request.
type Violation struct {
	// Field is the request's field, such as update_mask.paths[1] or policies.retention_policies.
	Field string
	// Reason is machine-readable, such as UNKNOWN_PATH; empty if the service gave none.
	Reason string
	// Description is a sentence that says what is wrong and what to do.
	Description string
}

// Error is what every call fails with. errors.Is(err, ErrConflict) and its siblings tell kinds apart, errors.As gives the details.
type Error struct {
	// Code is gRPC's status code.
	Code codes.Code
	// Reason is the name of an ErrorReason without its prefix, such as ETAG_MISMATCH; empty if the error is not the service's own (a broken
	// connection, a proxy).
	Reason string
	// Message is a sentence for people.
	Message string
	// Metadata has further facts for programs.
	Metadata map[string]string
	// Violations are all that is wrong with the request, if it was at fault.
	Violations []Violation
	// FromService tells whether the service itself said so.
	FromService bool
	// RetryAfter is after which time a repeat may help, as google.rpc.RetryInfo tells; 0: nobody said so.
	RetryAfter time.Duration
	// RequestID is the id of the request whose outcome is unknown; empty otherwise.
	RequestID string

	kind    error
	ended   error // the error of the caller's context, if that has ended the call
	cause   error
	details []*anypb.Any
}

// Error is the sentence for people.
func (e *Error) Error() string { return e.Message }

// Is tells whether this is an error of that kind.
func (e *Error) Is(kind error) bool {
	return kind != nil && (kind == e.kind || kind == e.ended || (kind == context.DeadlineExceeded && e.Code == codes.DeadlineExceeded))
}

// Unwrap is what gRPC gave, if it came from there.
func (e *Error) Unwrap() error { return e.cause }

// GRPCStatus lets status.FromError and status.Code understand it; it has the details that the service gave.
func (e *Error) GRPCStatus() *status.Status {
	return status.FromProto(&rpcstatus.Status{Code: int32(e.Code), Message: e.Message, Details: e.details})
}

// fromStatus reads a status with its google.rpc details. Details of other kinds are passed over.
func fromStatus(s *status.Status, cause error) *Error {
	failure := &Error{Code: s.Code(), Message: s.Message(), kind: kinds[s.Code()], cause: cause, details: s.Proto().GetDetails()}
	for _, detail := range s.Details() {
		switch each := detail.(type) {
		case *errdetails.ErrorInfo:
			failure.Reason, failure.Metadata, failure.FromService = each.GetReason(), each.GetMetadata(), each.GetDomain() == domain
		case *errdetails.RetryInfo:
			failure.RetryAfter = max(0, each.GetRetryDelay().AsDuration())
		case *errdetails.BadRequest:
			for _, violation := range each.GetFieldViolations() {
				failure.Violations = append(failure.Violations, Violation{violation.GetField(), violation.GetReason(), violation.GetDescription()})
			}
		}
	}
	if failure.Message == "" {
		failure.Message = s.Code().String()
	}
	return failure
}

func fromError(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	return fromStatus(status.Convert(err), err)
}

// passingLimit tells whether a limit was met of which it is said when there is room again. Nothing was done.
func passingLimit(failure *Error) bool {
	return failure.Code == codes.ResourceExhausted && failure.RetryAfter > 0
}

// reasonOf is a reason as errors have it, without its prefix: empty for none, a number for one that this package does not know.
func reasonOf(reason pb.ErrorReason) string {
	if reason == pb.ErrorReason_ERROR_REASON_UNSPECIFIED {
		return ""
	}
	return strings.TrimPrefix(reason.String(), "ERROR_REASON_")
}

// invalid is an error about a request that was not sent.
func invalid(field, reason, description string) *Error {
	return &Error{
		Code: codes.InvalidArgument, Reason: reason, Message: description, kind: ErrInvalidArgument,
		Violations: []Violation{{field, reason, description}},
	}
}

// closed is the error of whatever is begun, or still under way, when the client was closed.
func closed() *Error {
	return &Error{Code: codes.Canceled, Message: "The client was closed.", kind: ErrClosed}
}

// broken is the error of a stream that ended without a word.
func broken() *Error {
	return &Error{Code: codes.Unavailable, Message: "The service has ended the stream.", kind: ErrUnavailable}
}

// stopped is the error of what a context's end has stopped.
func stopped(ended error) *Error {
	return fromStatus(status.FromContextError(ended), ended)
}

// verdict is what is known of a call once it is not made again.
type verdict struct {
	// requestID is that of a change, empty for what changes nothing.
	requestID string
	// sent tells whether any attempt went out, and ambiguous whether one of those may have made the change.
	sent, ambiguous bool
	// ended is the error of the caller's context; nil if that is not over.
	ended error
	// target is where the call was to go.
	target string
}

// of is the error that the caller gets, given how the last attempt failed.
func (v verdict) of(failure *Error) *Error {
	told := *failure
	told.ended = v.ended
	change := v.requestID != ""
	switch {
	case change && v.ambiguous && !settled(failure):
		told.kind, told.RequestID = ErrOutcomeUnknown, v.requestID
		told.Message = fmt.Sprintf(
			"It is not known whether the change was made: %s Repeat it with request id %s to learn it.", failure.Message, v.requestID,
		)
	case v.ended == context.Canceled:
		told.Code, told.kind = codes.Canceled, nil
	case failure.Code == codes.DeadlineExceeded && !v.sent:
		told.Code, told.kind, told.ended = codes.Unavailable, ErrUnavailable, context.DeadlineExceeded
		told.Message = "There was no connection to the service at " + v.target + " in time: " + failure.Message
	case failure.Code == codes.DeadlineExceeded && change: // all that was sent was refused, and the last attempt did not go out
		told.Code, told.kind, told.ended = codes.Unavailable, ErrUnavailable, context.DeadlineExceeded
		told.Message = "The change was not made, nobody took it in time: " + failure.Message
	}
	return &told
}
