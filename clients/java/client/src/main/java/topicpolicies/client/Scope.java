package topicpolicies.client;

import java.util.Collection;
import java.util.List;
import java.util.Optional;

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

    /** The scopes as a request takes them: each once, in their order. */
    static List<topicpolicies.v1.Scope> messages(Collection<Scope> scopes) {
        return scopes.stream().distinct().sorted().map(Scope::message).toList();
    }

    /** Converts the scope of an answer; empty if it is one of a newer service. Documents of such a scope are ignored. */
    static Optional<Scope> of(topicpolicies.v1.Scope message) {
        return switch (message) {
            case SCOPE_LOCAL -> Optional.of(LOCAL);
            case SCOPE_GLOBAL -> Optional.of(GLOBAL);
            default -> Optional.empty();
        };
    }
}
