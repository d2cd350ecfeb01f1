package topicpolicies.client;

import io.grpc.Status;
import java.time.Duration;
import java.util.Optional;

/** The attempts of one call: whether there is another one, and how long to wait before it. */
final class Repeats {
    /** How often one call goes from a sidecar to the one that it names; more than that is sidecars that name each other. */
    static final int MOST_HOPS = 16;

    private final RetryPolicy policy;
    private final boolean change;
    private int failures;
    /** Failures of the service, or of a connection after something was sent. */
    private int answered;
    private int hops;

    Repeats(RetryPolicy policy, boolean change) {
        this.policy = policy;
        this.change = change;
    }

    /**
     * An attempt has failed.
     *
     * @param error why
     * @param sent whether its request went out
     * @param redirected whether the error named who can answer; the first time there is no pause before that is tried
     * @param chance at least 0, less than 1
     * @return how long to wait before the next one; empty if there is none
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
            // With the others nothing was done: until the call's time is over.
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
        // A deadline is that of the attempt, or the service did not learn the outcome in time: a repeat learns it.
        return RetryPolicy.PASSING.contains(code) || change && code == Status.Code.DEADLINE_EXCEEDED;
    }
}
