package topicpolicies.client;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

/** What lives in a client and is closed with it. Nothing is added afterwards. */
final class OpenThings {
    private final Set<Runnable> closings = new LinkedHashSet<>();
    private boolean closed;

    /**
     * Adds something.
     *
     * @param closing closes it
     * @param ended completes when it has ended by itself
     * @throws TopicPoliciesException the client was closed; then the thing is closed too
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

    /** Closes all that is open, in this thread and without a lock: callbacks may run. */
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
