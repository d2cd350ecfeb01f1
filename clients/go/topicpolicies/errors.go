package topicpolicies

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The kinds of errors, for errors.Is. A call without an answer in time also matches context.DeadlineExceeded, and one that its caller
// cancelled context.Canceled.
var (
	// ErrInvalid: the request is wrong in itself: see Violations.
	ErrInvalid = errors.New("invalid request")
	// ErrNotFound: the topic, the namespace or the tenant does not exist.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the precondition does not hold, or the document changes too often. Nothing was changed: read it again and decide anew.
	ErrConflict = errors.New("conflict")
	// ErrFailedPrecondition: the request does not fit the present state, such as a rule of the cluster or disabled topic policies.
	ErrFailedPrecondition = errors.New("failed precondition")
	// ErrOutOfRange: the history can't say for certain what the document was.
	ErrOutOfRange = errors.New("out of range")
	// ErrLimit: a limit was reached, and nothing was done.
	ErrLimit = errors.New("limit reached")
	// ErrDenied: the caller is not authenticated, or lacks a permission.
	ErrDenied = errors.New("denied")
	// ErrUnavailable: the service, or what it needs, can't be reached. Nothing was changed.
	ErrUnavailable = errors.New("unavailable")
	// ErrOutcomeUnknown: the change may have happened. To learn that, repeat it with the error's RequestID: nothing is done twice.
	ErrOutcomeUnknown = errors.New("outcome unknown")
)

var kinds = map[codes.Code]error{
	codes.InvalidArgument:    ErrInvalid,
	codes.NotFound:           ErrNotFound,
	codes.Aborted:            ErrConflict,
	codes.FailedPrecondition: ErrFailedPrecondition,
	codes.OutOfRange:         ErrOutOfRange,
	codes.ResourceExhausted:  ErrLimit,
	codes.Unauthenticated:    ErrDenied,
	codes.PermissionDenied:   ErrDenied,
	codes.Unavailable:        ErrUnavailable,
	codes.DeadlineExceeded:   context.DeadlineExceeded,
	codes.Canceled:           context.Canceled,
}

// domain is the domain of the service's own reasons.
const domain = "topicpolicies"

// Error is the error of a call that failed. errors.Is tells its kind, errors.As gets its details, and status.FromError gRPC's own form.
type Error struct {
	// Code is gRPC's status code.
	Code codes.Code
	// Reason is the name of an ErrorReason without its prefix, such as "PRECONDITION_FAILED". Empty if the error is not the service's own.
	Reason string
	// Message is a sentence for people.
	Message string
	// Violations is everything that is wrong with the request, each with a field, a reason and a sentence.
	Violations []*errdetails.BadRequest_FieldViolation
	// Metadata has further facts, by the keys that ErrorReason names.
	Metadata map[string]string
	// RequestID is the id of the change that failed. Empty for other calls.
	RequestID string
	// RetryAfter is when the service suggests to try again. 0: it suggests nothing.
	RetryAfter time.Duration

	unknown bool
	status  *status.Status
}

// newError converts an error of gRPC. change says whether the call could change something.
func newError(err error, change bool, requestID string) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	from, ok := status.FromError(err)
	if !ok {
		from = status.FromContextError(err)
	}
	e := &Error{Code: from.Code(), Message: from.Message(), RequestID: requestID, status: from}
	for _, detail := range from.Details() {
		switch each := detail.(type) {
		case *errdetails.ErrorInfo:
			if each.GetDomain() == domain {
				e.Reason, e.Metadata = each.GetReason(), each.GetMetadata()
			}
		case *errdetails.BadRequest:
			e.Violations = each.GetFieldViolations()
		case *errdetails.RetryInfo:
			e.RetryAfter = each.GetRetryDelay().AsDuration()
		}
	}
	e.unknown = change && e.ambiguous()
	return e
}

// ambiguous reports whether a change that ended like this may have happened. The service's own reasons say so; gRPC's codes do not.
func (e *Error) ambiguous() bool {
	if e.Reason != "" {
		return e.Reason == "OUTCOME_UNKNOWN" || e.Reason == "INTERNAL"
	}
	switch e.Code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Internal, codes.Unknown:
		return true
	}
	return false
}

// Error returns the code, the reason and the sentence.
func (e *Error) Error() string {
	name := e.Reason
	if name == "" {
		name = e.Code.String()
	}
	if e.unknown {
		return fmt.Sprintf("topicpolicies: %s: whether request %s was done is unknown: %s", name, e.RequestID, e.Message)
	}
	return fmt.Sprintf("topicpolicies: %s: %s", name, e.Message)
}

// Is reports whether the error is of a kind.
func (e *Error) Is(kind error) bool {
	if e.unknown && kind == ErrUnavailable {
		return false // it would say that nothing was changed
	}
	return kind == kinds[e.Code] && kind != nil || e.unknown && kind == ErrOutcomeUnknown
}

// GRPCStatus returns gRPC's form of the error.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// resumable reports whether a watch that ended like this goes on: not if the request is at fault, or the caller may not watch. A token that
// expires while a watch runs (began) may have been renewed.
func (e *Error) resumable(began bool) bool {
	switch e.Code {
	case codes.Unauthenticated:
		return began && e.Reason == "CREDENTIALS_EXPIRED"
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.FailedPrecondition, codes.Unimplemented:
		return false
	}
	return true
}
