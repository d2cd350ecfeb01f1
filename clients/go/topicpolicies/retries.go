package topicpolicies

import (
	"fmt"
	"math"
	"path"
	"strings"
	"time"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// RetryPolicy says how failed calls are retried. A watch connects again for as long as that can help, after pauses of its own.
//
// A call is retried only if that is safe. Reads are safe. Changes are safe because they carry a request id: the service remembers it and
// answers a repeat with the outcome of the first time. An error that a retry can't cure (a wrong request, a conflict, a limit) is returned
// at once. While there is no connection, or no leader of the namespace, calls keep trying until their deadline; so they do at a limit for
// which the service says when to retry (google.rpc.RetryInfo).
//
// Reads of a client with one address are retried by gRPC itself, with a service config made from this policy. Changes are retried by the
// client, because gRPC reports only how the last attempt ended, and an earlier one may have been made. So are the reads of a client with
// several addresses, because gRPC would stay at the one that fails, and reads whose answer broke off, which gRPC does not retry. All
// attempts of a call count together.
type RetryPolicy struct {
	// MaxAttempts is the maximum number of attempts, from 1 (no retries) to 5. Attempts that found no connection, or were refused because
	// another sidecar writes the namespace, do not count.
	MaxAttempts int
	// InitialBackoff is the upper limit of the first pause. The pauses that gRPC makes may be longer by a fifth, this one and all others.
	InitialBackoff time.Duration
	// MaxBackoff is the upper limit of every pause.
	MaxBackoff time.Duration
	// Multiplier is the factor by which pauses grow.
	Multiplier float64
	// AttemptTimeout is how long one attempt of a change may take before the change is sent again, perhaps to another address; 0: as long
	// as the call. A read's attempt may take all of the call's time.
	AttemptTimeout time.Duration
}

// DefaultRetries is the policy of a client that was given none.
var DefaultRetries = RetryPolicy{
	MaxAttempts: 5, InitialBackoff: 100 * time.Millisecond, MaxBackoff: 5 * time.Second, Multiplier: 2, AttemptTimeout: 10 * time.Second,
}

// NoRetries makes every call once, and does not wait for a connection. A leader that an error names is used from the next call on.
var NoRetries = RetryPolicy{MaxAttempts: 1, InitialBackoff: 100 * time.Millisecond, MaxBackoff: 5 * time.Second, Multiplier: 2}

// watchPauses are the pauses before a watch connects again.
var watchPauses = RetryPolicy{InitialBackoff: 100 * time.Millisecond, MaxBackoff: 10 * time.Second, Multiplier: 2}

// repeats reports whether calls are retried at all.
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

// reads are the methods that gRPC retries.
var reads = []string{
	pb.TopicPoliciesService_GetPolicy_FullMethodName,
	pb.TopicPoliciesService_GetEffectivePolicy_FullMethodName,
	pb.TopicPoliciesService_ListPolicies_FullMethodName,
	pb.TopicPoliciesService_ListHistory_FullMethodName,
	pb.TopicPoliciesService_GetServerInfo_FullMethodName,
}

// serviceConfig returns the service config, as JSON, with which gRPC retries reads; the codes are those of repeats.mayHelp. It has no
// changes.
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

// seconds returns a duration in the JSON form of a service config.
func seconds(span time.Duration) string {
	return fmt.Sprintf("%d.%09ds", span/time.Second, span%time.Second)
}

// delay returns the pause after a failed attempt, counted from 1. It lies in the upper half below the attempt's ceiling, at random, so that
// clients do not retry in step.
func (p RetryPolicy) delay(attempt int, chance float64) time.Duration {
	return jittered(math.Min(float64(p.MaxBackoff), float64(p.InitialBackoff)*math.Pow(p.Multiplier, float64(min(attempt-1, 64)))), chance)
}

// longest returns the pause after many attempts.
func (p RetryPolicy) longest(chance float64) time.Duration {
	return jittered(float64(p.MaxBackoff), chance)
}

func jittered(ceiling, chance float64) time.Duration {
	return time.Duration(ceiling * (1 + chance) / 2)
}
