package topicpolicies.client;

import io.grpc.Status;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Optional;
import java.util.Set;

/** What has become of one call so far, over all its attempts: whether there is another one, and how it fails if there is none. */
final class Tries {
    /** How a change fails when it may have been made all the same, unless the service itself says what became of it. */
    private static final Set<Status.Code> AMBIGUOUS = EnumSet.of(Status.Code.UNAVAILABLE, Status.Code.CANCELLED,
            Status.Code.DEADLINE_EXCEEDED, Status.Code.INTERNAL, Status.Code.UNKNOWN);
    /** With these the service itself does not know. */
    private static final Set<Status.Code> OPEN = EnumSet.of(Status.Code.DEADLINE_EXCEEDED, Status.Code.INTERNAL);
    /** Answers that a repeat gets only if the request was not applied before: the service looks its id up first. */
    private static final Set<Status.Code> SETTLED = EnumSet.of(Status.Code.ABORTED, Status.Code.ALREADY_EXISTS,
            Status.Code.INVALID_ARGUMENT);

    private final Repeats repeats;
    private final String requestId;
    private final long endNanos;
    private boolean unknown;

    /** {@code requestId}: a change's; empty for a read. {@code endNanos}: when its time is over. */
    Tries(RetryPolicy policy, String requestId, long endNanos) {
        this.repeats = new Repeats(policy, !requestId.isEmpty());
        this.requestId = requestId;
        this.endNanos = endNanos;
    }

    /** How long is left. */
    long leftNanos() {
        return Math.max(endNanos - System.nanoTime(), 0);
    }

    /**
     * An attempt has failed.
     *
     * @param error why
     * @param sent whether its request went out
     * @param redirected whether the error named who can answer
     * @param chance at least 0, less than 1
     * @return how long to wait before the next one; empty if there is none
     */
    Optional<Duration> failed(TopicPoliciesException error, boolean sent, boolean redirected, double chance) {
        boolean told = error.fromService() && !OPEN.contains(error.code());
        unknown |= sent && !told && AMBIGUOUS.contains(error.code());
        return repeats.failed(error, sent, redirected, chance).filter(pause -> pause.toNanos() < endNanos - System.nanoTime());
    }

    /** How the call fails, after the last attempt has failed so. */
    TopicPoliciesException verdict(TopicPoliciesException error, boolean sent) {
        boolean change = !requestId.isEmpty();
        if (change && unknown && !SETTLED.contains(error.code())) {
            return new OutcomeUnknownException(error, requestId);
        }
        if (error.code() == Status.Code.DEADLINE_EXCEEDED && Repeats.unsent(error, sent)) {
            String message = "There was no connection to the service in time: " + error.getMessage();
            return new TopicPoliciesException(Status.Code.UNAVAILABLE, message, error);
        }
        return error;
    }
}
