package topicpolicies.client;

import java.time.Duration;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import topicpolicies.v1.Bookmark;
import topicpolicies.v1.PolicyDocument;
import topicpolicies.v1.Scope;
import topicpolicies.v1.WatchEvent;
import topicpolicies.v1.WatchPoliciesRequest;

/**
 * A local copy of the documents of some namespaces or topics, which a watch keeps up to date, with listeners.
 *
 * <p>Reads never block. Whatever happens to the connection, they return the last known documents; {@link #age} says how old the copy is.
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
    public record Change(String topic, Scope scope, Optional<PolicyDocument> before, Optional<PolicyDocument> after) {
    }

    /** The registration of a listener, which ends when it is closed. */
    public interface Registration extends AutoCloseable {
        @Override
        void close();
    }

    private record Key(String topic, Scope scope) {
    }

    /** {@code offered} is the version of the document if it did not come from the watch, and else empty. */
    private record Entry(String namespace, PolicyDocument document, String offered) {
        Optional<PolicyDocument> shown() {
            return Optional.of(document).filter(PolicyDocument::hasPolicies);
        }
    }

    private static final class Part {
        private boolean synced;
        /** The keys that came since the namespace began; null outside a snapshot. */
        private Set<Key> fresh = new HashSet<>();
        /** When the copy was last known to be complete; null if that is not known. */
        private Long completeNanos;
    }

    private final LongSupplier clock;
    private final Map<Key, Entry> entries = new ConcurrentHashMap<>();
    private final Map<String, Part> parts = new TreeMap<>();
    private final List<Consumer<Change>> listeners = new CopyOnWriteArrayList<>();
    private final CompletableFuture<Void> synced = new CompletableFuture<>();
    private final CompletableFuture<Void> ended = new CompletableFuture<>();
    private volatile Watch<WatchEvent> watch;
    private volatile TopicPoliciesException lastError;

    /** A cache without a watch: {@link #take} passes it events. */
    PolicyCache(Collection<String> namespaces, LongSupplier clock) {
        this.clock = clock;
        namespaces.forEach(name -> parts.put(name, new Part()));
    }

    static PolicyCache of(TopicPoliciesClient client, WatchPoliciesRequest request, boolean relentless) {
        Set<String> namespaces = new HashSet<>(request.getNamespacesList());
        request.getTopicsList().forEach(topic -> namespaces.add(TopicNames.namespaceOf(topic)));
        PolicyCache cache = new PolicyCache(namespaces, System::nanoTime);
        cache.watch = client.watch(request.toBuilder().clearResumeTokens().build(), new Watch.Listener<>() {
            @Override
            public void onEvent(WatchEvent event) {
                cache.take(event);
            }

            @Override
            public boolean onInterrupted(TopicPoliciesException error, boolean permanent) {
                cache.lastError = error;
                return relentless || !permanent;
            }
        });
        cache.watch.whenEnded().whenComplete((nothing, error) -> {
            cache.synced.completeExceptionally(error == null ? new IllegalStateException("The cache was closed.") : error);
            cache.ended.complete(null);
        });
        return cache;
    }

    /** Returns the LOCAL document of a topic; see {@link #get(String, Scope)}. */
    public Optional<PolicyDocument> get(String topic) {
        return get(topic, Scope.SCOPE_LOCAL);
    }

    /**
     * Returns a document; empty if there is none, or none is known yet.
     *
     * @param topic the topic's name, with or without {@code persistent://}; a partition's name means its base topic
     * @param scope LOCAL or GLOBAL
     */
    public Optional<PolicyDocument> get(String topic, Scope scope) {
        return Optional.ofNullable(entries.get(new Key(TopicNames.full(topic), scope))).flatMap(Entry::shown);
    }

    /** Returns all documents, by topic and scope. */
    public List<PolicyDocument> documents() {
        return entries.values().stream().flatMap(entry -> entry.shown().stream())
                .sorted(Comparator.comparing(PolicyDocument::getTopic).thenComparing(PolicyDocument::getScope)).toList();
    }

    /** Whether the first snapshot of every namespace is complete. */
    public boolean isSynced() {
        return synced.isDone() && !synced.isCompletedExceptionally();
    }

    /** Completes when the first snapshot of every namespace is complete; fails if the watch ends before. */
    public CompletableFuture<Void> whenSynced() {
        return synced.copy();
    }

    /**
     * Waits until the first snapshot of every namespace is complete.
     *
     * @throws TopicPoliciesException if the service refuses the watch
     * @throws TimeoutException if it takes longer than {@code limit}
     */
    public void awaitSynced(Duration limit) throws InterruptedException, TimeoutException {
        try {
            synced.get(limit.toNanos(), TimeUnit.NANOSECONDS);
        } catch (ExecutionException error) {
            throw TopicPoliciesException.of(error);
        }
    }

    /**
     * How old the copy is, that of the oldest namespace; empty if that is not known, as before the first snapshot. It stays below the time
     * between two bookmarks, 10 seconds, while the service follows the change logs.
     */
    public Optional<Duration> age() {
        synchronized (parts) {
            long now = clock.getAsLong();
            long oldest = 0;
            for (Part part : parts.values()) {
                if (part.completeNanos == null) {
                    return Optional.empty();
                }
                oldest = Math.max(oldest, now - part.completeNanos);
            }
            return Optional.of(Duration.ofNanos(oldest));
        }
    }

    /** Why the stream of the watch last broke; empty if it never did. */
    public Optional<TopicPoliciesException> lastError() {
        return Optional.ofNullable(lastError);
    }

    /** Whether the watch has ended, because the cache or the client was closed or the service refused it. Documents stay readable. */
    public boolean isEnded() {
        return ended.isDone();
    }

    /**
     * Adds a listener. It is called with every existing document, {@code before} being empty, and then with every change, in order. It is
     * called by the thread that handles the watch, which waits for it, so it must not block.
     */
    public Registration listen(Consumer<Change> listener) {
        synchronized (parts) {
            entries.forEach((key, entry) -> entry.shown().ifPresent(document ->
                    call(listener, new Change(key.topic(), key.scope(), Optional.empty(), Optional.of(document)))));
            listeners.add(listener);
        }
        return () -> listeners.remove(listener);
    }

    /** Adds the document of an answer if it is newer than the known one, so that a caller reads its own change at once. */
    public void offer(PolicyDocument document) {
        synchronized (parts) {
            Key key = new Key(document.getTopic(), document.getScope());
            Entry known = entries.get(key);
            if (known == null || known.document().getVersion().compareTo(document.getVersion()) < 0) {
                put(key, new Entry(TopicNames.namespaceOf(document.getTopic()), document, document.getVersion()));
            }
        }
    }

    /** Removes the documents of a topic that was deleted together with its namespace; later events of the watch count again. */
    public void remove(String topic) {
        synchronized (parts) {
            List.of(Scope.SCOPE_LOCAL, Scope.SCOPE_GLOBAL).forEach(scope -> remove(new Key(TopicNames.full(topic), scope)));
        }
    }

    /** Ends the watch; the documents stay readable. */
    @Override
    public void close() {
        watch.close();
    }

    /** The namespaces whose first snapshot is complete. */
    List<String> synced() {
        synchronized (parts) {
            return parts.keySet().stream().filter(name -> parts.get(name).synced).toList();
        }
    }

    void take(WatchEvent event) {
        boolean complete = false;
        synchronized (parts) {
            Part part = parts.computeIfAbsent(event.getNamespace(), name -> new Part());
            switch (event.getContentCase()) {
                case CHANGE -> change(event.getNamespace(), part, event.getChange().getDocument());
                case RESET -> part.fresh = new HashSet<>();
                case BOOKMARK -> {
                    bookmark(event.getNamespace(), part, event.getBookmark());
                    complete = parts.values().stream().allMatch(each -> each.synced);
                }
                default -> {
                    // states change no document, and contents of a newer service are skipped
                }
            }
        }
        if (complete) {
            synced.complete(null);
        }
    }

    private void change(String namespace, Part part, PolicyDocument document) {
        if (document.getScope() != Scope.SCOPE_LOCAL && document.getScope() != Scope.SCOPE_GLOBAL) {
            return;
        }
        Key key = new Key(document.getTopic(), document.getScope());
        Entry known = entries.get(key);
        boolean begins = part.fresh != null && !part.fresh.contains(key); // perhaps in another log, whose versions can't be compared
        if (known == null || begins || known.offered().compareTo(document.getVersion()) <= 0) {
            put(key, new Entry(namespace, document, ""));
        }
    }

    private void bookmark(String namespace, Part part, Bookmark bookmark) {
        if (bookmark.hasAge()) {
            long age = Duration.ofSeconds(bookmark.getAge().getSeconds(), bookmark.getAge().getNanos()).toNanos();
            part.completeNanos = clock.getAsLong() - age;
        }
        // An absence was kept so that no older document is offered after it.
        entries.values().removeIf(entry -> entry.namespace().equals(namespace) && entry.shown().isEmpty() && entry.offered().isEmpty());
        if (!bookmark.getSynced()) {
            return;
        }
        part.synced = true;
        Set<Key> fresh = part.fresh;
        part.fresh = null;
        if (fresh != null) {
            entries.forEach((key, entry) -> {
                if (entry.namespace().equals(namespace) && !fresh.contains(key)) {
                    remove(key);
                }
            });
        }
    }

    private void put(Key key, Entry entry) {
        Part part = parts.get(entry.namespace());
        if (part != null && part.fresh != null) {
            part.fresh.add(key);
        }
        changed(key, entries.put(key, entry), entry);
    }

    private void remove(Key key) {
        changed(key, entries.remove(key), null);
    }

    private void changed(Key key, Entry known, Entry now) {
        Optional<PolicyDocument> before = known == null ? Optional.empty() : known.shown();
        Optional<PolicyDocument> after = now == null ? Optional.empty() : now.shown();
        if (before.map(PolicyDocument::getVersion).equals(after.map(PolicyDocument::getVersion))) {
            return;
        }
        Change change = new Change(key.topic(), key.scope(), before, after);
        listeners.forEach(listener -> call(listener, change));
    }

    private static void call(Consumer<Change> listener, Change change) {
        try {
            listener.accept(change);
        } catch (Throwable error) { // of one listener: the others are called nevertheless
            Thread thread = Thread.currentThread();
            thread.getUncaughtExceptionHandler().uncaughtException(thread, error);
        }
    }
}
