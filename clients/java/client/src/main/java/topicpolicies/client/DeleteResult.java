package topicpolicies.client;

import java.util.Optional;
import topicpolicies.v1.DeleteOutcome;
import topicpolicies.v1.DeletePolicyResponse;

/**
 * What became of a deletion.
 *
 * @param document the absence after it, with its version; of a dry run with the present version. Empty only if this answers a repeat whose
 *     absence a newer change has ended
 * @param version the absence's version
 * @param previousVersion the version that was deleted
 * @param previous the document that was deleted; empty if that was not asked for, or is not known any more
 * @param outcome what became of it
 * @param requestId the request's id, as 32 hexadecimal digits
 * @param replayed whether this is the answer to an earlier request of the same id, given again
 */
public record DeleteResult(Optional<Document> document, String version, String previousVersion, Optional<Document> previous,
                           DeleteOutcome outcome, String requestId, boolean replayed) {

    static DeleteResult of(DeletePolicyResponse answer) {
        return new DeleteResult(answer.hasDocument() ? Document.of(answer.getDocument()) : Optional.empty(), answer.getVersion(),
                answer.getPreviousVersion(), answer.hasPrevious() ? Document.of(answer.getPrevious()) : Optional.empty(),
                answer.getOutcome(), answer.getRequestId(), answer.getReplayed());
    }
}
