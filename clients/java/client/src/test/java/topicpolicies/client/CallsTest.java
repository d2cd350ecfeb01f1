package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.InsecureChannelCredentials;
import io.grpc.Status;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import topicpolicies.v1.PolicyChangeRequest;
import topicpolicies.v1.PolicyChangeResult;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.UpdatePolicyRequest;

/** Calls of a service that fails as the tests want: repeats, request ids, batches, tokens and addresses. */
@Timeout(600)
final class CallsTest {
    private static final TopicPolicies FIVE = TopicPolicies.newBuilder().setMaxProducerPerTopic(5).build();
    private static final UpdatePolicyRequest REQUEST = UpdatePolicyRequest.newBuilder().setTopic("t/n/a").setPolicies(FIVE).build();

    private FakeService service;
    private TopicPoliciesClient client;

    @BeforeEach
    void start() throws Exception {
        service = new FakeService();
        client = service.client().actor("me").build();
    }

    @AfterEach
    void stop() {
        client.close();
        service.close();
    }

    @Test
    void gRpcRepeatsAChangeWithItsRequestId() {
        service.failures.add(FakeService.failure(Status.Code.UNAVAILABLE, ""));
        service.failures.add(FakeService.failure(Status.Code.UNAVAILABLE, "LOG_UNAVAILABLE"));
        String id = client.update("t/n/a", FIVE).getRequestId();
        assertEquals(32, id.length());
        assertEquals(List.of(id, id, id), service.updates.stream().map(UpdatePolicyRequest::getRequestId).toList());
        assertEquals("me", service.updates.get(0).getActor());
    }

    @Test
    void aChangeOfAnUnknownOutcomeHasTheRequestIdWithWhichItCanBeRepeated() {
        service.failures.add(FakeService.failure(Status.Code.DEADLINE_EXCEEDED, "OUTCOME_UNKNOWN"));
        OutcomeUnknownException error = assertThrows(OutcomeUnknownException.class, () -> client.update(REQUEST));
        assertEquals(service.updates.get(0).getRequestId(), error.requestId());
        assertEquals(List.of(Status.Code.DEADLINE_EXCEEDED, "OUTCOME_UNKNOWN"), List.of(error.code(), error.reason()));
        service.failures.add(FakeService.failure(Status.Code.INTERNAL, "INTERNAL"));
        UpdatePolicyRequest dry = REQUEST.toBuilder().setValidateOnly(true).build();
        assertEquals(TopicPoliciesException.class, assertThrows(TopicPoliciesException.class, () -> client.update(dry)).getClass());
        client.update(REQUEST.toBuilder().setRequestId(error.requestId()).build());
        assertEquals(error.requestId(), service.updates.get(2).getRequestId());
    }

    @Test
    void anAsynchronousCallFailsAsABlockingOneDoes() {
        service.failures.add(FakeService.failure(Status.Code.ABORTED, "PRECONDITION_FAILED"));
        var failed = client.updateAsync(REQUEST, Duration.ofSeconds(20));
        assertInstanceOf(PreconditionFailedException.class,
                assertThrows(ExecutionException.class, () -> failed.get(120, TimeUnit.SECONDS)).getCause());
    }

    @Test
    void anInterruptEndsABlockingCall() {
        Thread.currentThread().interrupt();
        TopicPoliciesException error = assertThrows(TopicPoliciesException.class, () -> client.update(REQUEST));
        assertEquals(Status.Code.CANCELLED, error.code());
        assertTrue(Thread.interrupted());
    }

    private static List<PolicyChangeRequest> changes(int count, int bytes) {
        TopicPolicies large = TopicPolicies.newBuilder().addShadowTopics("x".repeat(bytes)).build();
        return IntStream.range(0, count).mapToObj(number -> PolicyChangeRequest.newBuilder()
                .setUpdate(UpdatePolicyRequest.newBuilder().setTopic("t/n/" + number).setPolicies(large)).build()).toList();
    }

    @Test
    void anyNumberOfChangesIsSentInBatchesInTheirOrder() {
        List<PolicyChangeResult> results = client.batch(changes(2500, 0));
        assertEquals(List.of(1000, 1000, 500), service.batches.stream().map(batch -> batch.getChangesCount()).toList());
        assertEquals(IntStream.range(0, 2500).mapToObj(number -> "t/n/" + number).toList(),
                results.stream().map(result -> result.getSuccess().getVersion()).toList());
        assertEquals(32, service.batches.get(0).getChanges(0).getUpdate().getRequestId().length());
        assertEquals(List.of(), client.batch(List.of()));
        service.batches.clear();
        client.batch(changes(7, 1 << 20));
        assertEquals(List.of(2, 2, 2, 1), service.batches.stream().map(batch -> batch.getChangesCount()).toList());
    }

    @Test
    void ofABatchThatFailsEachChangeHasTheErrorAndItsRequestId() {
        service.failures.add(FakeService.failure(Status.Code.DEADLINE_EXCEEDED, ""));
        List<PolicyChangeResult> results = client.batch(changes(1001, 0));
        assertEquals("t/n/1000", results.get(1000).getSuccess().getVersion());
        for (int at = 0; at < 1000; at++) {
            OutcomeUnknownException error =
                    assertInstanceOf(OutcomeUnknownException.class, TopicPoliciesException.of(results.get(at).getError()));
            assertEquals(service.batches.get(0).getChanges(at).getUpdate().getRequestId(), error.requestId());
        }
    }

    @Test
    void theTokenIsReadForEachCallAndTheLastOneIsKept(@TempDir Path directory) throws Exception {
        Path file = Files.writeString(directory.resolve("token"), "first\n");
        try (TopicPoliciesClient authenticated = service.client().tokenFile(file).build()) {
            authenticated.update(REQUEST);
            Files.writeString(file, "second");
            authenticated.update(REQUEST);
            Files.delete(file);
            authenticated.update(REQUEST);
        }
        assertEquals(List.of("Bearer first", "Bearer second", "Bearer second"), service.tokens);
        try (TopicPoliciesClient without = service.client().tokenFile(file).build()) {
            assertEquals(Status.Code.UNAUTHENTICATED, assertThrows(TopicPoliciesException.class, () -> without.update(REQUEST)).code());
        }
    }

    @Test
    void aTokenIsNotSentToAnotherMachineWithoutTls() {
        InsecureChannelCredentials none = (InsecureChannelCredentials) InsecureChannelCredentials.create();
        for (String target : new String[] {"sidecar:6680", "ipv4:127.0.0.1:1,10.0.0.1:2", "dns:///localhost.example:1"}) {
            TopicPoliciesClient.Builder builder = TopicPoliciesClient.builder(target).token(() -> "secret");
            builder.build().close(); // with TLS, which is the default there
            assertThrows(IllegalArgumentException.class, () -> builder.credentials(none).build(), target);
        }
        for (String target : new String[] {"localhost:1", "dns:///localhost:1", "ipv4:127.0.0.1:1,127.0.0.2:2", "[::1]:1", "unix:/run/x"}) {
            assertTrue(TopicPoliciesClient.builder(target).isHere(), target);
        }
    }

    @Test
    void theFirstAddressThatCanBeReachedIsUsed() throws Exception {
        ServerSocket closed = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        closed.close();
        String target = "ipv4:127.0.0.1:" + closed.getLocalPort() + ",127.0.0.1:" + service.port();
        try (TopicPoliciesClient two = TopicPoliciesClient.builder(target).build()) {
            two.update(REQUEST);
        }
        assertEquals(1, service.updates.size());
    }
}
