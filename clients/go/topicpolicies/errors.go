package topicpolicies

import (
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What can go wrong, for errors.Is: one error per thing that a caller would handle differently.
var (
	// ErrInvalidArgument: the request is wrong and will stay wrong; also returned before anything is sent.
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrNotFound: the topic, namespace or tenant does not exist.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the document is not at the version that the etag demanded. Read it again and decide anew.
	ErrConflict = errors.New("conflict")
	// ErrFailedPrecondition: the request does not fit the present state, such as topic policies being disabled.
	ErrFailedPrecondition = errors.New("failed precondition")
	// ErrOutOfRange: a token is too old or of another log. A watch handles it by itself.
	ErrOutOfRange = errors.New("out of range")
	// ErrResourceExhausted: a limit of the service was met; nothing was done.
	ErrResourceExhausted = errors.New("resource exhausted")
	// ErrPermissionDenied: the caller is unknown or may not do this.
	ErrPermissionDenied = errors.New("permission denied")
	// ErrUnavailable: the service, or the change log behind it, can't be reached; nothing was done.
	ErrUnavailable = errors.New("unavailable")
	// ErrDeadlineExceeded: a read was not answered in time.
	ErrDeadlineExceeded = errors.New("deadline exceeded")
	// ErrOutcomeUnknown: a change may or may not have been made: its answer was lost, or did not come in time. To learn what happened,
	// repeat the same call with the error's RequestID: what was done is not done twice.
	ErrOutcomeUnknown = errors.New("outcome unknown")
)

var kinds = map[codes.Code]error{
	codes.InvalidArgument:    ErrInvalidArgument,
	codes.NotFound:           ErrNotFound,
	codes.Aborted:            ErrConflict,
	codes.FailedPrecondition: ErrFailedPrecondition,
	codes.OutOfRange:         ErrOutOfRange,
	codes.ResourceExhausted:  ErrResourceExhausted,
	codes.Unauthenticated:    ErrPermissionDenied,
	codes.PermissionDenied:   ErrPermissionDenied,
	codes.Unavailable:        ErrUnavailable,
	codes.DeadlineExceeded:   ErrDeadlineExceeded,
}

// domain is the domain of the service's own reasons.
const domain = "topicpolicies.v1"

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
	// Reason is machine-readable, in UPPER_SNAKE_CASE; empty if the error is not the service's own (a broken connection, a proxy).
	Reason string
	// Message is a sentence for people.
	Message string
	// Metadata has further facts for programs.
	Metadata map[string]string
	// Violations are all that is wrong with the request, if it was at fault.
	Violations []Violation
	// FromService tells whether the service itself said so.
	FromService bool
	// RequestID is the id of the request whose outcome is unknown; empty otherwise.
	RequestID string

	kind  error
	cause error
}

// Error is the sentence for people.
func (e *Error) Error() string { return e.Message }

// Is tells whether this is an error of that kind.
func (e *Error) Is(kind error) bool { return e.kind != nil && kind == e.kind }

// Unwrap is what gRPC gave, if it came from there.
func (e *Error) Unwrap() error { return e.cause }

// GRPCStatus lets status.FromError and status.Code understand it.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Code, e.Message) }

// fromStatus reads a status with its google.rpc details. Details of other kinds are passed over.
func fromStatus(s *status.Status, cause error) *Error {
	failure := &Error{Code: s.Code(), Message: s.Message(), kind: kinds[s.Code()], cause: cause}
	for _, detail := range s.Details() {
		switch each := detail.(type) {
		case *errdetails.ErrorInfo:
			failure.Reason, failure.Metadata, failure.FromService = each.GetReason(), each.GetMetadata(), each.GetDomain() == domain
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

// invalid is an error about a request that was not sent.
func invalid(field, reason, description string) *Error {
	return &Error{
		Code: codes.InvalidArgument, Reason: reason, Message: description, kind: ErrInvalidArgument,
		Violations: []Violation{{field, reason, description}},
	}
}

// outcomeUnknown is the error of a change that was sent and not answered.
func outcomeUnknown(cause *Error, requestID string) *Error {
	unknown := *cause
	unknown.kind, unknown.RequestID = ErrOutcomeUnknown, requestID
	unknown.Message = fmt.Sprintf("It is not known whether the change was made: %s Repeat it with request id %s to learn it.", cause.Message, requestID)
	return &unknown
}
