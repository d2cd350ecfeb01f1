package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import topicpolicies.v1.TopicPolicies;

/** A client whose executor rejects tasks. */
@Timeout(60)
final class RejectingExecutorTest extends ClosedAfterwards {
    private static final Update UPDATE = Update.of(TOPIC).mask("max_producer_per_topic").build();

    private volatile boolean rejects;

    private TopicPoliciesClient client(Member member, Throwable rejection) {
        Executor executor = task -> {
            if (!rejects) {
                ForkJoinPool.commonPool().execute(task);
            } else if (rejection instanceof Error error) {
                throw error;
            } else {
                throw (RuntimeException) rejection;
            }
        };
        return closing(TopicPoliciesClient.open(ClientOptions.of(member.address()).executor(executor).timeout(Duration.ofSeconds(20)).build()));
    }

    private TopicPoliciesClient client(Member member) {
        return client(member, new RejectedExecutionException("too many tasks"));
    }

    private static Document document(int number) {
        TopicPolicies policies = TopicPolicies.newBuilder().setMaxProducerPerTopic(number).build();
        return new Document(TOPIC, Scope.LOCAL, Optional.of(policies), "v" + number, false);
    }

    @Test
    void callsAreAnsweredBeforeAndAfterTheConnectionIsMade() throws Exception {
        for (Throwable rejection : List.of(new RejectedExecutionException("too many tasks"), new OutOfMemoryError("no more threads"))) {
            for (boolean connected : List.of(false, true)) {
                Member member = member(Member.LEADING);
                TopicPoliciesClient client = client(member, rejection);
                rejects = !connected;
                client.getAsync(Read.of(TOPIC).build()).get(20, TimeUnit.SECONDS);
                rejects = true;
                client.getAsync(Read.of(TOPIC).build()).get(20, TimeUnit.SECONDS);
                client.updateAsync(UPDATE).get(20, TimeUnit.SECONDS);
                client.editAsync(Edit.of(TOPIC, policies -> policies.setMaxProducerPerTopic(1)).build()).get(20, TimeUnit.SECONDS);
                rejects = false;
                client.getAsync(Read.of(TOPIC).build()).get(20, TimeUnit.SECONDS);
            }
        }
    }

    @Test
    void aWatchAndACacheThatCannotBeginEnd() throws Exception {
        TopicPoliciesClient client = client(member(Member.LEADING));
        rejects = true;
        CompletableFuture<Void> ended = client.watch(Selection.ofNamespaces("t/n").build(), event -> { }).whenEnded();
        PolicyCache cache = client.cache("t/n");
        for (CompletableFuture<Void> future : List.of(ended, cache.whenSynced())) {
            Throwable why = assertThrows(ExecutionException.class, () -> future.get(20, TimeUnit.SECONDS)).getCause();
            assertEquals(Status.Code.CANCELLED, assertInstanceOf(TopicPoliciesException.class, why).code());
            assertEquals("The client's executor does not accept tasks.", why.getMessage());
        }
        assertTrue(cache.ended());
    }

    @Test
    void manyChangesEndWithTheReason() throws Exception {
        TopicPoliciesClient client = client(member(attempt -> Member.SILENCE));
        CompletableFuture<Void> early = client.updateManyAsync(List.of(UPDATE), result -> { });
        rejects = true;
        CompletableFuture<Void> late = client.updateManyAsync(List.of(UPDATE), result -> { });
        for (CompletableFuture<Void> future : List.of(early, late)) {
            Throwable why = assertThrows(ExecutionException.class, () -> future.get(20, TimeUnit.SECONDS)).getCause();
            assertEquals("The client's executor does not accept tasks.", why.getMessage());
        }
    }

    @Test
    void aListenerOfACacheIsCalledAgainWhenTheExecutorAcceptsTasks() throws Exception {
        TopicPoliciesClient client = client(member(Member.LEADING));
        PolicyCache cache = client.cache("t/n");
        cache.whenSynced().get(20, TimeUnit.SECONDS);
        AtomicInteger calls = new AtomicInteger();
        cache.listen(change -> calls.incrementAndGet());
        rejects = true;
        cache.offer(document(1));
        rejects = false;
        assertEquals(0, calls.get());
        assertFalse(cache.ended());
        cache.offer(document(2));
        until(() -> calls.get() == 1);
    }
}
