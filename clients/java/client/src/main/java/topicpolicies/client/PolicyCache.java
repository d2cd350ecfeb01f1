package topicpolicies.client;

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/**
 * A local copy, kept up to date, of the documents of some namespaces or topics, with listeners.
 *
 * <p>The copy is complete once it is {@link #synced}; {@link #staleness} says how old it is. Whatever happens to the connection, reads
 * still return the last known documents. A document from the answer to a change can be added with {@link #offer}, so that a caller reads
 * its own writes at once.
 *
 * <p>The version of a document never goes back, except when its namespace starts over.
 */
public final class PolicyCache implements AutoCloseable {
    /**
     * A change of a document.
     *
     * @param topic the topic's full name
     * @param scope the scope of the document
     * @param before the document before the change; empty if there was none
     * @param after the document after the change; empty if there is none any more
     */
    public record Change(String topic, Scope scope, Optional<Document> before, Optional<Document> after) {
    }

    /** The registration of a listener, which ends when it is closed. */
    public interface Listening extends AutoCloseable {
        /** Removes the listener; a call in progress is completed. */
        @Override
        void close();
    }

    private final Executor executor;
    private final CopyOnWriteArrayList<CacheListening> listenings = new CopyOnWriteArrayList<>();
    private final CompletableFuture<Void> whenSynced = new CompletableFuture<>();
    private final Object lock = new Object();
    private final CacheState state;
    private final Watch watch;
    private volatile boolean connected;
    private volatile TopicPoliciesException lastError;

    PolicyCache(TopicPoliciesClient client, Selection selection, Executor executor) {
        this.executor = executor;
        this.state = new CacheState(selection.allNamespaces(), this::note);
        this.watch = client.watch(selection, this::take);
        watch.whenEnded().whenComplete((nothing, error) -> {
            connected = false;
            if (error != null) {
                lastError = TopicPoliciesException.of(error);
            }
            whenSynced.completeExceptionally(error == null ? new IllegalStateException("it ended before it was synced") : lastError);
            listenings.forEach(CacheListening::close);
            listenings.clear();
        });
    }

    /** Returns the LOCAL document of a topic, by any of its names; empty if there is none, or none is known yet. */
    public Optional<Document> get(String topic) {
        return get(topic, Scope.LOCAL);
    }

    /**
     * Returns a document; empty if there is none, or none is known yet.
     *
     * @param topic the topic's name, with or without {@code persistent://}; a partition's name means its base topic
     * @param scope the scope of the document
     */
    public Optional<Document> get(String topic, Scope scope) {
        return known(topic, scope).filter(Document::exists);
    }

    /** Returns a document, or an absence whose version is known; empty if nothing is known. */
    public Optional<Document> known(String topic, Scope scope) {
        CacheState.Key key = new CacheState.Key(TopicNames.full(topic), scope);
        synchronized (lock) {
            return state.known(key);
        }
    }

    /** Returns all documents. */
    public Collection<Document> documents() {
        synchronized (lock) {
            return state.documents();
        }
    }

    /** Whether the first snapshot of every namespace is complete. */
    public boolean synced() {
        return whenSynced.isDone() && !whenSynced.isCompletedExceptionally();
    }

    /**
     * Completes when the first snapshot of every namespace is complete. Fails if the service refuses the watch, or the cache is closed
     * before.
     */
    public CompletableFuture<Void> whenSynced() {
        return whenSynced.copy();
    }

    /** How long ago the copy of the stalest namespace was confirmed to be complete; empty if one never was. */
    public Optional<Duration> staleness() {
        synchronized (lock) {
            return state.staleness(System.nanoTime());
        }
    }

    /** How long ago the copy of a namespace, {@code tenant/namespace}, was confirmed to be complete; empty if it never was. */
    public Optional<Duration> staleness(String namespace) {
        synchronized (lock) {
            return state.staleness(namespace, System.nanoTime());
        }
    }

    /** The state of a namespace, as the service reported it on the present stream; READY if it reported none. */
    public WatchEvent.Status status(String namespace) {
        synchronized (lock) {
            return state.status(namespace);
        }
    }

    /** Whether the watch is connected: its last event came from the service and was not an interruption. */
    public boolean connected() {
        return connected;
    }

    /** Why the watch last broke or ended; empty if it never did. */
    public Optional<TopicPoliciesException> lastError() {
        return Optional.ofNullable(lastError);
    }

    /**
     * Whether the watch has ended, so that the copy is no longer kept up to date, because the service refused it or the cache was closed;
     * see {@link #lastError}.
     */
    public boolean ended() {
        return watch.isEnded();
    }

    /**
     * Adds a listener. It is called for every existing document, with {@code before} empty, and then for every change, one at a time. A
     * slow listener delays neither the cache nor other listeners: it gets each document that it has missed once, from the state that it
     * knows to the newest. Do not block in it for long.
     */
    public Listening listen(Consumer<Change> listener) {
        CacheListening listening = new CacheListening(lock, key -> state.known(key).filter(Document::exists), listener, executor,
                listenings::remove);
        synchronized (lock) {
            if (!ended()) {
                listenings.add(listening);
            }
            state.documents().forEach(document ->
                    listening.note(new CacheState.Key(document.topic(), document.scope()), Optional.empty()));
        }
        if (ended()) {
            listening.close();
        }
        listening.wake();
        return listening;
    }

    /** Stores a document from an answer, if it is newer than the stored one. */
    public void offer(Document document) {
        synchronized (lock) {
            state.offer(document);
        }
        wake();
    }

    /**
     * Removes the documents of a topic that was deleted together with its namespace, as an answer said: there is no version to {@link
     * #offer}. Listeners are called with absent documents. Later events of the watch count again.
     */
    public void gone(String topic) {
        synchronized (lock) {
            List.of(Scope.values()).forEach(scope -> state.remove(new CacheState.Key(TopicNames.full(topic), scope)));
        }
        wake();
    }

    /** Ends the watch and the listeners; the documents stay readable. */
    @Override
    public void close() {
        watch.close();
    }

    private void note(CacheState.Key key, Optional<Document> before, Optional<Document> after) {
        listenings.forEach(listening -> listening.note(key, before));
    }

    private void wake() {
        listenings.forEach(CacheListening::wake);
    }

    private void take(WatchEvent event) {
        if (event instanceof WatchEvent.Interrupted interrupted) {
            connected = false;
            lastError = interrupted.error();
            synchronized (lock) {
                state.interrupted();
            }
            return;
        }
        connected = true;
        boolean complete;
        synchronized (lock) {
            state.take(event, System.nanoTime());
            complete = event instanceof WatchEvent.Synced && state.isComplete();
        }
        wake();
        if (complete) {
            whenSynced.complete(null);
        }
    }
}
