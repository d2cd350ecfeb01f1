package topicpolicies.client;

import java.util.Optional;
import topicpolicies.v1.UpdateOutcome;
import topicpolicies.v1.UpdatePolicyResponse;

/**
 * The result of an update.
 *
 * @param document the document after the change; for a dry run, the document as it would be, with the present version. Empty only in the
 *     answer to a repeat, if later changes have replaced the document
 * @param version the document's version, to be used as an etag
 * @param previousVersion the version that the change was applied to
 * @param previous the document that the change was applied to; empty if it was not requested, or is no longer known
 * @param outcome what the update did
 * @param requestId the id of the request, 32 hexadecimal digits; an empty string if an edit found nothing to send
 * @param replayed whether this is the answer to an earlier request with the same id, returned again
 * @param attempts how many times an edit ran until no other writer was faster; 1 for other updates
 */
public record UpdateResult(Optional<Document> document, String version, String previousVersion, Optional<Document> previous,
                           UpdateOutcome outcome, String requestId, boolean replayed, int attempts) {

    static UpdateResult of(UpdatePolicyResponse answer) {
        return new UpdateResult(answer.hasDocument() ? Document.of(answer.getDocument()) : Optional.empty(), answer.getVersion(),
                answer.getPreviousVersion(), answer.hasPrevious() ? Document.of(answer.getPrevious()) : Optional.empty(),
                answer.getOutcome(), answer.getRequestId(), answer.getReplayed(), 1);
    }

    /** Creates the result of an edit that sent nothing; {@code withPrevious} says whether the previous document was requested. */
    static UpdateResult nothing(Document document, UpdateOutcome outcome, boolean withPrevious) {
        Optional<Document> found = Optional.of(document);
        Optional<Document> previous = withPrevious ? found : Optional.empty();
        return new UpdateResult(found, document.version(), document.version(), previous, outcome, "", false, 1);
    }

    UpdateResult afterAttempts(int value) {
        return new UpdateResult(document, version, previousVersion, previous, outcome, requestId, replayed, value);
    }
}
