package topicpolicies.client;

/**
 * A change may or may not have been made: its answer was lost, or did not come in time. Repeat the same call with {@link #requestId()} to
 * learn what happened; what was done is not done twice.
 */
public final class OutcomeUnknownException extends TopicPoliciesException {
    private final String requestId;

    OutcomeUnknownException(TopicPoliciesException cause, String requestId) {
        super(cause);
        this.requestId = requestId;
    }

    /** The id of the request whose outcome is unknown. */
    public String requestId() {
        return requestId;
    }

    @Override
    public String getMessage() {
        return "It is not known whether the change was made: " + super.getMessage() + " Repeat it with request id " + requestId + " to learn it.";
    }
}
