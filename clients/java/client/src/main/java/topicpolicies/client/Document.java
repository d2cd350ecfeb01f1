package topicpolicies.client;

import java.util.Optional;
import topicpolicies.v1.GetPolicyResponse;
import topicpolicies.v1.TopicPolicies;

/**
 * All topic policies of one topic in one scope, or the knowledge that there are none.
 *
 * @param topic the topic's full name
 * @param scope in which clusters it holds
 * @param policies the policies; empty if there is no document
 * @param version which event produced it; its etag. An absent document has a version too. Of one topic and scope, string order is log order
 */
public record Document(String topic, Scope scope, Optional<TopicPolicies> policies, String version) {

    static Document of(GetPolicyResponse answer) {
        Optional<TopicPolicies> policies = answer.getExists() ? Optional.of(answer.getPolicies()) : Optional.empty();
        return new Document(answer.getTopic(), Scope.of(answer.getScope()), policies, answer.getVersion());
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
        return version.compareTo(other.version) > 0;
    }
}
