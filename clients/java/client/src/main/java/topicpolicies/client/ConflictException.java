package topicpolicies.client;

/**
 * The document is not as the change demands: at another version than the etag (ABORTED), or there, although there must be none
 * (ALREADY_EXISTS). Nothing was changed: read it again and decide anew.
 */
public final class ConflictException extends TopicPoliciesException {
    ConflictException(TopicPoliciesException cause) {
        super(cause);
    }

    /** The version that the document has, as far as the service said; otherwise empty. */
    public String version() {
        return metadata().getOrDefault("version", "");
    }
}
