package topicpolicies.client;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * A listener of a cache, with the queue of documents to report to it. A document is queued only once, however often it changes, together
 * with the state that the listener knows. So the queue is never longer than the number of documents.
 */
final class CacheListening implements PolicyCache.Listening {
    /** Guards the cache's state and this queue. */
    private final Object lock;
    private final Function<CacheState.Key, Optional<Document>> now;
    private final Consumer<PolicyCache.Change> listener;
    private final Executor executor;
    private final Consumer<CacheListening> onClose;
    /** The queued documents, by key, each as the listener last got it. */
    private final Map<CacheState.Key, Optional<Document>> waiting = new LinkedHashMap<>();
    private boolean telling;
    private volatile boolean closed;

    CacheListening(Object lock, Function<CacheState.Key, Optional<Document>> now, Consumer<PolicyCache.Change> listener, Executor executor,
                   Consumer<CacheListening> onClose) {
        this.lock = lock;
        this.now = now;
        this.listener = listener;
        this.executor = executor;
        this.onClose = onClose;
    }

    /** Queues a changed document; {@code before} is the document before the change. The caller holds the lock. */
    void note(CacheState.Key key, Optional<Document> before) {
        waiting.putIfAbsent(key, before);
    }

    /** Starts delivery of the queue. The caller must not hold the lock: the executor may run the listener at once. */
    void wake() {
        synchronized (lock) {
            if (telling || closed || waiting.isEmpty()) {
                return;
            }
            telling = true;
        }
        try {
            executor.execute(this::call);
        } catch (RejectedExecutionException rejected) {
            synchronized (lock) {
                telling = false; // the next event of the watch wakes it again
            }
        }
    }

    @Override
    public void close() {
        closed = true;
        onClose.accept(this);
    }

    private void call() {
        while (true) {
            CacheState.Key key;
            Optional<Document> before;
            Optional<Document> after;
            synchronized (lock) {
                if (waiting.isEmpty() || closed) {
                    telling = false;
                    return;
                }
                key = waiting.keySet().iterator().next();
                before = waiting.remove(key);
                after = now.apply(key);
            }
            call(key, before, after);
        }
    }

    private void call(CacheState.Key key, Optional<Document> before, Optional<Document> after) {
        if (closed || before.equals(after)) {
            return;
        }
        try {
            listener.accept(new PolicyCache.Change(key.topic(), key.scope(), before, after));
        } catch (Throwable error) { // also errors, or the listener would never be called again
            Thread thread = Thread.currentThread();
            thread.getUncaughtExceptionHandler().uncaughtException(thread, error);
        }
    }
}
