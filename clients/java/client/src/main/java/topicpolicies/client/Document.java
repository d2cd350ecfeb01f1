package topicpolicies.client;

import java.time.Instant;
import java.util.Optional;
import topicpolicies.v1.PolicyDocument;
import topicpolicies.v1.TopicPolicies;

/**
 * All topic policies of one topic in one scope, or the knowledge that there are none.
 *
 * @param topic the topic's full name
 * @param scope the scope
 * @param policies the policies; empty if there is no document
 * @param version the version, which is also the etag. An absent document has a version too. For one topic and scope, string order is log
 *     order
 * @param disabled whether topic policies are disabled for this topic: if so, its documents are not returned
 * @param unconfirmedSince set on the answer to a read that the server could not confirm: the time since which it can't reach the change
 *     log, so that there may be a newer document; otherwise empty
 */
public record Document(String topic, Scope scope, Optional<TopicPolicies> policies, String version, boolean disabled,
                       Optional<Instant> unconfirmedSince) {

    /** Creates a document that is not the answer to a read. */
    public Document(String topic, Scope scope, Optional<TopicPolicies> policies, String version, boolean disabled) {
        this(topic, scope, policies, version, disabled, Optional.empty());
    }

    /** Converts a message; empty if its scope is unknown to this client. */
    static Optional<Document> of(PolicyDocument message) {
        return of(message, Optional.empty());
    }

    /** Converts the message of an answer to a read; empty if its scope is unknown to this client. */
    static Optional<Document> of(PolicyDocument message, Optional<Instant> unconfirmedSince) {
        return Scope.of(message.getScope()).map(scope -> new Document(message.getTopic(), scope,
                message.hasPolicies() ? Optional.of(message.getPolicies()) : Optional.empty(), message.getVersion(),
                message.getDisabled(), unconfirmedSince));
    }

    /** Whether there is a document. */
    public boolean exists() {
        return policies.isPresent();
    }

    /** The policies; for an absent document, a message with nothing set. */
    public TopicPolicies policiesOrDefault() {
        return policies.orElseGet(TopicPolicies::getDefaultInstance);
    }

    /** Whether this document is newer than another one of the same topic and scope. */
    boolean newerThan(Document other) {
        return LogOrder.isAfter(version, other.version);
    }
}
