package topicpolicies.client;

import java.time.Duration;

/**
 * Growing pauses between attempts, each drawn from the upper half of its ceiling so that clients do not march in step.
 *
 * @param first the ceiling of the first pause
 * @param longest no pause is longer
 * @param factor by how much the ceiling grows from one pause to the next
 */
public record Backoff(Duration first, Duration longest, double factor) {
    /** From 100 ms to 5 s, doubling: for calls that failed. */
    public static final Backoff RECONNECT = new Backoff(Duration.ofMillis(100), Duration.ofSeconds(5), 2);
    /** From 100 ms to 10 s, doubling: for watches. */
    public static final Backoff WATCH = new Backoff(Duration.ofMillis(100), Duration.ofSeconds(10), 2);
    /** From 10 ms to 500 ms, doubling: for edits that somebody else was faster with. */
    public static final Backoff CONFLICT = new Backoff(Duration.ofMillis(10), Duration.ofMillis(500), 2);

    /** Checks that the pauses are positive and do not shrink. */
    public Backoff {
        if (first.isNegative() || first.isZero() || longest.compareTo(first) < 0 || !(factor >= 1)) {
            throw new IllegalArgumentException("pauses are positive and do not shrink");
        }
    }

    /**
     * The pause after a failed attempt.
     *
     * @param attempt counted from 1
     * @param chance at least 0, less than 1
     */
    public Duration pause(int attempt, double chance) {
        double ceiling = Math.min(longest.toNanos(), first.toNanos() * Math.pow(factor, Math.min(attempt - 1, 64)));
        return Duration.ofNanos((long) (ceiling * (1 + chance) / 2));
    }
}
