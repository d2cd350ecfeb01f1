package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import topicpolicies.v1.DeletePolicyResponse;
import topicpolicies.v1.PolicyChangeResult;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.UpdatePolicyResponse;

/** The results of single changes; {@link UpdateManyTest} tests the streams. */
final class PipelineTest {
    private static final String ADDRESS = "one";

    private final Pipeline pipeline = new Pipeline(new Routes(List.of(ADDRESS), true), RetryPolicy.DEFAULT, Duration.ofSeconds(30));

    /** Returns the error of a change that gets this result. */
    private OutcomeUnknownException unknown(Change change, PolicyChangeResult.Builder result) {
        pipeline.add(change, change.inBatch().setSequence(7).build());
        assertEquals(1, pipeline.batch(ADDRESS, System.nanoTime()).getChangesCount());
        Optional<ChangeResult> settled = pipeline.settle(ADDRESS, result.setSequence(7).build());
        ChangeResult.Failed failed = assertInstanceOf(ChangeResult.Failed.class, settled.orElseThrow());
        assertTrue(pipeline.isIdle(), "the change is sent again");
        return assertInstanceOf(OutcomeUnknownException.class, failed.error());
    }

    @Test
    void aResultOfAnUnknownKindOrOfAnotherKindOfChangeLeavesTheOutcomeUnknownAtOnce() {
        Update update = Update.of("t/n/x").policies(TopicPolicies.newBuilder().setMaxProducerPerTopic(1).build()).build();
        Delete deletion = Delete.of("t/n/x").build();
        OutcomeUnknownException unknownKind = unknown(update, PolicyChangeResult.newBuilder());
        assertEquals(List.of(Status.Code.UNKNOWN, update.requestId()), List.of(unknownKind.code(), unknownKind.requestId()));
        PolicyChangeResult.Builder deleted = PolicyChangeResult.newBuilder().setDeleted(DeletePolicyResponse.getDefaultInstance());
        assertEquals(Status.Code.INTERNAL, unknown(update, deleted).code());
        PolicyChangeResult.Builder updated = PolicyChangeResult.newBuilder().setUpdated(UpdatePolicyResponse.getDefaultInstance());
        assertEquals(deletion.requestId(), unknown(deletion, updated).requestId());
    }
}
