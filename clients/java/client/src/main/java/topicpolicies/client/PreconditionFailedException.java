package topicpolicies.client;

/** The document is not as the change's precondition requires. Nothing was changed. */
public final class PreconditionFailedException extends TopicPoliciesException {
    PreconditionFailedException(TopicPoliciesException other) {
        super(other);
    }

    /** The version that the document, or its absence, has. */
    public String version() {
        return metadata().getOrDefault("version", "");
    }
}
