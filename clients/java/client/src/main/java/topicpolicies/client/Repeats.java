package topicpolicies.client;

import io.grpc.Status;
import java.time.Duration;
import java.util.Optional;

/** Decides about the attempts of one call: whether there is another one, and how long to wait before it. */
final class Repeats {
    /** How many times one call follows the leader that an error names. A call that needs more hops meets sidecars that name each other. */
    static final int MOST_HOPS = 16;

    private final RetryPolicy policy;
    private final boolean change;
    private int failures;
    /** How many attempts failed in the service, or on a connection after something was sent. */
    private int answered;
    private int hops;

    Repeats(RetryPolicy policy, boolean change) {
        this.policy = policy;
        this.change = change;
    }

    /**
     * Records that an attempt failed.
     *
     * @param error why
     * @param sent whether its request was sent
     * @param redirected whether the error named the leader; the first time there is no pause before trying that
     * @param chance a random number, at least 0 and less than 1
     * @return how long to wait before the next attempt; empty if there is none
     */
    Optional<Duration> failed(TopicPoliciesException error, boolean sent, boolean redirected, double chance) {
        if (!policy.repeats()) {
            return Optional.empty();
        }
        if (redirected) {
            hops++;
            if (hops > MOST_HOPS) {
                return Optional.empty();
            }
            if (hops == 1) {
                return Optional.of(Duration.ZERO);
            }
        } else if (!Routes.refusedByFollower(error) && !unsent(error, sent) && !error.isPassingLimit()) {
            // In the other cases nothing was done: retried until the call's time is over.
            answered++;
            if (!mayHelp(error.code()) || answered >= policy.maxAttempts()) {
                return Optional.empty();
            }
        }
        failures++;
        return Optional.of(policy.pauses().pause(failures, chance).plus(error.retryAfter().orElse(Duration.ZERO)));
    }

    /** Whether there was no connection, so that nothing was done. */
    static boolean unsent(TopicPoliciesException error, boolean sent) {
        return !sent && (error.code() == Status.Code.UNAVAILABLE || error.code() == Status.Code.DEADLINE_EXCEEDED);
    }

    private boolean mayHelp(Status.Code code) {
        // The attempt's time was over, or the service did not learn the outcome in time: a repeat learns it.
        return RetryPolicy.PASSING.contains(code) || change && code == Status.Code.DEADLINE_EXCEEDED;
    }
}
