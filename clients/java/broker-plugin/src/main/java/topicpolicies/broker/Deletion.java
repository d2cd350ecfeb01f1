package topicpolicies.broker;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import topicpolicies.client.Delete;
import topicpolicies.client.Document;
import topicpolicies.client.Scope;
import topicpolicies.client.TopicPoliciesClient;
import topicpolicies.client.TopicPoliciesException;

/**
 * The deletion of a topic's policies, one scope at a time.
 *
 * <p>Deleting what is gone succeeds. Where the sidecar's log is in the namespace that is being deleted, it goes at the same time as the
 * topics: a deletion can meet it in the middle, and fail in passing. What did is deleted again, until it is done, or gone, or the time is
 * over. To delete twice does no harm.
 */
final class Deletion {
    private static final long FIRST_PAUSE_MILLIS = 100;
    private static final long LONGEST_PAUSE_MILLIS = 1000;

    private final TopicPoliciesClient client;
    private final Executor executor;
    private final String topic;
    private final Consumer<Document> onDeleted;
    private final Runnable onGone;
    private final long endNanos;

    /**
     * A deletion that has not begun.
     *
     * @param client sends it
     * @param executor where it is sent again
     * @param topic the topic's full name
     * @param patience how long it is sent again
     * @param onDeleted is told of each absence
     * @param onGone is called when the service says that the namespace is gone
     */
    Deletion(TopicPoliciesClient client, Executor executor, String topic, Duration patience, Consumer<Document> onDeleted, Runnable onGone) {
        this.client = client;
        this.executor = executor;
        this.topic = topic;
        this.onDeleted = onDeleted;
        this.onGone = onGone;
        this.endNanos = System.nanoTime() + patience.toNanos();
    }

    /** Deletes the document of one scope; fails with a {@link TopicPoliciesException}. */
    CompletableFuture<Void> of(Scope scope) {
        return of(scope, FIRST_PAUSE_MILLIS);
    }

    private CompletableFuture<Void> of(Scope scope, long pauseMillis) {
        return client.deleteAsync(Delete.of(topic).scope(scope).build()).thenAccept(result -> result.document().ifPresent(onDeleted))
                .exceptionallyCompose(failure -> failed(scope, TopicPoliciesException.of(failure), pauseMillis));
    }

    private CompletableFuture<Void> failed(Scope scope, TopicPoliciesException error, long pauseMillis) {
        if (Refusals.gone(error)) {
            onGone.run();
            return CompletableFuture.completedFuture(null);
        }
        if (!Refusals.passing(error) || System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(pauseMillis) > endNanos) {
            return CompletableFuture.failedFuture(error);
        }
        Executor later = CompletableFuture.delayedExecutor(pauseMillis, TimeUnit.MILLISECONDS, executor);
        return CompletableFuture.supplyAsync(() -> of(scope, Math.min(2 * pauseMillis, LONGEST_PAUSE_MILLIS)), later)
                .thenCompose(deleted -> deleted);
    }
}
