package topicpolicies

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

func TestAnErrorKeepsTheDetailsThatTheServiceGave(t *testing.T) {
	client, key := open(t, sidecar.Address), topicIn(newNamespace())
	_, err := client.Update(t.Context(), Update{Key: key, Mask: []string{"nope", "also.nope"}})
	grpcStatus, known := status.FromError(err)
	if !known || grpcStatus.Code() != codes.InvalidArgument {
		t.Fatalf("%#v", err)
	}
	var info *errdetails.ErrorInfo
	var request *errdetails.BadRequest
	for _, detail := range grpcStatus.Details() {
		switch each := detail.(type) {
		case *errdetails.ErrorInfo:
			info = each
		case *errdetails.BadRequest:
			request = each
		}
	}
	if info.GetReason() != "UNKNOWN_PATH" || info.GetDomain() != "topicpolicies" || len(request.GetFieldViolations()) != 2 {
		t.Errorf("%v %v", info, request)
	}
	var failure *Error
	if !errors.As(err, &failure) || failure.Reason != "UNKNOWN_PATH" || !failure.FromService || len(failure.Violations) != 2 {
		t.Fatalf("%#v", err)
	}
	if first := failure.Violations[0]; first.Field != "update_mask.paths[0]" || first.Reason != "UNKNOWN_PATH" || first.Description == "" {
		t.Errorf("%+v", first)
	}
}

func TestAnErrorOfUnknownOutcomeKeepsItsDetailsToo(t *testing.T) {
	failure := fromError(fromTheService(codes.DeadlineExceeded, "OUTCOME_UNKNOWN"))
	final := verdict{requestID: "id", sent: true, ambiguous: true}.of(failure)
	grpcStatus := status.Convert(final)
	if grpcStatus.Code() != codes.DeadlineExceeded || len(grpcStatus.Details()) != 1 || grpcStatus.Message() != final.Message ||
		!errors.Is(final, ErrOutcomeUnknown) {
		t.Errorf("%v", grpcStatus)
	}
	if !errors.Is(final, context.DeadlineExceeded) || errors.Is(final, context.Canceled) || final.RequestID != "id" {
		t.Errorf("%#v", final)
	}
}

func TestTheMessageOfAnUnknownOutcomeIsMadeOfWholeSentences(t *testing.T) {
	for _, message := range []string{"Deadline Exceeded", "Deadline Exceeded."} {
		final := verdict{requestID: "id", sent: true, ambiguous: true}.of(fromError(status.Error(codes.DeadlineExceeded, message)))
		if !strings.Contains(final.Message, ": Deadline Exceeded. Repeat it with request id id to learn it.") {
			t.Error(final.Message)
		}
	}
}

func TestACallThatTookTooLongMatchesTheContextsError(t *testing.T) {
	hanging := &fakeService{other: func(ctx context.Context, _ int) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	address := hanging.serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for what, err := range map[string]error{
		"the context's deadline": second(open(t, address).Get(ctx, oneField.Key)),
		"the client's limit":     second(open(t, address, WithTimeout(100*time.Millisecond)).Get(t.Context(), oneField.Key)),
		"no connection":          second(open(t, unusedAddress(t), WithTimeout(100*time.Millisecond)).Get(t.Context(), oneField.Key)),
		"a deletion":             second(open(t, address, WithTimeout(100*time.Millisecond)).Delete(t.Context(), Deletion{Key: oneField.Key})),
	} {
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			t.Errorf("%s: %#v", what, err)
		}
	}
}

func second[Value any](_ Value, err error) error { return err }

func TestACallThatItsCallerCancelsMatchesTheContextsError(t *testing.T) {
	hanging := &fakeService{
		other: func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		},
		update: func(ctx context.Context, _ int) (*pb.UpdatePolicyResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}
	client := open(t, hanging.serve(t))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	_, err := client.Get(ctx, oneField.Key)
	if !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || status.Code(err) != codes.Canceled {
		t.Errorf("%#v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	_, err = client.Update(ctx, oneField)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("%#v", err)
	}
}

func TestACallCancelledByAProxyDoesNotMatchTheContextsError(t *testing.T) {
	fake := &fakeService{other: func(context.Context, int) error { return status.Error(codes.Canceled, "by a proxy") }}
	_, err := open(t, fake.serve(t), quick).Get(t.Context(), oneField.Key)
	if errors.Is(err, context.Canceled) || status.Code(err) != codes.Canceled {
		t.Errorf("%#v", err)
	}
}

func TestCallsOfAClosedClientFailWithErrClosed(t *testing.T) {
	client := open(t, sidecar.Address)
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Get(t.Context(), oneField.Key); !errors.Is(err, ErrClosed) || errors.Is(err, context.Canceled) {
		t.Errorf("%#v", err)
	}
	if _, err := client.Update(t.Context(), oneField); !errors.Is(err, ErrClosed) || errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("%#v", err)
	}
}

func TestEveryReasonIsNamedAsInErrors(t *testing.T) {
	for number, name := range pb.ErrorReason_name {
		want := strings.TrimPrefix(name, "ERROR_REASON_")
		if number == 0 {
			want = ""
		}
		if found := reasonOf(pb.ErrorReason(number)); found != want {
			t.Errorf("%s is %q", name, found)
		}
	}
	if found := reasonOf(100_000); found != "100000" {
		t.Errorf("an unknown reason is %q", found)
	}
}
