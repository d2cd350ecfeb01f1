package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Calls that are cancelled, or that have their own timeout. */
@Timeout(60)
final class CancellationTest extends ClosedAfterwards {
    private static final Update UPDATE = Update.of(TOPIC).mask("max_producer_per_topic").build();

    private TopicPoliciesClient client(Member... members) {
        String target = String.join(",", List.of(members).stream().map(Member::address).toList());
        return closing(TopicPoliciesClient.open(ClientOptions.of(target).timeout(Duration.ofMinutes(5)).build(), QUICK));
    }

    @Test
    void cancellingAFutureCancelsItsCall() throws Exception {
        for (Function<TopicPoliciesClient, CompletableFuture<?>> call : List.<Function<TopicPoliciesClient, CompletableFuture<?>>>of(
                client -> client.getAsync(Read.of(TOPIC).build()), client -> client.getBothAsync(Read.of(TOPIC).build()),
                client -> client.updateAsync(UPDATE), client -> client.deleteAsync(Delete.of(TOPIC).build()),
                client -> client.editAsync(Edit.of(TOPIC, policies -> policies.setMaxProducerPerTopic(1)).build()))) {
            Member member = silent();
            CompletableFuture<?> future = call.apply(client(member));
            until(() -> member.changeCount() + member.reads.get() == 1);
            future.cancel(true);
            until(() -> member.cancelled.get() == 1);
            assertEquals(1, member.changeCount() + member.reads.get(), "the call was repeated");
        }
    }

    @Test
    void aFutureThatTimesOutEndsItsCall() throws Exception {
        Member member = silent();
        CompletableFuture<?> future = client(member).getAsync(Read.of(TOPIC).build()).orTimeout(200, TimeUnit.MILLISECONDS);
        assertTrue(assertThrows(ExecutionException.class, future::get).getCause() instanceof TimeoutException);
        until(() -> member.cancelled.get() == 1);
    }

    @Test
    void aCancelledCallDoesNotCountAgainstItsAddress() throws Exception {
        Member first = silent();
        Member second = silent();
        TopicPoliciesClient client = client(first, second);
        client.getAsync(Read.of(TOPIC).build());
        CompletableFuture<?> future = client.getAsync(Read.of(TOPIC).build());
        until(() -> first.reads.get() == 2);
        future.cancel(true);
        until(() -> first.cancelled.get() == 1);
        client.getAsync(Read.of(TOPIC).build());
        until(() -> first.reads.get() == 3);
        assertEquals(0, second.reads.get());
    }

    @Test
    void aCallThatIsCancelledDuringAPauseIsNotRepeated() throws Exception {
        Member member = member(attempt -> Member.refusal(""));
        RetryPolicy slow = new RetryPolicy(5, new Backoff(Duration.ofMillis(500), Duration.ofMillis(500), 1), Duration.ofSeconds(10));
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(ClientOptions.of(member.address()).build(), slow));
        CompletableFuture<?> future = client.updateAsync(UPDATE);
        until(() -> member.changeCount() == 1);
        future.cancel(true);
        Thread.sleep(700);
        assertEquals(1, member.changeCount());
    }

    @Test
    void eachCallMayHaveItsOwnTimeout() throws Exception {
        Duration time = Duration.ofMillis(300);
        List<Function<TopicPoliciesClient, Object>> calls = List.of(
                client -> client.get(Read.of(TOPIC).timeout(time).build()), client -> client.getBoth(Read.of(TOPIC).timeout(time).build()),
                client -> client.update(Update.of(TOPIC).mask("max_producer_per_topic").timeout(time).build()),
                client -> client.delete(Delete.of(TOPIC).timeout(time).build()),
                client -> client.edit(Edit.of(TOPIC, policies -> policies.setMaxProducerPerTopic(1)).timeout(time).build()),
                client -> client.list(Listing.of("t/n").timeout(time).build()).iterator().hasNext(),
                client -> client.history(HistoryQuery.ofNamespace("t/n").timeout(time).build()).iterator().hasNext());
        for (Function<TopicPoliciesClient, Object> call : calls) {
            TopicPoliciesClient client = client(silent());
            TopicPoliciesException error = assertThrows(TopicPoliciesException.class, () -> call.apply(client));
            assertEquals(Status.Code.DEADLINE_EXCEEDED, error.code());
        }
        assertEquals(7, calls.size());
    }
}
