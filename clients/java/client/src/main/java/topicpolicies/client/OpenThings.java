package topicpolicies.client;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

/** The watches and the {@code updateMany} calls of a client, which are closed with it. Nothing can be added afterwards. */
final class OpenThings {
    private final Set<Runnable> closings = new LinkedHashSet<>();
    private boolean closed;

    /**
     * Adds something.
     *
     * @param closing closes it
     * @param ended completes when it has ended by itself
     * @throws TopicPoliciesException if the client was closed; the thing is then closed too
     */
    void add(Runnable closing, CompletableFuture<?> ended) {
        boolean late;
        synchronized (this) {
            late = closed;
            if (!late) {
                closings.add(closing);
            }
        }
        if (late) {
            closing.run();
            throw TopicPoliciesException.clientClosed();
        }
        ended.whenComplete((nothing, error) -> {
            synchronized (this) {
                closings.remove(closing);
            }
        });
    }

    /** Closes everything that is open, in this thread and without a lock, because callbacks may run. */
    void close() {
        List<Runnable> all;
        synchronized (this) {
            closed = true;
            all = List.copyOf(closings);
            closings.clear();
        }
        all.forEach(Runnable::run);
    }
}
