package topicpolicies.client;

import com.google.protobuf.FieldMask;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.UpdatePolicyRequest;

/**
 * A masked change of one document. Immutable: each method gives a changed update.
 *
 * @param topic the topic, {@code persistent://tenant/namespace/topic}
 * @param policies the new values; what the mask names and is not set here is cleared
 * @param mask the paths of what changes, see {@link FieldPaths}; {@code *} alone replaces the whole document
 * @param scope in which clusters
 * @param etag the version that the document must have; empty: any
 * @param skipIfAbsent whether nothing is done when there is no document
 * @param validateOnly whether everything is checked and nothing written
 * @param requestId a UUID, so that the request can be repeated and is applied once
 */
public record Update(String topic, TopicPolicies policies, List<String> mask, Scope scope, String etag, boolean skipIfAbsent,
                     boolean validateOnly, String requestId) {

    /** Checks that there is a mask: without one the service would take the fields that are set, and nothing could be cleared. */
    public Update {
        Objects.requireNonNull(topic);
        Objects.requireNonNull(policies);
        mask = List.copyOf(mask);
        if (mask.isEmpty()) {
            throw new IllegalArgumentException("an update names at least one path in its mask");
        }
        if (requestId.isEmpty()) {
            throw new IllegalArgumentException("an update has a request id");
        }
    }

    /** A change of the LOCAL document, with a new request id. */
    public static Update of(String topic, TopicPolicies policies, String... mask) {
        return of(topic, policies, List.of(mask));
    }

    /** A change of the LOCAL document, with a new request id. */
    public static Update of(String topic, TopicPolicies policies, List<String> mask) {
        return new Update(topic, policies, mask, Scope.LOCAL, "", false, false, UUID.randomUUID().toString());
    }

    /** In another scope. */
    public Update in(Scope value) {
        return new Update(topic, policies, mask, value, etag, skipIfAbsent, validateOnly, requestId);
    }

    /** Only if the document has this version. */
    public Update ifVersion(String value) {
        return new Update(topic, policies, mask, scope, value, skipIfAbsent, validateOnly, requestId);
    }

    /** Only if there is a document. */
    public Update ifPresent() {
        return new Update(topic, policies, mask, scope, etag, true, validateOnly, requestId);
    }

    /** Checked only, not written. */
    public Update dryRun() {
        return new Update(topic, policies, mask, scope, etag, skipIfAbsent, true, requestId);
    }

    /** As a repeat of an earlier request. */
    public Update withRequestId(String value) {
        return new Update(topic, policies, mask, scope, etag, skipIfAbsent, validateOnly, value);
    }

    UpdatePolicyRequest message() {
        return UpdatePolicyRequest.newBuilder().setTopic(topic).setScope(scope.message()).setPolicies(policies)
                .setUpdateMask(FieldMask.newBuilder().addAllPaths(mask)).setEtag(etag).setSkipIfAbsent(skipIfAbsent)
                .setValidateOnly(validateOnly).setRequestId(requestId).build();
    }
}
