package topicpolicies

import (
	"time"

	"google.golang.org/grpc/codes"
)

// mostHops is how many times one call follows the leader that an error names. A call that needs more hops meets sidecars that name each
// other.
const mostHops = 16

// repeats decides about the attempts of one call: whether there is another one after those that gRPC made, and how long to wait before it.
type repeats struct {
	policy RetryPolicy
	change bool
	// repeatable reports whether the change carries a request id: only then is it certain that it is not made twice.
	repeatable bool
	failures   int
	answered   int // how many attempts failed in the service, or on a connection after something was sent
	hops       int
}

// failed handles a failed attempt. sent says whether its request was sent, made how many attempts gRPC made of it, redirected whether the
// error named the leader: the first time there is no pause before trying that. chance is a random number, at least 0 and less than 1.
func (r *repeats) failed(failure *Error, sent bool, made int, redirected bool, chance float64) (wait time.Duration, again bool) {
	unsent := !sent && (failure.Code == codes.Unavailable || failure.Code == codes.DeadlineExceeded)
	switch {
	case !r.policy.repeats():
		return 0, false
	case redirected:
		if r.hops++; r.hops > mostHops {
			return 0, false
		}
		if r.hops == 1 {
			return 0, true
		}
	case refusedByFollower(failure) || unsent || passingLimit(failure):
		// Nothing was done: retried until the deadline.
	case r.mayHelp(failure.Code):
		if r.answered += made; r.answered >= r.policy.MaxAttempts {
			return 0, false
		}
	default:
		return 0, false
	}
	r.failures += made
	return failure.RetryAfter + r.policy.delay(r.failures, chance), true
}

// mayHelp reports whether a request that was sent and failed with this code may be sent again, and whether that can help.
func (r *repeats) mayHelp(code codes.Code) bool {
	switch code {
	case codes.Unavailable, codes.Canceled:
		return !r.change || r.repeatable
	case codes.DeadlineExceeded:
		return r.change && r.repeatable // the attempt's time was over, or the service did not learn the outcome in time: a repeat learns it
	default:
		return false
	}
}
