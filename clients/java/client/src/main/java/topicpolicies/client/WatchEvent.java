package topicpolicies.client;

import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import topicpolicies.v1.ChangeOrigin;
import topicpolicies.v1.HistoryEntry;
import topicpolicies.v1.HistoryGap;
import topicpolicies.v1.NamespaceState;

/**
 * An event of a watch. A consumer that mirrors documents updates its copy on {@link Changed}; on {@link Reset}, and at the start, it begins
 * to record which documents are sent; on {@link Synced} it removes those that were not. {@link PolicyCache} is such a consumer.
 */
public sealed interface WatchEvent {

    /**
     * A document of a snapshot, or one that was created, changed or deleted.
     *
     * @param namespace {@code tenant/namespace}
     * @param document the document, or its absence
     * @param previousVersion the version before this one; empty in a snapshot, and if it is not known
     * @param previous the document before the change; empty if it was not requested, or is not known
     * @param origin who made the change, and how, as far as the log records it
     * @param snapshot whether the event belongs to the snapshot before {@link Synced}; otherwise it is a change
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
     * The snapshot of a namespace is complete, or a resumed watch has caught up with the namespace.
     *
     * @param namespace {@code tenant/namespace}
     * @param token the place in the namespace's log
     * @param confirmedTime the time, by the server's clock, up to which every change has been sent
     * @param lag how far {@code confirmedTime} lies behind the newest confirmed time that the stream has sent for any namespace
     */
    record Synced(String namespace, WatchToken token, Instant confirmedTime, Duration lag) implements WatchEvent {
    }

    /**
     * Every change up to {@code token} has been sent; bookmarks come from time to time.
     *
     * @param namespace {@code tenant/namespace}
     * @param token the place in the namespace's log
     * @param confirmedTime the time, by the server's clock, up to which every change has been sent
     * @param lag how far {@code confirmedTime} lies behind the newest confirmed time that the stream has sent for any namespace
     */
    record Bookmark(String namespace, WatchToken token, Instant confirmedTime, Duration lag) implements WatchEvent {
    }

    /**
     * The state of a namespace has changed.
     *
     * @param namespace {@code tenant/namespace}
     * @param state whether the namespace is followed, so that its documents are up to date
     * @param reason why, machine-readable, as in an error, for example {@code TOPIC_POLICIES_DISABLED}; empty if the namespace is ready
     * @param message a human-readable description
     */
    record Status(String namespace, NamespaceState state, String reason, String message) implements WatchEvent {
    }

    /**
     * A namespace starts over: documents that are not sent again before {@link Synced} no longer exist.
     *
     * @param namespace {@code tenant/namespace}
     * @param reason why, machine-readable, as in an error; empty if the client itself starts the namespace over, for example because the
     *     stream broke within a snapshot
     * @param message a human-readable description
     */
    record Reset(String namespace, String reason, String message) implements WatchEvent {
    }

    /**
     * The history may lack events here, before those that follow.
     *
     * @param namespace {@code tenant/namespace}
     * @param gap the period, and why
     */
    record Gap(String namespace, HistoryGap gap) implements WatchEvent {
    }

    /**
     * The stream broke. The watch connects again by itself and resumes where it was.
     *
     * @param error why
     * @param attempt how many attempts in a row have failed, counted from 1
     * @param pause how long the watch waits before it connects again
     */
    record Interrupted(TopicPoliciesException error, int attempt, Duration pause) implements WatchEvent {
    }
}
