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
 * <p>Deleting a document that does not exist succeeds. If the sidecar's log is in the namespace that is being deleted, the log is deleted
 * at the same time as the topics, so a deletion may fail temporarily. Such a deletion is sent again until it succeeds, the namespace is
 * gone, or the time is over. Deleting twice does no harm.
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
     * Creates a deletion without sending it.
     *
     * @param client sends the deletion
     * @param executor where the deletion is sent again
     * @param topic the topic's full name
     * @param limit for how long the deletion is sent again
     * @param onDeleted is called with each absent document that a deletion returns
     * @param onGone is called when the service says that the namespace does not exist
     */
    Deletion(TopicPoliciesClient client, Executor executor, String topic, Duration limit, Consumer<Document> onDeleted, Runnable onGone) {
        this.client = client;
        this.executor = executor;
        this.topic = topic;
        this.onDeleted = onDeleted;
        this.onGone = onGone;
        this.endNanos = System.nanoTime() + limit.toNanos();
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
