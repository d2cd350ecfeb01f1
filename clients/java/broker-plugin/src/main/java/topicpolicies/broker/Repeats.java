package topicpolicies.broker;

import io.grpc.Status;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.Supplier;
import topicpolicies.client.TopicPoliciesException;

/**
 * The time of one request of the broker, and the repeats of calls in it. gRPC repeats a call a few times; a broker waits longer, for a
 * sidecar that is being restarted. A change is repeated with the same request id, so it is made once.
 */
final class Repeats {
    private static final Set<Status.Code> PASSING = EnumSet.of(Status.Code.UNAVAILABLE, Status.Code.DEADLINE_EXCEEDED,
            Status.Code.RESOURCE_EXHAUSTED);
    private static final long FIRST_PAUSE_MILLIS = 100;
    private static final long LONGEST_PAUSE_MILLIS = 1000;

    private final Executor executor;
    private final long endNanos;

    /** {@code limit} is the time of the request from now on; calls are repeated on {@code executor}. */
    Repeats(Duration limit, Executor executor) {
        this.executor = executor;
        this.endNanos = System.nanoTime() + limit.toNanos();
    }

    /** Makes a call, which is given the time that is left, until it succeeds, fails permanently, or the time is over. */
    <T> CompletableFuture<T> of(Function<Duration, CompletableFuture<T>> call) {
        return of(call, FIRST_PAUSE_MILLIS);
    }

    private <T> CompletableFuture<T> of(Function<Duration, CompletableFuture<T>> call, long pauseMillis) {
        Duration left = Duration.ofNanos(Math.max(endNanos - System.nanoTime(), 1));
        return call.apply(left).exceptionallyCompose(failure -> {
            TopicPoliciesException error = TopicPoliciesException.of(failure);
            boolean passing = PASSING.contains(error.code()) || error.reason().equals("CONTENTION");
            if (!passing || !allows(pauseMillis)) {
                return CompletableFuture.failedFuture(error);
            }
            return after(pauseMillis, () -> of(call, Math.min(2 * pauseMillis, LONGEST_PAUSE_MILLIS)));
        });
    }

    /** Whether there is time for a pause. */
    boolean allows(long pauseMillis) {
        return System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(pauseMillis) < endNanos;
    }

    /** Does something after a pause. */
    <T> CompletableFuture<T> after(long pauseMillis, Supplier<CompletableFuture<T>> task) {
        Executor later = CompletableFuture.delayedExecutor(pauseMillis, TimeUnit.MILLISECONDS, executor);
        return CompletableFuture.supplyAsync(task, later).thenCompose(done -> done);
    }
}
