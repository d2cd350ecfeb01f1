package topicpolicies.client;

/** A change may have happened, or may yet happen. The same request with the same {@link #requestId} returns its result. */
public final class OutcomeUnknownException extends TopicPoliciesException {
    private final String requestId;

    OutcomeUnknownException(TopicPoliciesException other, String requestId) {
        super(other);
        this.requestId = requestId;
    }

    /** The id of the request. */
    public String requestId() {
        return requestId;
    }
}
