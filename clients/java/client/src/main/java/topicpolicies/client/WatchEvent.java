package topicpolicies.client;

import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import topicpolicies.v1.ChangeOrigin;
import topicpolicies.v1.HistoryEntry;
import topicpolicies.v1.HistoryGap;
import topicpolicies.v1.NamespaceState;

/**
 * What a watch tells. A consumer that mirrors documents moves along on {@link Changed}, begins to note which documents are told again on
 * {@link Reset}, and drops those that were not on {@link Synced}; {@link PolicyCache} is that consumer.
 */
public sealed interface WatchEvent {

    /**
     * There is a document, or there is none any more.
     *
     * @param namespace {@code tenant/namespace}
     * @param document the document, or its absence
     * @param previousVersion empty in a snapshot, and where it is not known
     * @param previous the document before; empty if it was not asked for, or is not known
     * @param origin who changed it, as far as the log tells
     * @param snapshot whether it belongs to the snapshot before {@link Synced}; otherwise it is a change
     */
    record Changed(String namespace, Document document, String previousVersion, Optional<Document> previous, ChangeOrigin origin,
                   boolean snapshot) implements WatchEvent {
    }

    /**
     * An event of the log, in the mode {@link WatchMode#ENTRIES}.
     *
     * @param namespace {@code tenant/namespace}
     * @param entry the event, as the history records it
     */
    record Entry(String namespace, HistoryEntry entry) implements WatchEvent {
    }

    /**
     * The namespace's snapshot is complete, or the watch has caught up.
     *
     * @param namespace {@code tenant/namespace}
     * @param token the place in the namespace's log
     * @param confirmedTime as of when everything has been told, by the server's clock
     * @param lag how far that lies behind what the stream has told of the freshest namespace
     */
    record Synced(String namespace, WatchToken token, Instant confirmedTime, Duration lag) implements WatchEvent {
    }

    /**
     * Nothing before this place is owed any more; sent from time to time.
     *
     * @param namespace {@code tenant/namespace}
     * @param token the place in the namespace's log
     * @param confirmedTime as of when everything has been told, by the server's clock
     * @param lag how far that lies behind what the stream has told of the freshest namespace
     */
    record Bookmark(String namespace, WatchToken token, Instant confirmedTime, Duration lag) implements WatchEvent {
    }

    /**
     * The namespace's state has changed.
     *
     * @param namespace {@code tenant/namespace}
     * @param state whether what is told of it is the newest
     * @param reason why, machine-readable, as in an error: {@code TOPIC_POLICIES_DISABLED}, for example; empty if it is ready
     * @param message a sentence for people
     */
    record Status(String namespace, NamespaceState state, String reason, String message) implements WatchEvent {
    }

    /**
     * A namespace begins anew: what was told of it counts no more, and what is not told again before {@link Synced} is gone.
     *
     * @param namespace {@code tenant/namespace}
     * @param reason why, machine-readable, as in an error; empty if it is for the client's own reasons, such as a stream that broke in a
     *     snapshot
     * @param message a sentence for people
     */
    record Reset(String namespace, String reason, String message) implements WatchEvent {
    }

    /**
     * Events may be missing from the history here, before what follows.
     *
     * @param namespace {@code tenant/namespace}
     * @param gap when, and why
     */
    record Gap(String namespace, HistoryGap gap) implements WatchEvent {
    }

    /**
     * The stream broke; the watch tries again by itself, from where it was.
     *
     * @param error why
     * @param attempt how many times in a row, counted from 1
     * @param pause how long it waits before it tries again
     */
    record Interrupted(TopicPoliciesException error, int attempt, Duration pause) implements WatchEvent {
    }
}
