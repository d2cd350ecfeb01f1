package topicpolicies

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// unconfirmed answers every read with one document, and with the given values of the trailing metadata, if there are any.
type unconfirmed struct {
	pb.UnimplementedTopicPoliciesServiceServer
	since []string
}

func (u *unconfirmed) setTrailer(ctx context.Context) error {
	trailer := metadata.MD{}
	trailer.Set(unconfirmedKey, u.since...)
	return grpc.SetTrailer(ctx, trailer)
}

func (u *unconfirmed) GetPolicy(ctx context.Context, request *pb.GetPolicyRequest) (*pb.GetPolicyResponse, error) {
	answer := &pb.GetPolicyResponse{}
	for _, scope := range request.GetScopes() {
		answer.Documents = append(answer.Documents, &pb.PolicyDocument{Topic: request.GetTopic(), Scope: scope, Version: "1"})
	}
	return answer, u.setTrailer(ctx)
}

func (u *unconfirmed) ListPolicies(ctx context.Context, _ *pb.ListPoliciesRequest) (*pb.ListPoliciesResponse, error) {
	document := &pb.PolicyDocument{Topic: "persistent://t/n/x", Scope: ScopeLocal, Version: "1"}
	return &pb.ListPoliciesResponse{Documents: []*pb.PolicyDocument{document}}, u.setTrailer(ctx)
}

func (u *unconfirmed) GetEffectivePolicy(ctx context.Context, _ *pb.GetEffectivePolicyRequest) (*pb.GetEffectivePolicyResponse, error) {
	return &pb.GetEffectivePolicyResponse{}, u.setTrailer(ctx)
}

func (u *unconfirmed) ListHistory(ctx context.Context, _ *pb.ListHistoryRequest) (*pb.ListHistoryResponse, error) {
	return &pb.ListHistoryResponse{}, u.setTrailer(ctx)
}

func TestEveryReadReturnsSinceWhenItsAnswerIsUnconfirmed(t *testing.T) {
	since := time.Date(2026, 3, 1, 12, 0, 0, 250_000_000, time.UTC)
	for name, example := range map[string]struct {
		since []string
		want  time.Time
	}{
		"nothing":      {nil, time.Time{}},
		"a time":       {[]string{"2026-03-01T12:00:00.250+00:00"}, since},
		"another zone": {[]string{"2026-03-01T14:00:00.25+02:00"}, since},
		"what is none": {[]string{"yesterday"}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			client := open(t, serving(t, &unconfirmed{since: example.since}))
			document, err := client.Get(t.Context(), Key{Topic: "t/n/x"})
			check(t, "Get", document.UnconfirmedSince, example.want, err)
			local, global, err := client.GetBoth(t.Context(), "t/n/x")
			check(t, "GetBoth", local.UnconfirmedSince, example.want, err)
			check(t, "GetBoth", global.UnconfirmedSince, example.want, err)
			effective, err := client.Effective(t.Context(), EffectiveQuery{Topic: "t/n/x"})
			check(t, "Effective", effective.UnconfirmedSince, example.want, err)
			list := client.List(t.Context(), "t/n")
			listed := 0
			for document, err := range list.All() {
				listed++
				check(t, "a document of List", document.UnconfirmedSince, example.want, err)
			}
			check(t, "List", list.UnconfirmedSince(), example.want, nil)
			history := client.History(t.Context(), HistoryQuery{Topic: "t/n/x"})
			for _, err := range history.All() {
				t.Error(err)
			}
			check(t, "History", history.UnconfirmedSince(), example.want, nil)
			if listed != 1 {
				t.Error(listed)
			}
		})
	}
}

func check(t *testing.T, what string, got, want time.Time, err error) {
	t.Helper()
	if err != nil || got != want {
		t.Errorf("%s: %v %v, not %v", what, got, err, want)
	}
}
