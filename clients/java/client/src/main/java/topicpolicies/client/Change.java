package topicpolicies.client;

import java.time.Duration;
import java.util.Optional;
import java.util.UUID;
import topicpolicies.v1.PolicyChangeRequest;

/** A change of one document, as {@link TopicPoliciesClient#updateMany} takes it: an update or a deletion. */
public sealed interface Change permits Update, Delete {
    /** The topic, as it was given. */
    String topic();

    /** In which clusters. */
    Scope scope();

    /** A UUID, so that the request can be repeated and is applied once. */
    String requestId();

    /** How long it may take in all, its repeats included; empty: as long as the client's calls. */
    Optional<Duration> timeout();

    /** As one of a batch. */
    PolicyChangeRequest.Builder inBatch();

    /** A new request id, as the service writes them. */
    static String newRequestId() {
        return UUID.randomUUID().toString().replace("-", "");
    }
}
