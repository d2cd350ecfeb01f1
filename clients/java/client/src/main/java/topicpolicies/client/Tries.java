package topicpolicies.client;

import io.grpc.Status;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Optional;
import java.util.Set;

/** The state of one call over all its attempts: whether there is another attempt, and the error of the call if there is none. */
final class Tries {
    /** The status codes of a change that may have been made all the same, unless the service itself states the outcome. */
    private static final Set<Status.Code> AMBIGUOUS = EnumSet.of(Status.Code.UNAVAILABLE, Status.Code.CANCELLED,
            Status.Code.DEADLINE_EXCEEDED, Status.Code.INTERNAL, Status.Code.UNKNOWN);
    /** The status codes with which the service itself says that it does not know the outcome. */
    private static final Set<Status.Code> OPEN = EnumSet.of(Status.Code.DEADLINE_EXCEEDED, Status.Code.INTERNAL);
    /** The status codes that a repeat gets only if the request was not applied before: the service looks up the request id first. */
    private static final Set<Status.Code> SETTLED = EnumSet.of(Status.Code.ABORTED, Status.Code.ALREADY_EXISTS,
            Status.Code.INVALID_ARGUMENT);

    private final Repeats repeats;
    private final String requestId;
    private final long endNanos;
    private boolean unknown;

    /** {@code requestId} is that of a change; empty for a read. {@code endNanos} is when the call's time is over. */
    Tries(RetryPolicy policy, String requestId, long endNanos) {
        this.repeats = new Repeats(policy, !requestId.isEmpty());
        this.requestId = requestId;
        this.endNanos = endNanos;
    }

    /** How much of the call's time is left. */
    long leftNanos() {
        return Math.max(endNanos - System.nanoTime(), 0);
    }

    /**
     * Records that an attempt failed.
     *
     * @param error why
     * @param sent whether its request was sent
     * @param redirected whether the error named the leader
     * @param chance a random number, at least 0 and less than 1
     * @return how long to wait before the next attempt; empty if there is none
     */
    Optional<Duration> failed(TopicPoliciesException error, boolean sent, boolean redirected, double chance) {
        boolean stated = error.fromService() && !OPEN.contains(error.code());
        unknown |= sent && !stated && AMBIGUOUS.contains(error.code());
        return repeats.failed(error, sent, redirected, chance).filter(pause -> pause.toNanos() < endNanos - System.nanoTime());
    }

    /** Returns the error of the call, given the error of the last attempt. */
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
