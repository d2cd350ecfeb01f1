package topicpolicies.client;

import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicInteger;

/** Runs tasks one after the other, in the order in which they were added, on another executor's threads. */
final class SerialExecutor implements Executor {
    private final ConcurrentLinkedQueue<Runnable> tasks = new ConcurrentLinkedQueue<>();
    private final AtomicInteger waiting = new AtomicInteger();
    private final Executor executor;

    SerialExecutor(Executor executor) {
        this.executor = executor;
    }

    /** Runs a task at some time; throws if the other executor rejects tasks, after which this one accepts none either. */
    @Override
    public void execute(Runnable task) {
        tasks.add(task);
        if (waiting.getAndIncrement() == 0) {
            try {
                executor.execute(this::drain);
            } catch (RejectedExecutionException rejected) {
                tasks.clear();
                throw rejected;
            }
        }
    }

    private void drain() {
        do {
            try {
                Runnable task = tasks.poll();
                if (task != null) {
                    task.run();
                }
            } catch (Throwable error) {
                Thread thread = Thread.currentThread();
                thread.getUncaughtExceptionHandler().uncaughtException(thread, error);
            }
        } while (waiting.decrementAndGet() > 0);
    }
}
