package topicpolicies.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import topicpolicies.v1.NamespaceState;

/**
 * The state of a cache, without I/O: the documents, and for each namespace whether it is complete, its staleness and its state.
 * docs/watch.md has the rules. Not thread-safe.
 */
final class CacheState {
    record Key(String topic, Scope scope) {
    }

    /** Is called with each document that has changed; at least one of before and after exists. */
    interface Teller {
        void changed(Key key, Optional<Document> before, Optional<Document> after);
    }

    /** A document, and whether it came from the watch; otherwise it was offered. */
    private record Entry(String namespace, Document document, boolean watched) {
        Optional<Document> shown() {
            return Optional.of(document).filter(Document::exists);
        }
    }

    private static final class Part {
        private boolean synced;
        /** The keys that were sent or offered since the namespace started over; null outside a snapshot. */
        private Set<Key> fresh = new HashSet<>();
        /** When the copy was last confirmed to be complete, by the client's own clock. */
        private long confirmedNanos;
        private WatchEvent.Status status;
    }

    private final Teller teller;
    private final Map<Key, Entry> entries = new HashMap<>();
    private final Map<String, Part> parts = new LinkedHashMap<>();

    CacheState(Set<String> namespaces, Teller teller) {
        this.teller = teller;
        namespaces.forEach(this::part);
    }

    /** A document, or an absence whose version is known. */
    Optional<Document> known(Key key) {
        return Optional.ofNullable(entries.get(key)).map(Entry::document);
    }

    Collection<Document> documents() {
        return entries.values().stream().flatMap(entry -> entry.shown().stream()).toList();
    }

    /** The namespaces whose first snapshot is complete. */
    Set<String> synced() {
        Set<String> names = new HashSet<>();
        parts.forEach((name, part) -> {
            if (part.synced) {
                names.add(name);
            }
        });
        return names;
    }

    boolean isComplete() {
        return parts.values().stream().allMatch(part -> part.synced);
    }

    /** The state of a namespace; READY if the service reported none. */
    WatchEvent.Status status(String namespace) {
        Part part = parts.get(namespace);
        return part != null && part.status != null ? part.status
                : new WatchEvent.Status(namespace, NamespaceState.NAMESPACE_STATE_READY, "", "");
    }

    /** How long ago the copy of a namespace was confirmed to be complete; empty if it never was. */
    Optional<Duration> staleness(String namespace, long nowNanos) {
        Part part = parts.get(namespace);
        return part == null || !part.synced ? Optional.empty() : Optional.of(Duration.ofNanos(nowNanos - part.confirmedNanos));
    }

    /** How long ago the copy of the stalest namespace was confirmed to be complete; empty if one never was. */
    Optional<Duration> staleness(long nowNanos) {
        Duration most = Duration.ZERO;
        for (String namespace : parts.keySet()) {
            Optional<Duration> own = staleness(namespace, nowNanos);
            if (own.isEmpty()) {
                return own;
            }
            most = most.compareTo(own.get()) < 0 ? own.get() : most;
        }
        return Optional.of(most);
    }

    void take(WatchEvent event, long nowNanos) {
        if (event instanceof WatchEvent.Changed changed) {
            changed(changed);
        } else if (event instanceof WatchEvent.Reset reset) {
            part(reset.namespace()).fresh = new HashSet<>();
        } else if (event instanceof WatchEvent.Status status) {
            part(status.namespace()).status = status;
        } else if (event instanceof WatchEvent.Bookmark bookmark) {
            part(bookmark.namespace()).confirmedNanos = nowNanos - bookmark.lag().toNanos();
            forget(bookmark.namespace());
        } else if (event instanceof WatchEvent.Synced synced) {
            Part part = part(synced.namespace());
            part.confirmedNanos = nowNanos - synced.lag().toNanos();
            part.synced = true;
            drop(synced.namespace(), part);
        }
    }

    /** The stream broke. The next one reports all states that are not READY. */
    void interrupted() {
        parts.values().forEach(part -> part.status = null);
    }

    /** Stores a document from an answer, if it is newer than the stored one. */
    void offer(Document document) {
        Key key = new Key(document.topic(), document.scope());
        Entry known = entries.get(key);
        if (known == null || document.newerThan(known.document())) {
            put(key, new Entry(TopicNames.namespaceOf(document.topic()), document, false));
        }
    }

    /** Removes a document, whatever its version. */
    void remove(Key key) {
        Entry removed = entries.remove(key);
        if (removed != null && removed.shown().isPresent()) {
            teller.changed(key, removed.shown(), Optional.empty());
        }
    }

    private Part part(String namespace) {
        return parts.computeIfAbsent(namespace, name -> new Part());
    }

    private void changed(WatchEvent.Changed changed) {
        Document document = changed.document();
        Key key = new Key(document.topic(), document.scope());
        Entry known = entries.get(key);
        Part part = part(changed.namespace());
        // A namespace may start over in another log, whose versions can't be compared with the stored ones.
        boolean startsOver = part.fresh != null && !part.fresh.contains(key);
        if (known == null || startsOver || document.newerThan(known.document()) || document.version().equals(known.document().version())) {
            put(key, new Entry(changed.namespace(), document, true));
        }
    }

    private void put(Key key, Entry entry) {
        Entry known = entries.put(key, entry);
        Part part = parts.get(entry.namespace());
        if (part != null && part.fresh != null) {
            part.fresh.add(key);
        }
        Optional<Document> before = known == null ? Optional.empty() : known.shown();
        if (!before.equals(entry.shown())) {
            teller.changed(key, before, entry.shown());
        }
    }

    /** The snapshot of a namespace is complete: removes the documents that it did not have. */
    private void drop(String namespace, Part part) {
        Set<Key> fresh = part.fresh;
        part.fresh = null;
        if (fresh == null) {
            return;
        }
        List<Key> removed = new ArrayList<>();
        entries.forEach((key, entry) -> {
            if (entry.namespace().equals(namespace) && !fresh.contains(key)) {
                removed.add(key);
            }
        });
        removed.forEach(this::remove);
    }

    /** Handles a bookmark: no older event can follow, so absences that came from the watch need not be kept. */
    private void forget(String namespace) {
        entries.values().removeIf(entry -> entry.watched() && !entry.document().exists() && entry.namespace().equals(namespace));
    }
}
