package topicpolicies.client;

import java.time.Duration;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;

/** The pauses of a client. All of them end when the client is closed, or its executor rejects tasks. */
final class Pauses {
    private final Executor executor;
    private final Set<CompletableFuture<Void>> open = ConcurrentHashMap.newKeySet();
    private volatile boolean closed;

    Pauses(Executor executor) {
        this.executor = executor;
    }

    /**
     * Returns a future that completes on the executor after a while, or at once when the client is closed; it fails if the executor rejects
     * the task.
     */
    CompletableFuture<Void> pause(Duration pause) {
        if (pause.isZero()) {
            return CompletableFuture.completedFuture(null);
        }
        CompletableFuture<Void> over = new CompletableFuture<>();
        open.add(over);
        over.whenComplete((nothing, error) -> open.remove(over));
        CompletableFuture.delayedExecutor(pause.toNanos(), TimeUnit.NANOSECONDS, Runnable::run).execute(() -> end(over));
        if (closed) {
            over.complete(null); // closed after the other pauses were ended
        }
        return over;
    }

    boolean isClosed() {
        return closed;
    }

    /** How many pauses are not over. */
    int count() {
        return open.size();
    }

    void close() {
        closed = true;
        open.forEach(over -> over.complete(null));
    }

    private void end(CompletableFuture<Void> over) {
        if (over.isDone()) {
            return;
        }
        try {
            executor.execute(() -> over.complete(null));
        } catch (RejectedExecutionException rejected) {
            over.completeExceptionally(rejected);
        }
    }
}
