package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import topicpolicies.v1.GetPolicyRequest;
import topicpolicies.v1.GetPolicyResponse;
import topicpolicies.v1.PolicyDocument;
import topicpolicies.v1.TopicPoliciesServiceGrpc;
import topicpolicies.v1.UpdatePolicyRequest;
import topicpolicies.v1.UpdatePolicyResponse;

/** The metadata of calls and of their repeats, as a service receives them. */
@Timeout(60)
final class CallMetadataTest {
    private final List<Metadata> seen = new CopyOnWriteArrayList<>();
    private final List<String> requestIds = new CopyOnWriteArrayList<>();
    private final AtomicInteger failures = new AtomicInteger();
    private Server server;

    private final class Recording extends TopicPoliciesServiceGrpc.TopicPoliciesServiceImplBase implements ServerInterceptor {
        @Override
        public <Q, A> ServerCall.Listener<Q> interceptCall(ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
            seen.add(headers);
            return next.startCall(call, headers);
        }

        @Override
        public void getPolicy(GetPolicyRequest request, StreamObserver<GetPolicyResponse> answer) {
            answer.onNext(GetPolicyResponse.newBuilder().addDocuments(PolicyDocument.newBuilder().setScope(request.getScopes(0))).build());
            answer.onCompleted();
        }

        @Override
        public void updatePolicy(UpdatePolicyRequest request, StreamObserver<UpdatePolicyResponse> answer) {
            requestIds.add(request.getRequestId());
            if (failures.getAndDecrement() > 0) {
                answer.onError(Status.UNAVAILABLE.asException());
            } else {
                answer.onNext(UpdatePolicyResponse.getDefaultInstance());
                answer.onCompleted();
            }
        }
    }

    @BeforeEach
    void start() throws Exception {
        Recording recording = new Recording();
        server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create()).addService(recording).intercept(recording).build().start();
    }

    @AfterEach
    void stop() {
        server.shutdownNow();
    }

    private ClientOptions.Builder options() {
        return ClientOptions.of("localhost:" + server.getPort());
    }

    private String last(String key) {
        return seen.get(seen.size() - 1).get(Metadata.Key.of(key, Metadata.ASCII_STRING_MARSHALLER));
    }

    @Test
    void everyCallSendsTheActorTheReasonAndAFreshToken() {
        AtomicInteger requested = new AtomicInteger();
        ClientOptions options = options().actor("tester").reason("because").token(() -> "token-" + requested.incrementAndGet()).build();
        try (TopicPoliciesClient client = TopicPoliciesClient.open(options)) {
            client.get("t", Scope.LOCAL);
            assertEquals("tester", last("topicpolicies-actor"));
            assertEquals("because", last("topicpolicies-reason"));
            assertEquals("Bearer token-1", last("authorization"));
            client.get("t", Scope.LOCAL);
            assertEquals("Bearer token-2", last("authorization"));
        }
        assertFalse(options.toString().contains("token-"));
        assertThrows(IllegalArgumentException.class, () -> options().actor(" tester"));
        assertThrows(IllegalArgumentException.class, () -> options().reason("weil\u00e4"));
    }

    @Test
    void theErrorOfAReadWithoutAConnectionHasOneLine() {
        try (TopicPoliciesClient client = TopicPoliciesClient.open(ClientOptions.of("127.0.0.1:1").timeout(Duration.ofMillis(300)).build())) {
            assertEquals("TopicPoliciesClient[127.0.0.1:1]", client.toString());
            TopicPoliciesException error = assertThrows(TopicPoliciesException.class, () -> client.get("t", Scope.LOCAL));
            assertTrue(error.getMessage().contains("onnection refused"), error.getMessage());
            assertEquals(1, error.getMessage().lines().count(), error.getMessage());
        }
    }

    @Test
    void everyAttemptPassesThroughTheInterceptorsOfTheCaller() {
        Metadata.Key<String> parent = Metadata.Key.of("traceparent", Metadata.ASCII_STRING_MARSHALLER);
        AtomicInteger attempts = new AtomicInteger();
        Metadata traced = new Metadata();
        traced.put(parent, "00-1-2-01");
        ClientOptions options = options().actor("tester").interceptor(MetadataUtils.newAttachHeadersInterceptor(traced))
                .interceptor(new ClientInterceptor() {
                    @Override
                    public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions callOptions, Channel next) {
                        attempts.incrementAndGet();
                        return next.newCall(method, callOptions);
                    }
                }).build();
        failures.set(1);
        try (TopicPoliciesClient client = TopicPoliciesClient.open(options.toBuilder().build())) {
            client.update(Update.of("t").mask("max_producer_per_topic").build());
        }
        assertEquals(List.of("00-1-2-01", "00-1-2-01"), seen.stream().map(each -> each.get(parent)).toList());
        assertEquals(2, attempts.get());
        assertEquals("tester", last("topicpolicies-actor"));
    }

    @Test
    void ifTheTokenSupplierThrowsNothingIsSentAndTheErrorHasItsMessage() {
        ClientOptions options = options().token(() -> {
            throw new IllegalStateException("the file is missing");
        }).build();
        try (TopicPoliciesClient client = TopicPoliciesClient.open(options)) {
            TopicPoliciesException error = assertThrows(TopicPoliciesException.class, () -> client.get("t", Scope.LOCAL));
            assertEquals(Status.Code.UNAUTHENTICATED, error.code());
            assertTrue(error.getMessage().contains("the file is missing"));
            assertTrue(seen.isEmpty());
        }
    }

    @Test
    void aChangeIsRepeatedWithTheSameRequestId() {
        Update update = Update.of("t").mask("max_producer_per_topic").build();
        failures.set(2);
        try (TopicPoliciesClient client = TopicPoliciesClient.open(options().build())) {
            client.update(update);
        }
        assertEquals(List.of(update.requestId(), update.requestId(), update.requestId()), requestIds);
        failures.set(1);
        try (TopicPoliciesClient once = TopicPoliciesClient.open(options().withoutRetries().build())) {
            assertThrows(OutcomeUnknownException.class, () -> once.update(update));
        }
        assertEquals(4, requestIds.stream().filter(Objects::nonNull).count());
    }
}
