package topicpolicies.client;

/** What a watch tells. */
public enum WatchMode {
    /** Per document only the newest state: what a newer change supersedes may be left out, so that a slow reader costs nothing. */
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
