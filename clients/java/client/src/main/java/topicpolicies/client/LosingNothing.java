package topicpolicies.client;

import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Runs gRPC's tasks on another executor, and those that it rejects on Java's common pool. gRPC loses a rejected task: its call would never
 * end, and its channel would fail all later calls.
 */
final class LosingNothing implements Executor {
    private final Executor executor;

    LosingNothing(Executor executor) {
        this.executor = executor;
    }

    @Override
    public void execute(Runnable task) {
        AtomicBoolean taken = new AtomicBoolean();
        Runnable once = () -> {
            if (taken.compareAndSet(false, true)) {
                task.run();
            }
        };
        try {
            executor.execute(once);
        } catch (Throwable rejected) { // perhaps an error: there is no memory for a thread
            if (taken.get()) {
                throw rejected; // the task's own, which ran in this thread
            }
            ForkJoinPool.commonPool().execute(once);
        }
    }
}
