package topicpolicies.client;

import java.util.Optional;
import topicpolicies.v1.DeleteOutcome;
import topicpolicies.v1.DeletePolicyResponse;

/**
 * The result of a deletion.
 *
 * @param document the absent document, with the version after the deletion; for a dry run, with the present version. Empty only in the
 *     answer to a repeat, if a document was created since
 * @param version the version after the deletion
 * @param previousVersion the version that was deleted
 * @param previous the document that was deleted; empty if it was not requested, or is no longer known
 * @param outcome what the deletion did
 * @param requestId the id of the request, 32 hexadecimal digits
 * @param replayed whether this is the answer to an earlier request with the same id, returned again
 */
public record DeleteResult(Optional<Document> document, String version, String previousVersion, Optional<Document> previous,
                           DeleteOutcome outcome, String requestId, boolean replayed) {

    static DeleteResult of(DeletePolicyResponse answer) {
        return new DeleteResult(answer.hasDocument() ? Document.of(answer.getDocument()) : Optional.empty(), answer.getVersion(),
                answer.getPreviousVersion(), answer.hasPrevious() ? Document.of(answer.getPrevious()) : Optional.empty(),
                answer.getOutcome(), answer.getRequestId(), answer.getReplayed());
    }
}
