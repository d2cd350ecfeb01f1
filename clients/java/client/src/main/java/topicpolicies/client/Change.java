package topicpolicies.client;

import java.time.Duration;
import java.util.Optional;
import java.util.UUID;
import topicpolicies.v1.PolicyChangeRequest;

/** A change of one document, an update or a deletion; see {@link TopicPoliciesClient#updateMany}. */
public sealed interface Change permits Update, Delete {
    /** The topic, as it was given. */
    String topic();

    /** The scope of the document. */
    Scope scope();

    /** A UUID, with which the request can be repeated and is applied only once. */
    String requestId();

    /** How long the change may take in all, retries included; empty: the client's timeout. */
    Optional<Duration> timeout();

    /** The change as one of a batch. */
    PolicyChangeRequest.Builder inBatch();

    /** Returns a new request id, in the form in which the service writes ids. */
    static String newRequestId() {
        return UUID.randomUUID().toString().replace("-", "");
    }
}
