package topicpolicies.client;

import java.time.Duration;

/**
 * Growing pauses between attempts, each chosen at random from the upper half below its ceiling, so that clients do not retry in step.
 *
 * @param first the ceiling of the first pause
 * @param longest the upper limit of every pause
 * @param factor the factor by which the ceiling grows from one pause to the next
 */
public record Backoff(Duration first, Duration longest, double factor) {
    /** From 100 ms to 5 s, doubling: for failed calls. */
    public static final Backoff RECONNECT = new Backoff(Duration.ofMillis(100), Duration.ofSeconds(5), 2);
    /** From 100 ms to 10 s, doubling: for watches. */
    public static final Backoff WATCH = new Backoff(Duration.ofMillis(100), Duration.ofSeconds(10), 2);
    /** From 10 ms to 500 ms, doubling: for edits after another writer was faster. */
    public static final Backoff CONFLICT = new Backoff(Duration.ofMillis(10), Duration.ofMillis(500), 2);

    /** Checks that the pauses are positive and do not shrink. */
    public Backoff {
        if (first.isNegative() || first.isZero() || longest.compareTo(first) < 0 || !(factor >= 1)) {
            throw new IllegalArgumentException("pauses are positive and do not shrink");
        }
    }

    /**
     * Returns the pause after a failed attempt.
     *
     * @param attempt the number of the attempt, counted from 1
     * @param chance a random number, at least 0 and less than 1
     */
    public Duration pause(int attempt, double chance) {
        double ceiling = Math.min(longest.toNanos(), first.toNanos() * Math.pow(factor, Math.min(attempt - 1, 64)));
        return Duration.ofNanos((long) (ceiling * (1 + chance) / 2));
    }
}
