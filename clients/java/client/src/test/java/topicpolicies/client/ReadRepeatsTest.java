package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.InsecureServerCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.io.IOException;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.IntFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import topicpolicies.v1.GetPolicyRequest;
import topicpolicies.v1.GetPolicyResponse;
import topicpolicies.v1.ListHistoryRequest;
import topicpolicies.v1.ListHistoryResponse;

/**
 * Which calls gRPC repeats (reads of a client with one address), and which the client (all others). gRPC's metadata has the number of
 * previous attempts.
 */
@Timeout(60)
final class ReadRepeatsTest extends ClosedAfterwards {
    private Member reading(IntFunction<StatusRuntimeException> reading) throws IOException {
        Member member = member(Member.LEADING);
        member.reading = reading;
        return member;
    }

    private TopicPoliciesClient client(RetryPolicy retries, String target) {
        return closing(TopicPoliciesClient.open(ClientOptions.of(target).build(), retries));
    }

    private static IntFunction<StatusRuntimeException> failing(int times, Status.Code code) {
        return attempt -> attempt <= times ? code.toStatus().asRuntimeException() : null;
    }

    private static IntFunction<StatusRuntimeException> unavailable(int times) {
        return failing(times, Status.Code.UNAVAILABLE);
    }

    private static void assertFails(Status.Code code, Runnable call) {
        assertEquals(code, assertThrows(TopicPoliciesException.class, call::run).code());
    }

    /** Reads a history on a line, without a client. */
    private static CompletableFuture<ListHistoryResponse> history(Line line, RetryPolicy retries) {
        return new Calls(line, retries, new Pauses(Runnable::run)).read(
                new Calls.Question<ListHistoryRequest, ListHistoryResponse, ListHistoryResponse>(
                        (stub, request, answer) -> stub.listHistory(request, answer), ListHistoryRequest.getDefaultInstance(), Answered::message, Duration.ofSeconds(30)));
    }

    @Test
    void grpcRepeatsReadsIfThereIsOneAddress() throws Exception {
        for (Status.Code code : List.of(Status.Code.UNAVAILABLE, Status.Code.CANCELLED)) {
            for (Consumer<TopicPoliciesClient> read : List.<Consumer<TopicPoliciesClient>>of(
                    client -> client.get(TOPIC, Scope.LOCAL), client -> client.list("t/n").iterator().hasNext())) {
                Member member = reading(failing(2, code));
                read.accept(client(QUICK, member.address()));
                assertEquals(List.of("0", "1", "2"), member.repeatedByGrpc());
            }
            Member member = reading(failing(2, code));
            history(closing(Line.to(ClientOptions.of(member.address()).build(), QUICK)), QUICK).get(20, TimeUnit.SECONDS);
            assertEquals(List.of("0", "1", "2"), member.repeatedByGrpc());
        }
    }

    @Test
    void aReadThatAlwaysFailsReachesTheServiceMaxAttemptsTimes() throws Exception {
        for (int most : List.of(2, 5, 7)) {
            Member member = reading(unavailable(Integer.MAX_VALUE));
            TopicPoliciesClient client = client(new RetryPolicy(most, SHORT, Duration.ofSeconds(10)), member.address());
            assertFails(Status.Code.UNAVAILABLE, () -> client.get(TOPIC, Scope.LOCAL));
            assertEquals(most, member.reads.get());
        }
    }

    @Test
    void aReadThatFailsPermanentlyIsSentOnce() throws Exception {
        for (Status.Code code : List.of(Status.Code.NOT_FOUND, Status.Code.DEADLINE_EXCEEDED, Status.Code.INTERNAL, Status.Code.UNKNOWN)) {
            Member member = reading(failing(Integer.MAX_VALUE, code));
            TopicPoliciesClient client = client(QUICK, member.address());
            assertFails(code, () -> client.get(TOPIC, Scope.LOCAL));
            assertEquals(1, member.reads.get());
        }
    }

    @Test
    void aReadWithoutAConnectionWaitsForOne() throws Exception {
        CompletableFuture<Document> waiting;
        int port;
        try (ServerSocket unable = new ServerSocket(0)) {
            port = unable.getLocalPort();
            waiting = client(QUICK, "localhost:" + port).getAsync(Read.of(TOPIC).build());
            unable.setSoTimeout(20_000);
            unable.accept().close();
        }
        Member member = closing(new Member(Member.LEADING, InsecureServerCredentials.create(), port));
        waiting.get(30, TimeUnit.SECONDS);
        assertEquals(List.of("0"), member.repeatedByGrpc());
    }

    @Test
    void withTwoAddressesReadsMoveToTheOtherOneAndGrpcRepeatsNone() throws Exception {
        Member first = reading(unavailable(Integer.MAX_VALUE));
        Member second = reading(Member.LEADING);
        client(QUICK, first.address() + "," + second.address()).get(TOPIC, Scope.LOCAL);
        assertEquals(List.of(List.of("0"), List.of("0")), List.of(first.repeatedByGrpc(), second.repeatedByGrpc()));
    }

    @Test
    void withTwoFailingAddressesAReadReachesThemMaxAttemptsTimesTogether() throws Exception {
        Member first = reading(unavailable(Integer.MAX_VALUE));
        Member second = reading(unavailable(Integer.MAX_VALUE));
        TopicPoliciesClient client = client(QUICK, first.address() + "," + second.address());
        assertFails(Status.Code.UNAVAILABLE, () -> client.get(TOPIC, Scope.LOCAL));
        assertEquals(List.of(List.of("0", "0", "0"), List.of("0", "0")), List.of(first.repeatedByGrpc(), second.repeatedByGrpc()));
    }

    @Test
    void grpcRepeatsNoChangeAndNoDryRun() throws Exception {
        Update.Builder update = Update.of(TOPIC).mask("max_producer_per_topic");
        for (Consumer<TopicPoliciesClient> call : List.<Consumer<TopicPoliciesClient>>of(client -> client.update(update.build()),
                client -> client.update(Update.of(TOPIC).mask("max_producer_per_topic").validateOnly().build()),
                client -> client.delete(TOPIC, Scope.LOCAL))) {
            Member member = member(unavailable(2));
            call.accept(client(QUICK, member.address()));
            assertEquals(Collections.nCopies(3, "0"), member.repeatedByGrpc());
        }
    }

    @Test
    void withoutRetriesAReadIsSentOnce() throws Exception {
        Member member = reading(unavailable(1));
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(ClientOptions.of(member.address()).withoutRetries().build()));
        assertFails(Status.Code.UNAVAILABLE, () -> client.get(TOPIC, Scope.LOCAL));
        assertEquals(List.of("0"), member.repeatedByGrpc());
    }

    @Test
    void grpcRepeatsNoReadAtAnAddressThatAnErrorNamed() throws Exception {
        Member given = reading(Member.LEADING);
        Member leader = reading(unavailable(1));
        Line line = closing(Line.to(ClientOptions.of(given.address()).build(), QUICK));
        Attempt<GetPolicyRequest, GetPolicyResponse> attempt = new Attempt<>();
        line.stub(leader.address()).withDeadlineAfter(30, TimeUnit.SECONDS).getPolicy(GetPolicyRequest.getDefaultInstance(), attempt);
        assertFails(Status.Code.UNAVAILABLE, () -> Waiting.await(() -> attempt.answered()));
        assertEquals(List.of("0"), leader.repeatedByGrpc());
    }

    @Test
    void onAGivenChannelTheClientItselfRepeatsReads() throws Exception {
        Member member = reading(unavailable(2));
        ManagedChannel channel = channelTo(member);
        closing(TopicPoliciesClient.on(channel, ClientOptions.of("unused").build())).get(TOPIC, Scope.LOCAL);
        assertEquals(List.of("0", "0", "0"), member.repeatedByGrpc());
    }

    @Test
    void closingTheClientEndsAReadThatGrpcIsAboutToRepeat() throws Exception {
        Member member = reading(unavailable(Integer.MAX_VALUE));
        RetryPolicy slow = new RetryPolicy(5, new Backoff(Duration.ofMinutes(1), Duration.ofMinutes(1), 2), Duration.ofSeconds(10));
        ClientOptions options = ClientOptions.of(member.address()).timeout(Duration.ofMinutes(5)).build();
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(options, slow));
        CompletableFuture<Document> waiting = client.getAsync(Read.of(TOPIC).build());
        until(() -> member.reads.get() > 0);
        assertFalse(waiting.isDone());
        client.close();
        ExecutionException failed = assertThrows(ExecutionException.class, () -> waiting.get(20, TimeUnit.SECONDS));
        assertTrue(Set.of(Status.Code.UNAVAILABLE, Status.Code.CANCELLED).contains(TopicPoliciesException.of(failed).code()));
        assertEquals(1, member.reads.get());
    }

    @Test
    void closingTheClientEndsAReadThatGrpcDoesNotEnd() throws Exception {
        Line line = closing(Line.to(ClientOptions.of("127.0.0.1:1").build(), QUICK));
        Calls calls = new Calls(line, QUICK, new Pauses(Runnable::run));
        Calls.Question<GetPolicyRequest, GetPolicyResponse, GetPolicyResponse> question = new Calls.Question<>(
                (stub, request, answer) -> { }, GetPolicyRequest.getDefaultInstance(), Answered::message, Duration.ofMinutes(5));
        CompletableFuture<GetPolicyResponse> waiting = calls.read(question);
        assertFalse(waiting.isDone());
        line.close();
        calls.close();
        assertTrue(waiting.isDone());
        assertFails(Status.Code.CANCELLED, () -> Waiting.await(() -> waiting));
    }
}
