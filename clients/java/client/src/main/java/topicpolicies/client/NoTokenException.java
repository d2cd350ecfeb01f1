package topicpolicies.client;

/** The supplier of tokens threw something, so that a call was not sent. */
final class NoTokenException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    NoTokenException(Throwable cause) {
        super("There is no token: " + cause.getMessage(), cause);
    }

    /** Whether a call failed because there was no token for it. */
    static boolean isBehind(TopicPoliciesException error) {
        for (Throwable each = error; each != null; each = each.getCause()) {
            if (each instanceof NoTokenException) {
                return true;
            }
        }
        return false;
    }
}
