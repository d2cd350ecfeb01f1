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
 * A local, always current copy of the documents of some namespaces or topics, with listeners.
 *
 * <p>It is complete once it is {@link #synced}; {@link #staleness} says how old it is. It survives whatever happens to the connection and
 * keeps what it knows meanwhile. What a caller knows from an answer can be put in by {@link #offer}, so that it reads its own writes at
 * once.
 *
 * <p>Per document, versions never go back, except where a namespace begins anew.
 */
public final class PolicyCache implements AutoCloseable {
    /**
     * A document is another one now.
     *
     * @param topic the topic's full name
     * @param scope in which clusters
     * @param before the document before; empty if there was none
     * @param after the document now; empty if there is none
     */
    public record Change(String topic, Scope scope, Optional<Document> before, Optional<Document> after) {
    }

    /** Somebody who is told of changes, until this is closed. */
    public interface Listening extends AutoCloseable {
        /** Nothing is told any more; what is being told is told to its end. */
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

    /** The LOCAL document of a topic, by any of its names; empty if there is none or none is known. */
    public Optional<Document> get(String topic) {
        return get(topic, Scope.LOCAL);
    }

    /**
     * A document; empty if there is none or none is known.
     *
     * @param topic a topic's name, with or without {@code persistent://}; a partition's means its base topic
     * @param scope in which clusters
     */
    public Optional<Document> get(String topic, Scope scope) {
        return known(topic, scope).filter(Document::exists);
    }

    /** A document, or an absence whose version is known; empty if nothing is known. */
    public Optional<Document> known(String topic, Scope scope) {
        CacheState.Key key = new CacheState.Key(TopicNames.full(topic), scope);
        synchronized (lock) {
            return state.known(key);
        }
    }

    /** All documents. */
    public Collection<Document> documents() {
        synchronized (lock) {
            return state.documents();
        }
    }

    /** Whether the copy is complete: the snapshots of all namespaces were told to their end at some time. */
    public boolean synced() {
        return whenSynced.isDone() && !whenSynced.isCompletedExceptionally();
    }

    /**
     * Completes when the copy is complete for the first time; fails when that can't be, because the service refuses or the cache was
     * closed.
     */
    public CompletableFuture<Void> whenSynced() {
        return whenSynced.copy();
    }

    /** How old the copy of the namespace is that is worst off; empty as long as not all of it was told once. */
    public Optional<Duration> staleness() {
        synchronized (lock) {
            return state.staleness(System.nanoTime());
        }
    }

    /** How old the copy of a namespace is, {@code tenant/namespace}; empty as long as it was not told completely once. */
    public Optional<Duration> staleness(String namespace) {
        synchronized (lock) {
            return state.staleness(namespace, System.nanoTime());
        }
    }

    /** The state of a namespace, as the service has told it over the stream that is open; READY if it told none. */
    public WatchEvent.Status status(String namespace) {
        synchronized (lock) {
            return state.status(namespace);
        }
    }

    /** Whether the last thing heard was the service, not an interruption. */
    public boolean connected() {
        return connected;
    }

    /** Why the watch broke or ended the last time; empty if it never did. */
    public Optional<TopicPoliciesException> lastError() {
        return Optional.ofNullable(lastError);
    }

    /** Whether the copy is not kept current any more, because the service refused it or the cache was closed; see {@link #lastError}. */
    public boolean ended() {
        return watch.isEnded();
    }

    /**
     * Adds a listener. It is told of every document there is, as one that was not there before, and then of every change, one at a time.
     * One that is slow delays nobody, and is told of each document from what it was told last to the newest. Do not block in it for long.
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

    /** Puts in a document that an answer gave, if it is newer than what is known. */
    public void offer(Document document) {
        synchronized (lock) {
            state.offer(document);
        }
        wake();
    }

    /**
     * Takes out what is known of a topic that is gone together with its namespace, as an answer said: there is no version to {@link
     * #offer}. Listeners are told that its documents are absent. What the watch tells of it later counts again.
     */
    public void gone(String topic) {
        synchronized (lock) {
            List.of(Scope.values()).forEach(scope -> state.remove(new CacheState.Key(TopicNames.full(topic), scope)));
        }
        wake();
    }

    /** Ends the watch, and the listeners; what is known stays readable. */
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
