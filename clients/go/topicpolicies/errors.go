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
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// The kinds of errors, for errors.Is: one for each kind of failure that a caller would handle differently. A call that was not answered in
// time also matches context.DeadlineExceeded, and one that its caller cancelled context.Canceled, whatever else they match.
var (
	// ErrInvalidArgument: the request is invalid and stays so; also returned before anything is sent.
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrNotFound: the topic, namespace or tenant does not exist.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the document is not at the version that the etag requires, or changes too often; nothing was changed. Read the document
	// again and decide again.
	ErrConflict = errors.New("conflict")
	// ErrAlreadyExists: there is a document although MustNotExist is set.
	ErrAlreadyExists = errors.New("already exists")
	// ErrFailedPrecondition: the request does not fit the present state, for example because topic policies are disabled.
	ErrFailedPrecondition = errors.New("failed precondition")
	// ErrOutOfRange: the history can't say with certainty what the document was.
	ErrOutOfRange = errors.New("out of range")
	// ErrResourceExhausted: a limit of the service was reached; nothing was done.
	ErrResourceExhausted = errors.New("resource exhausted")
	// ErrPermissionDenied: the caller is not authenticated, or lacks a permission.
	ErrPermissionDenied = errors.New("permission denied")
	// ErrUnavailable: the service, or the change log behind it, can't be reached; nothing was done.
	ErrUnavailable = errors.New("unavailable")
	// ErrOutcomeUnknown: it is not known whether a change was made; its answer was lost, or did not arrive in time. To learn the outcome,
	// repeat the same call with the error's RequestID: a change that was made is not made again.
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
	// Field is the path of the field in the request, such as update_mask.paths[1] or policies.retention_policies.
	Field string
	// Reason is machine-readable, such as UNKNOWN_PATH; empty if the service gave none.
	Reason string
	// Description is a sentence that says what is wrong and what to do.
	Description string
}

// Error is the error of every failed call. Use errors.Is(err, ErrConflict) and the like to tell the kinds apart, and errors.As for the
// details.
type Error struct {
	// Code is gRPC's status code.
	Code codes.Code
	// Reason is the name of an ErrorReason without its prefix, such as ETAG_MISMATCH; empty if the error is not the service's own (a broken
	// connection, a proxy).
	Reason string
	// Message is a human-readable description.
	Message string
	// Metadata has further facts for programs, by key; ErrorReason says which keys each reason has.
	Metadata map[string]string
	// Violations is everything that is wrong with the request, if the request is at fault.
	Violations []Violation
	// FromService reports whether the service itself returned the error, not gRPC, a proxy or this client.
	FromService bool
	// RetryAfter is the time after which a retry may succeed, from google.rpc.RetryInfo; 0 if the error has none.
	RetryAfter time.Duration
	// RequestID is the id of the request whose outcome is unknown; empty for all other errors.
	RequestID string

	kind    error
	ended   error // the error of the caller's context, if that has ended the call
	cause   error
	details []*anypb.Any
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Is reports whether the error is of a kind.
func (e *Error) Is(kind error) bool {
	return kind != nil && (kind == e.kind || kind == e.ended || (kind == context.DeadlineExceeded && e.Code == codes.DeadlineExceeded))
}

// Unwrap returns gRPC's own error, if there is one.
func (e *Error) Unwrap() error { return e.cause }

// GRPCStatus makes status.FromError and status.Code work with the error. The status has the details that the service gave.
func (e *Error) GRPCStatus() *status.Status {
	return status.FromProto(&rpcstatus.Status{Code: int32(e.Code), Message: e.Message, Details: e.details})
}

// fromStatus converts a status with its google.rpc details. Details of other types are ignored.
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

// passingLimit reports whether a limit was reached and the service says when to retry. Nothing was done.
func passingLimit(failure *Error) bool {
	return failure.Code == codes.ResourceExhausted && failure.RetryAfter > 0
}

// reasonOf returns the name of a reason as errors have it, without its prefix: empty for none, a number for one that this package does not
// know.
func reasonOf(reason pb.ErrorReason) string {
	if reason == pb.ErrorReason_ERROR_REASON_UNSPECIFIED {
		return ""
	}
	return strings.TrimPrefix(reason.String(), "ERROR_REASON_")
}

// invalid returns the error of a request that was refused before it was sent.
func invalid(field, reason, description string) *Error {
	return &Error{
		Code: codes.InvalidArgument, Reason: reason, Message: description, kind: ErrInvalidArgument,
		Violations: []Violation{{field, reason, description}},
	}
}

// malformed returns the error of a request that can't be encoded, such as one with a text that is not UTF-8; nil if it can.
func malformed(request any) *Error {
	if message, ok := request.(proto.Message); ok {
		if _, err := proto.Marshal(message); err != nil {
			return invalid("", "MALFORMED_VALUE", "The request can't be encoded: "+err.Error())
		}
	}
	return nil
}

// closed returns the error of calls that are made, or still in progress, when the client is closed.
func closed() *Error {
	return &Error{Code: codes.Canceled, Message: "The client was closed.", kind: ErrClosed}
}

// broken returns the error of a stream that the service ended without an error.
func broken() *Error {
	return &Error{Code: codes.Unavailable, Message: "The service has ended the stream.", kind: ErrUnavailable}
}

// stopped returns the error of a call that the end of its context has stopped.
func stopped(ended error) *Error {
	return fromStatus(status.FromContextError(ended), ended)
}

// verdict is what is known of a call after its last attempt.
type verdict struct {
	// requestID is the request id of a change; empty for calls that change nothing.
	requestID string
	// sent reports whether any attempt was sent, and ambiguous whether one of those may have made the change.
	sent, ambiguous bool
	// ended is the error of the caller's context; nil if the context has not ended.
	ended error
	// target is the target of the client.
	target string
}

// sentence returns a message with a full stop, which gRPC's own messages lack.
func sentence(message string) string {
	if strings.HasSuffix(message, ".") || strings.HasSuffix(message, "!") || strings.HasSuffix(message, "?") {
		return message
	}
	return message + "."
}

// of returns the error for the caller, given the error of the last attempt.
func (v verdict) of(failure *Error) *Error {
	final := *failure
	final.ended = v.ended
	change := v.requestID != ""
	switch {
	case change && v.ambiguous && !settled(failure):
		final.kind, final.RequestID = ErrOutcomeUnknown, v.requestID
		final.Message = fmt.Sprintf(
			"It is not known whether the change was made: %s Repeat it with request id %s to learn it.", sentence(failure.Message), v.requestID,
		)
	case v.ended == context.Canceled:
		final.Code, final.kind = codes.Canceled, nil
	case failure.Code == codes.DeadlineExceeded && !v.sent:
		final.Code, final.kind, final.ended = codes.Unavailable, ErrUnavailable, context.DeadlineExceeded
		final.Message = "There was no connection to the service at " + v.target + " in time: " + failure.Message
	case failure.Code == codes.DeadlineExceeded && change: // every attempt that was sent was refused, and the last attempt was not sent
		final.Code, final.kind, final.ended = codes.Unavailable, ErrUnavailable, context.DeadlineExceeded
		final.Message = "The change was not made; every attempt that was sent was refused: " + failure.Message
	}
	return &final
}
