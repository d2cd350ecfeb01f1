package topicpolicies.client;

import java.util.Optional;
import topicpolicies.v1.UpdateOutcome;
import topicpolicies.v1.UpdatePolicyResponse;

/**
 * What became of an update.
 *
 * @param document the document after it; of a dry run the one that it would be, with the present version. Empty only if this answers a
 *     repeat whose document a newer change has replaced
 * @param version the document's version, to be used as an etag
 * @param previousVersion the version that it was applied to
 * @param previous the document that it was applied to; empty if that was not asked for, or is not known any more
 * @param outcome what became of it
 * @param requestId the request's id, as 32 hexadecimal digits; empty text if an edit found nothing to send
 * @param replayed whether this is the answer to an earlier request of the same id, given again
 * @param attempts how often it was tried until nobody else was faster; 1 but for edits
 */
public record UpdateResult(Optional<Document> document, String version, String previousVersion, Optional<Document> previous,
                           UpdateOutcome outcome, String requestId, boolean replayed, int attempts) {

    static UpdateResult of(UpdatePolicyResponse answer) {
        return new UpdateResult(answer.hasDocument() ? Document.of(answer.getDocument()) : Optional.empty(), answer.getVersion(),
                answer.getPreviousVersion(), answer.hasPrevious() ? Document.of(answer.getPrevious()) : Optional.empty(),
                answer.getOutcome(), answer.getRequestId(), answer.getReplayed(), 1);
    }

    /** The result of an edit that sent nothing. */
    static UpdateResult nothing(Document document, UpdateOutcome outcome) {
        return new UpdateResult(Optional.of(document), document.version(), document.version(), Optional.empty(), outcome, "", false, 1);
    }

    UpdateResult afterAttempts(int value) {
        return new UpdateResult(document, version, previousVersion, previous, outcome, requestId, replayed, value);
    }
}
