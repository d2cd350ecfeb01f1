package topicpolicies

import (
	"fmt"
	"math"
	"path"
	"strings"
	"time"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// RetryPolicy says how calls are repeated. A watch connects again as long as that makes sense, after pauses of its own.
//
// Only what is safe is repeated. Reads are. A change is, because it carries a request id: the service remembers it and answers a repeat
// with what happened the first time. What can't help to repeat (a wrong request, a conflict, a limit) is returned at once. While there is
// no connection, or nobody who writes the namespace, calls wait for that until their deadline; so they do at a limit of which the service
// says when there is room again (google.rpc.RetryInfo).
//
// Reads of a client with one address are repeated by gRPC itself, by a service config made from this policy. Changes are repeated by the
// client, because gRPC tells only how the last attempt ended, and an earlier one may have been made. So are the reads of a client with
// several addresses, because gRPC would stay at the one that fails, and those whose answer broke off, which gRPC does not repeat. All
// attempts of a call count together.
type RetryPolicy struct {
	// MaxAttempts counts the first one too; 1 repeats nothing, and 5 is the most. Attempts that found no connection are not counted, nor those
	// that were refused because another sidecar writes the namespace.
	MaxAttempts int
	// InitialBackoff is the longest first pause; those that gRPC makes may be a fifth longer, this one and all others.
	InitialBackoff time.Duration
	// MaxBackoff is the longest pause.
	MaxBackoff time.Duration
	// Multiplier is by how much pauses grow.
	Multiplier float64
	// AttemptTimeout is how long one attempt of a change may take before it is repeated, perhaps elsewhere; 0: as long as the call. Reads may
	// take all the time that there is.
	AttemptTimeout time.Duration
}

// DefaultRetries is what a client has that was told nothing else.
var DefaultRetries = RetryPolicy{
	MaxAttempts: 5, InitialBackoff: 100 * time.Millisecond, MaxBackoff: 5 * time.Second, Multiplier: 2, AttemptTimeout: 10 * time.Second,
}

// NoRetries makes every call once, does not wait for a connection, and goes to no leader that an error names before the next call.
var NoRetries = RetryPolicy{MaxAttempts: 1, InitialBackoff: 100 * time.Millisecond, MaxBackoff: 5 * time.Second, Multiplier: 2}

// watchPauses are the pauses before a watch connects again.
var watchPauses = RetryPolicy{InitialBackoff: 100 * time.Millisecond, MaxBackoff: 10 * time.Second, Multiplier: 2}

// repeats tells whether anything is repeated at all.
func (p RetryPolicy) repeats() bool { return p.MaxAttempts > 1 }

func (p RetryPolicy) check() error {
	switch {
	case p.MaxAttempts < 1 || p.MaxAttempts > 5:
		return invalid("retries", "WRONG_RETRY_POLICY", "MaxAttempts is from 1 to 5.")
	case p.InitialBackoff <= 0 || p.MaxBackoff < p.InitialBackoff:
		return invalid("retries", "WRONG_RETRY_POLICY", "InitialBackoff is more than 0, and MaxBackoff at least that.")
	case !(p.Multiplier >= 1 && p.Multiplier <= 1000):
		return invalid("retries", "WRONG_RETRY_POLICY", "Multiplier is from 1 to 1000.")
	case p.AttemptTimeout < 0:
		return invalid("retries", "WRONG_RETRY_POLICY", "AttemptTimeout is not negative.")
	}
	return nil
}

// reads are the methods that gRPC repeats.
var reads = []string{
	pb.TopicPoliciesService_GetPolicy_FullMethodName,
	pb.TopicPoliciesService_GetEffectivePolicy_FullMethodName,
	pb.TopicPoliciesService_ListPolicies_FullMethodName,
	pb.TopicPoliciesService_ListHistory_FullMethodName,
	pb.TopicPoliciesService_GetServerInfo_FullMethodName,
}

// serviceConfig tells gRPC to repeat reads like this, in its JSON; the codes are those of repeats.mayHelp. Changes have no place in it.
func (p RetryPolicy) serviceConfig() string {
	names := make([]string, 0, len(reads))
	for _, read := range reads {
		names = append(names, fmt.Sprintf(`{"service": %q, "method": %q}`, pb.TopicPoliciesService_ServiceDesc.ServiceName, path.Base(read)))
	}
	return fmt.Sprintf(
		`{"methodConfig": [{"name": [%s], "retryPolicy": {"maxAttempts": %d, "initialBackoff": "%s", "maxBackoff": "%s",`+
			` "backoffMultiplier": %g, "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"]}}]}`,
		strings.Join(names, ", "), p.MaxAttempts, seconds(p.InitialBackoff), seconds(p.MaxBackoff), p.Multiplier,
	)
}

// seconds is a time as JSON writes it.
func seconds(span time.Duration) string {
	return fmt.Sprintf("%d.%09ds", span/time.Second, span%time.Second)
}

// delay is the pause after this failed attempt, counted from 1: in the upper half of its ceiling, so that clients do not march in step.
func (p RetryPolicy) delay(attempt int, chance float64) time.Duration {
	return jittered(math.Min(float64(p.MaxBackoff), float64(p.InitialBackoff)*math.Pow(p.Multiplier, float64(min(attempt-1, 64)))), chance)
}

// longest is the pause that comes after many attempts.
func (p RetryPolicy) longest(chance float64) time.Duration {
	return jittered(float64(p.MaxBackoff), chance)
}

func jittered(ceiling, chance float64) time.Duration {
	return time.Duration(ceiling * (1 + chance) / 2)
}
