package topicpolicies.client;

import java.time.Duration;
import topicpolicies.v1.ChangeOrigin;

/**
 * What a watch tells. A consumer that mirrors documents moves along on {@link Changed}, begins to note which documents are told again on
 * {@link Restarted}, and drops those that were not on {@link Synced}; {@link PolicyCache} is that consumer.
 */
public sealed interface WatchEvent {

    /**
     * There is a document, or there is none any more.
     *
     * @param namespace {@code tenant/namespace}
     * @param document the document, or its absence
     * @param previousVersion empty in what was loaded from the log
     * @param origin who changed it, as far as the log tells
     * @param snapshot whether it belongs to the snapshot before {@link Synced}; otherwise it is a change
     */
    record Changed(String namespace, Document document, String previousVersion, ChangeOrigin origin, boolean snapshot)
            implements WatchEvent {
    }

    /**
     * The namespace's snapshot is complete, or the resumed stream has caught up.
     *
     * @param namespace {@code tenant/namespace}
     * @param token the place in the namespace's log
     */
    record Synced(String namespace, WatchToken token) implements WatchEvent {
    }

    /**
     * Nothing before this place is owed any more; sent from time to time.
     *
     * @param namespace {@code tenant/namespace}
     * @param token the place in the namespace's log
     */
    record Bookmark(String namespace, WatchToken token) implements WatchEvent {
    }

    /**
     * A namespace begins again with a snapshot: what is not told again before {@link Synced} is gone.
     *
     * @param namespace {@code tenant/namespace}
     * @param reason a sentence for people
     */
    record Restarted(String namespace, String reason) implements WatchEvent {
    }

    /**
     * The service still reads the change log of a namespace, or can't read it for now and tries again.
     *
     * @param namespace {@code tenant/namespace}
     * @param failed whether it can't be read; otherwise it is being read
     * @param message a sentence for people
     * @param reason machine-readable, as in an error: {@code TOPIC_POLICIES_DISABLED}, for example; empty unless it failed
     */
    record Unavailable(String namespace, boolean failed, String message, String reason) implements WatchEvent {
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
