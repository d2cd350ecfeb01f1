package topicpolicies.client;

/**
 * It is not known whether a change was made: its answer was lost, or did not arrive in time. To learn the outcome, repeat the same call
 * with {@link #requestId()}; a change that was made is not made again.
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
        String why = super.getMessage();
        if (!why.endsWith(".") && !why.endsWith("!") && !why.endsWith("?")) {
            why += "."; // gRPC's own messages have no full stop
        }
        return "It is not known whether the change was made: " + why + " Repeat it with request id " + requestId + " to learn it.";
    }
}
