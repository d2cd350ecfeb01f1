package topicpolicies.broker;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import topicpolicies.client.DeleteResult;
import topicpolicies.client.Document;
import topicpolicies.client.Scope;
import topicpolicies.client.TopicPoliciesClient;
import topicpolicies.client.TopicPoliciesException;

/**
 * The deletion of a topic's policies.
 *
 * <p>Deleting what is gone succeeds. Where the sidecar's log is in the namespace that is being deleted, it goes at the same time as the topics:
 * a deletion can meet it in the middle, and fail in passing. What did is deleted again, until it is done, or gone, or the time is over. To
 * delete twice does no harm.
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
    private long pauseMillis = FIRST_PAUSE_MILLIS;

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

    /** Deletes the documents of some scopes; fails with a {@link TopicPoliciesException}. */
    CompletableFuture<Void> of(List<Scope> scopes) {
        return client.deleteAsync(topic, scopes).thenCompose(this::again).exceptionallyCompose(failure -> {
            TopicPoliciesException error = TopicPoliciesException.of(failure);
            if (!Refusals.gone(error)) {
                return CompletableFuture.failedFuture(error);
            }
            onGone.run();
            return CompletableFuture.completedFuture(null);
        });
    }

    private CompletableFuture<Void> again(List<DeleteResult> results) {
        List<Scope> left = new ArrayList<>();
        TopicPoliciesException failed = null;
        for (DeleteResult result : results) {
            TopicPoliciesException error = result.error().orElse(null);
            if (error == null) {
                onDeleted.accept(result.document());
            } else if (Refusals.gone(error)) {
                onGone.run();
            } else {
                left.add(result.document().scope());
                failed = failed == null || !Refusals.passing(error) ? error : failed;
            }
        }
        if (failed == null) {
            return CompletableFuture.completedFuture(null);
        }
        if (!Refusals.passing(failed) || System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(pauseMillis) > endNanos) {
            return CompletableFuture.failedFuture(failed);
        }
        Executor later = CompletableFuture.delayedExecutor(pauseMillis, TimeUnit.MILLISECONDS, executor);
        pauseMillis = Math.min(2 * pauseMillis, LONGEST_PAUSE_MILLIS);
        return CompletableFuture.supplyAsync(() -> of(left), later).thenCompose(deleted -> deleted);
    }
}
