package topicpolicies.client;

import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicInteger;

/** Runs tasks one after the other, in the order in which they came, on another executor's threads. Never runs one in the caller's. */
final class SerialExecutor implements Executor {
    private final ConcurrentLinkedQueue<Runnable> tasks = new ConcurrentLinkedQueue<>();
    private final AtomicInteger waiting = new AtomicInteger();
    private final Executor executor;

    SerialExecutor(Executor executor) {
        this.executor = executor;
    }

    @Override
    public void execute(Runnable task) {
        tasks.add(task);
        if (waiting.getAndIncrement() == 0) {
            executor.execute(this::drain);
        }
    }

    private void drain() {
        do {
            try {
                tasks.remove().run();
            } catch (RuntimeException error) {
                Thread thread = Thread.currentThread();
                thread.getUncaughtExceptionHandler().uncaughtException(thread, error);
            }
        } while (waiting.decrementAndGet() > 0);
    }
}
