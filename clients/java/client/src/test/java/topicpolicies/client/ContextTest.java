package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.Context;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Calls that are made in a context of gRPC. */
@Timeout(60)
final class ContextTest extends ClosedAfterwards {
    private static final Context.Key<String> TRACE = Context.key("trace");
    private static final List<Function<TopicPoliciesClient, CompletableFuture<?>>> CHANGES = List.of(
            client -> client.updateAsync(Update.of(TOPIC).mask("max_producer_per_topic").build()),
            client -> client.editAsync(Edit.of(TOPIC, policies -> policies.setMaxProducerPerTopic(1)).build()));

    private TopicPoliciesClient client(Member... members) {
        String target = String.join(",", List.of(members).stream().map(Member::address).toList());
        return closing(TopicPoliciesClient.open(ClientOptions.of(target).timeout(Duration.ofMinutes(5)).build(), QUICK));
    }

    private static TopicPoliciesException failure(CompletableFuture<?> call) {
        return TopicPoliciesException.of(assertThrows(ExecutionException.class, () -> call.get(20, TimeUnit.SECONDS)));
    }

    @Test
    void everyAttemptOfACallAndEveryCallOfAnEditIsMadeInTheCallersContext() throws Exception {
        List<String> seen = new CopyOnWriteArrayList<>();
        ClientInterceptor noting = new ClientInterceptor() {
            @Override
            public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
                seen.add(method.getBareMethodName() + " " + TRACE.get());
                return next.newCall(method, options);
            }
        };
        Member member = member(change -> change == 1 ? Member.refusal("") : change == 2 ? Member.error(Status.Code.ABORTED, "ETAG_MISMATCH") : null);
        TopicPoliciesClient client = closing(
                TopicPoliciesClient.open(ClientOptions.of(member.address()).interceptor(noting).build(), QUICK));
        Context.current().withValue(TRACE, "mine").call(() -> CHANGES.get(1).apply(client)).get(20, TimeUnit.SECONDS);
        assertEquals(List.of("GetPolicy mine", "UpdatePolicy mine", "UpdatePolicy mine", "GetPolicy mine", "UpdatePolicy mine"), seen);
    }

    @Test
    void aChangeIsNotSentAgainWhenItsContextWasCancelled() throws Exception {
        for (Function<TopicPoliciesClient, CompletableFuture<?>> change : CHANGES) {
            Member first = member(attempt -> Member.SILENCE);
            Member second = member(Member.LEADING);
            TopicPoliciesClient client = client(first, second);
            Context.CancellableContext context = Context.current().withCancellation();
            CompletableFuture<?> call = context.call(() -> change.apply(client));
            until(() -> first.changeCount() == 1);
            context.cancel(null);
            assertTrue(failure(call) instanceof OutcomeUnknownException);
            until(() -> first.cancelled.get() == 1);
            client.updateAsync(Update.of(TOPIC).mask("max_producer_per_topic").build());
            until(() -> first.changeCount() + second.changeCount() == 2);
            assertEquals(List.of(2, 0), List.of(first.changeCount(), second.changeCount()), "the address counts as failed");
        }
    }

    @Test
    void theDeadlineOfAContextLimitsAllAttemptsTogether() throws Exception {
        ScheduledExecutorService clock = Executors.newSingleThreadScheduledExecutor();
        AutoCloseable end = clock::shutdownNow;
        closing(end);
        for (Function<TopicPoliciesClient, CompletableFuture<?>> change : CHANGES) {
            Member member = member(attempt -> Member.SILENCE);
            TopicPoliciesClient client = client(member);
            client.get(TOPIC); // so that there is a connection
            Context.CancellableContext context = Context.current().withDeadlineAfter(1, TimeUnit.SECONDS, clock);
            CompletableFuture<?> call = context.call(() -> change.apply(client));
            assertEquals(Status.Code.DEADLINE_EXCEEDED, failure(call).code());
            assertEquals(1, member.changeCount());
        }
    }
}
