package topicpolicies.client;

/** The document is not at the version that the etag demanded (ABORTED). Read it again and decide anew. */
public final class ConflictException extends TopicPoliciesException {
    ConflictException(TopicPoliciesException cause) {
        super(cause);
    }

    /** The version that the document has, as far as the service said; otherwise empty. */
    public String version() {
        return metadata().getOrDefault("version", "");
    }
}
