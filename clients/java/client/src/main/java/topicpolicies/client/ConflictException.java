package topicpolicies.client;

/**
 * The document is not as the change requires: its version is not the etag (ABORTED), or it exists although {@code mustNotExist} is set
 * (ALREADY_EXISTS). Nothing was changed: read the document again and decide again.
 */
public final class ConflictException extends TopicPoliciesException {
    ConflictException(TopicPoliciesException cause) {
        super(cause);
    }

    /** The version of the document, if the service named it; otherwise empty. */
    public String version() {
        return metadata().getOrDefault("version", "");
    }
}
