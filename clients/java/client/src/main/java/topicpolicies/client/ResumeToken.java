package topicpolicies.client;

import com.google.protobuf.InvalidProtocolBufferException;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import topicpolicies.v1.WatchPoliciesRequest;

/**
 * Where a watch is in each of its namespaces. A namespace that is missing begins with a snapshot.
 *
 * @param namespaces by {@code tenant/namespace}
 */
public record ResumeToken(Map<String, WatchToken> namespaces) {
    /** Nowhere yet. */
    public static final ResumeToken NONE = new ResumeToken(Map.of());

    /** Copies the places. */
    public ResumeToken {
        namespaces = Map.copyOf(namespaces);
    }

    /** As one word, to be kept and given to {@link #parse}. */
    public String format() {
        WatchPoliciesRequest.Builder places = WatchPoliciesRequest.newBuilder();
        namespaces.forEach((name, token) -> places.putResume(name, token.message()));
        return Base64.getUrlEncoder().withoutPadding().encodeToString(places.build().toByteArray());
    }

    /** From what {@link #format} gave; IllegalArgumentException if it is something else. */
    public static ResumeToken parse(String text) {
        try {
            Map<String, WatchToken> places = new HashMap<>();
            WatchPoliciesRequest.parseFrom(Base64.getUrlDecoder().decode(text)).getResumeMap()
                    .forEach((name, token) -> places.put(name, WatchToken.of(token)));
            return new ResumeToken(places);
        } catch (InvalidProtocolBufferException | IllegalArgumentException error) {
            throw new IllegalArgumentException("This is not a saved watch token. Begin without one: the watch starts with a snapshot.", error);
        }
    }
}
