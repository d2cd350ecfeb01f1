package topicpolicies.client;

import java.util.Optional;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.UpdateOutcome;
import topicpolicies.v1.UpdatePolicyResponse;

/**
 * What became of an update.
 *
 * @param document the document after it. A repeat whose document is no longer known has no policies here
 * @param previousVersion the version that it was applied to
 * @param outcome APPLIED, UNCHANGED or SKIPPED
 * @param repeated whether this is the answer to an earlier request of the same id, given again
 * @param attempts how often it was tried until nobody else was faster; 1 but for edits
 */
public record UpdateResult(Document document, String previousVersion, UpdateOutcome outcome, boolean repeated, int attempts) {

    static UpdateResult of(UpdatePolicyResponse answer, int attempts) {
        Optional<TopicPolicies> policies = answer.hasPolicies() ? Optional.of(answer.getPolicies()) : Optional.empty();
        Document document = new Document(answer.getTopic(), Scope.of(answer.getScope()), policies, answer.getVersion());
        return new UpdateResult(document, answer.getPreviousVersion(), answer.getOutcome(), answer.getRepeated(), attempts);
    }

    /** The result of an edit that sent nothing. */
    static UpdateResult nothing(Document document, UpdateOutcome outcome, int attempts) {
        return new UpdateResult(document, document.version(), outcome, false, attempts);
    }
}
