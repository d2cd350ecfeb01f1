package topicpolicies.client;

/** In which clusters a document holds. */
public enum Scope {
    /** This cluster. */
    LOCAL(topicpolicies.v1.Scope.SCOPE_LOCAL),
    /** Every cluster that the namespace is replicated to. */
    GLOBAL(topicpolicies.v1.Scope.SCOPE_GLOBAL);

    private final topicpolicies.v1.Scope message;

    Scope(topicpolicies.v1.Scope message) {
        this.message = message;
    }

    topicpolicies.v1.Scope message() {
        return message;
    }

    /** The scope of a message; what is not said means LOCAL. */
    static Scope of(topicpolicies.v1.Scope message) {
        return message == topicpolicies.v1.Scope.SCOPE_GLOBAL ? GLOBAL : LOCAL;
    }
}
