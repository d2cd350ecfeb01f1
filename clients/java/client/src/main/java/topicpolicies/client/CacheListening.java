package topicpolicies.client;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * A listener of a cache, and which documents it has yet to be told of: each one once, with what the listener knows of it, however many
 * changes have come since. So what waits is no more than there are documents.
 */
final class CacheListening implements PolicyCache.Listening {
    /** Guards what the cache knows, and what waits here. */
    private final Object lock;
    private final Function<CacheState.Key, Optional<Document>> now;
    private final Consumer<PolicyCache.Change> listener;
    private final Executor executor;
    private final Consumer<CacheListening> onClose;
    /** What the listener knows of the documents of which it has yet to be told. */
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

    /** A document is another one than {@code before} now. With the lock. */
    void note(CacheState.Key key, Optional<Document> before) {
        waiting.putIfAbsent(key, before);
    }

    /** Sees to it that what waits is told. Without the lock: the executor may do it at once. */
    void wake() {
        synchronized (lock) {
            if (telling || closed || waiting.isEmpty()) {
                return;
            }
            telling = true;
        }
        try {
            executor.execute(this::tell);
        } catch (RejectedExecutionException gone) {
            close(); // nobody can be told any more
        }
    }

    @Override
    public void close() {
        closed = true;
        onClose.accept(this);
    }

    private void tell() {
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
            tell(key, before, after);
        }
    }

    private void tell(CacheState.Key key, Optional<Document> before, Optional<Document> after) {
        if (closed || before.equals(after)) {
            return;
        }
        try {
            listener.accept(new PolicyCache.Change(key.topic(), key.scope(), before, after));
        } catch (RuntimeException error) {
            Thread thread = Thread.currentThread();
            thread.getUncaughtExceptionHandler().uncaughtException(thread, error);
        }
    }
}
