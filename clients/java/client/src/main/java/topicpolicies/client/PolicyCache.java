package topicpolicies.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/**
 * A local, always current copy of the documents of some namespaces or topics, with listeners.
 *
 * <p>It is complete once it is {@link #synced}; {@link #staleness} says how old its newest proof of being current is. It survives whatever
 * happens to the connection and keeps what it knows meanwhile. What a caller knows from an answer can be put in by {@link #offer}, so that
 * it reads its own writes at once.
 *
 * <p>Per document, listeners see versions in order and never go back, except where the service's log was replaced by another one.
 */
public final class PolicyCache implements AutoCloseable {
    private record Key(String topic, Scope scope) {
    }

    /** A document, and whether the watch has told of it (otherwise it was offered). */
    private record Entry(String namespace, Document document, boolean told) {
    }

    private final SerialExecutor notifications;
    private final CopyOnWriteArrayList<Consumer<Document>> listeners = new CopyOnWriteArrayList<>();
    private final CompletableFuture<Void> whenSynced = new CompletableFuture<>();
    private final Object lock = new Object();
    private final Map<Key, Entry> entries = new HashMap<>();
    /** Of each namespace that begins again, what was told or offered since. */
    private final Map<String, Set<Key>> restarting = new HashMap<>();
    private final Set<String> unsynced;
    private final Watch watch;
    private volatile long heardNanos = System.nanoTime();
    private volatile boolean connected;
    private volatile boolean ended;
    private volatile TopicPoliciesException lastError;

    PolicyCache(TopicPoliciesClient client, Selection selection, Executor executor) {
        this.notifications = new SerialExecutor(executor);
        this.unsynced = new HashSet<>(selection.allNamespaces());
        this.watch = client.watch(selection, new Watch.Listener() {
            @Override
            public void on(WatchEvent event) {
                take(event);
            }

            @Override
            public void ended(TopicPoliciesException error) {
                lastError = error;
                connected = false;
                ended = true;
                whenSynced.completeExceptionally(error);
            }
        });
    }

    /** A document; empty if there is none or none is known. */
    public Optional<Document> get(String topic, Scope scope) {
        return known(topic, scope).filter(Document::exists);
    }

    /** A document, or an absence whose version is known; empty if nothing is known. */
    public Optional<Document> known(String topic, Scope scope) {
        synchronized (lock) {
            return Optional.ofNullable(entries.get(new Key(topic, scope))).map(Entry::document);
        }
    }

    /** All documents. */
    public Collection<Document> documents() {
        synchronized (lock) {
            return entries.values().stream().map(Entry::document).filter(Document::exists).toList();
        }
    }

    /** Whether the copy is complete: the snapshots of all namespaces were told to their end. */
    public boolean synced() {
        return whenSynced.isDone() && !whenSynced.isCompletedExceptionally();
    }

    /** Completes when the copy is complete for the first time; fails when that can't be, because the service refuses. */
    public CompletableFuture<Void> whenSynced() {
        return whenSynced.copy();
    }

    /** How long ago the service was last heard from. While it is reached, this stays below the time between two bookmarks (10 s). */
    public Duration staleness() {
        return Duration.ofNanos(System.nanoTime() - heardNanos);
    }

    /** Whether the last thing heard was the service, not an interruption. */
    public boolean connected() {
        return connected;
    }

    /** Why the watch broke or ended the last time; empty if it never did. */
    public Optional<TopicPoliciesException> lastError() {
        return Optional.ofNullable(lastError);
    }

    /** Whether the copy is not kept current any more, because the service refused it; see {@link #lastError}. */
    public boolean ended() {
        return ended;
    }

    /**
     * Adds a listener. It is told of every document there is, and then of every change, one at a time; an absent document is one that was
     * deleted. Do not block in it.
     */
    public void addListener(Consumer<Document> listener) {
        notifications.execute(() -> {
            documents().forEach(listener);
            listeners.add(listener);
        });
    }

    /** Removes a listener; it is not told anything that happens afterwards. */
    public void removeListener(Consumer<Document> listener) {
        notifications.execute(() -> listeners.remove(listener));
    }

    /** Puts in a document that an answer gave, if it is newer than what is known. */
    public void offer(Document document) {
        synchronized (lock) {
            Key key = new Key(document.topic(), document.scope());
            String namespace = Selection.namespaceOf(document.topic());
            Entry known = entries.get(key);
            if (known != null && !document.newerThan(known.document())) {
                return;
            }
            put(key, new Entry(namespace, document, false));
        }
    }

    /**
     * Takes out what is known of a topic that is gone together with its namespace, as an answer said: there is no version to {@link #offer}.
     * Listeners are told that its documents are absent. What the watch tells of it later counts again.
     */
    public void gone(String topic) {
        synchronized (lock) {
            for (Scope scope : Scope.values()) {
                remove(new Key(topic, scope));
            }
        }
    }

    /** Ends the watch; what is known stays readable. */
    @Override
    public void close() {
        watch.close();
        connected = false;
    }

    private void take(WatchEvent event) {
        if (event instanceof WatchEvent.Interrupted interrupted) {
            connected = false;
            lastError = interrupted.error();
            return;
        }
        if (!(event instanceof WatchEvent.Restarted)) {
            connected = true;
            heardNanos = System.nanoTime();
        }
        boolean complete = false;
        synchronized (lock) {
            if (event instanceof WatchEvent.Changed changed) {
                changed(changed);
            } else if (event instanceof WatchEvent.Restarted restarted) {
                restarting.put(restarted.namespace(), new HashSet<>());
            } else if (event instanceof WatchEvent.Bookmark bookmark) {
                forget(bookmark.namespace());
            } else if (event instanceof WatchEvent.Synced synced) {
                drop(synced.namespace());
                complete = unsynced.remove(synced.namespace()) && unsynced.isEmpty();
            }
        }
        if (complete) {
            whenSynced.complete(null);
        }
    }

    private void changed(WatchEvent.Changed changed) {
        Document document = changed.document();
        Key key = new Key(document.topic(), document.scope());
        Entry known = entries.get(key);
        // A namespace that begins again may do so in another log, whose versions have nothing to do with what is known.
        boolean anew = restarting.containsKey(changed.namespace()) && !restarting.get(changed.namespace()).contains(key);
        if (known == null || anew && !known.document().equals(document) || document.newerThan(known.document())) {
            put(key, new Entry(changed.namespace(), document, true));
        } else if (document.version().equals(known.document().version())) {
            entries.put(key, new Entry(changed.namespace(), known.document(), true));
            noteAgain(changed.namespace(), key);
        }
    }

    private void put(Key key, Entry entry) {
        entries.put(key, entry);
        noteAgain(entry.namespace(), key);
        notifications.execute(() -> tell(key, entry.document()));
    }

    private void noteAgain(String namespace, Key key) {
        Set<Key> again = restarting.get(namespace);
        if (again != null) {
            again.add(key);
        }
    }

    /** The snapshot of a namespace is complete: what it did not tell again is gone. */
    private void drop(String namespace) {
        Set<Key> again = restarting.remove(namespace);
        if (again == null) {
            return;
        }
        List<Key> gone = new ArrayList<>();
        entries.forEach((key, entry) -> {
            if (entry.namespace().equals(namespace) && !again.contains(key)) {
                gone.add(key);
            }
        });
        gone.forEach(this::remove);
    }

    private void remove(Key key) {
        Entry removed = entries.remove(key);
        if (removed != null && removed.document().exists()) {
            Document last = removed.document();
            Document absent = new Document(last.topic(), last.scope(), Optional.empty(), last.version());
            notifications.execute(() -> tell(key, absent));
        }
    }

    /** A bookmark: nothing older comes any more, so absences that the watch has told of need not be remembered. */
    private void forget(String namespace) {
        entries.values().removeIf(entry -> entry.told() && !entry.document().exists() && entry.namespace().equals(namespace));
    }

    private void tell(Key key, Document document) {
        Optional<Document> now = known(key.topic(), key.scope());
        if (now.isPresent() && now.get() != document && now.get().newerThan(document)) {
            return; // it is told of by a later task
        }
        for (Consumer<Document> listener : listeners) {
            try {
                listener.accept(document);
            } catch (RuntimeException error) {
                Thread thread = Thread.currentThread();
                thread.getUncaughtExceptionHandler().uncaughtException(thread, error);
            }
        }
    }
}
