package topicpolicies.client;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Where a watch stands in each namespace, without I/O; docs/watch.md has the rules. Not thread-safe. */
final class Places {
    private final Map<String, String> tokens;
    /** The namespaces of which something came that no token covers. */
    private final Set<String> uncovered = new HashSet<>();

    Places(Map<String, String> resumeTokens) {
        tokens = new HashMap<>(resumeTokens);
    }

    /** The last token of each namespace; those without one begin with a snapshot. */
    Map<String, String> tokens() {
        return Map.copyOf(tokens);
    }

    /** An event came; {@code token} is empty if it has none. */
    void received(String namespace, String token, boolean reset) {
        if (reset) {
            tokens.remove(namespace);
            uncovered.remove(namespace);
        } else if (!token.isEmpty()) {
            tokens.put(namespace, token);
        } else if (!tokens.containsKey(namespace)) {
            uncovered.add(namespace);
        }
    }

    /** A new stream is opened from {@link #tokens}. Returns the namespaces whose events so far are void, because they begin again. */
    List<String> connect() {
        List<String> again = uncovered.stream().filter(namespace -> !tokens.containsKey(namespace)).sorted().toList();
        uncovered.clear();
        return again;
    }
}
