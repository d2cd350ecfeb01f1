package topicpolicies.client;

/** Which events a watch sends. */
public enum WatchMode {
    /** Only the newest state of each document: a change that a newer one supersedes may be left out, so a slow reader costs nothing. */
    LATEST(topicpolicies.v1.WatchMode.WATCH_MODE_LATEST),
    /** Every change, in the log's order. A reader that falls behind is served from the history. */
    EVERY(topicpolicies.v1.WatchMode.WATCH_MODE_EVERY),
    /** Every event of the log as the history records it, also those that changed nothing: to copy the history. */
    ENTRIES(topicpolicies.v1.WatchMode.WATCH_MODE_ENTRIES);

    private final topicpolicies.v1.WatchMode message;

    WatchMode(topicpolicies.v1.WatchMode message) {
        this.message = message;
    }

    topicpolicies.v1.WatchMode message() {
        return message;
    }
}
