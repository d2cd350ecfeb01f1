package topicpolicies.client;

import java.util.Optional;
import topicpolicies.v1.DeleteOutcome;
import topicpolicies.v1.ScopedDeleteResult;

/**
 * What became of the deletion of one scope's document.
 *
 * @param document the absence, with its version
 * @param previousVersion the version that was deleted
 * @param outcome DELETED or ABSENT; unspecified if it failed
 * @param error why it failed; empty if it did not. The other scopes are not concerned
 */
public record DeleteResult(Document document, String previousVersion, DeleteOutcome outcome, Optional<TopicPoliciesException> error) {

    static DeleteResult of(String topic, ScopedDeleteResult result) {
        Document document = new Document(topic, Scope.of(result.getScope()), Optional.empty(), result.getVersion());
        Optional<TopicPoliciesException> error =
                result.hasError() ? Optional.of(TopicPoliciesException.of(result.getError())) : Optional.empty();
        return new DeleteResult(document, result.getPreviousVersion(), result.getOutcome(), error);
    }
}
