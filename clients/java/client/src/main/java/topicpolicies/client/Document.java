package topicpolicies.client;

import java.time.Instant;
import java.util.Optional;
import topicpolicies.v1.PolicyDocument;
import topicpolicies.v1.TopicPolicies;

/**
 * All topic policies of one topic in one scope, or the knowledge that there are none.
 *
 * @param topic the topic's full name
 * @param scope in which clusters it holds
 * @param policies the policies; empty if there is no document
 * @param version which event produced it; its etag. An absent document has a version too. Of one topic and scope, string order is log order
 * @param disabled whether topic policies are disabled for this topic: its documents are not told of then
 * @param unconfirmedSince of what was read, since when the server can't reach the change log, so that there may be a newer document; empty:
 *     it can, or this is no answer to a read
 */
public record Document(String topic, Scope scope, Optional<TopicPolicies> policies, String version, boolean disabled,
                       Optional<Instant> unconfirmedSince) {

    /** A document that is no answer to a read. */
    public Document(String topic, Scope scope, Optional<TopicPolicies> policies, String version, boolean disabled) {
        this(topic, scope, policies, version, disabled, Optional.empty());
    }

    /** From a message; empty if its scope is not known here. */
    static Optional<Document> of(PolicyDocument message) {
        return of(message, Optional.empty());
    }

    /** From the answer to a read; empty if its scope is not known here. */
    static Optional<Document> of(PolicyDocument message, Optional<Instant> unconfirmedSince) {
        return Scope.of(message.getScope()).map(scope -> new Document(message.getTopic(), scope,
                message.hasPolicies() ? Optional.of(message.getPolicies()) : Optional.empty(), message.getVersion(),
                message.getDisabled(), unconfirmedSince));
    }

    /** Whether there is a document. */
    public boolean exists() {
        return policies.isPresent();
    }

    /** The policies; of an absent document, none set. */
    public TopicPolicies policiesOrDefault() {
        return policies.orElseGet(TopicPolicies::getDefaultInstance);
    }

    /** Whether another document of the same topic and scope is older than this one. */
    boolean newerThan(Document other) {
        return LogOrder.isAfter(version, other.version);
    }
}
