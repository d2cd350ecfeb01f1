package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.grpc.ForwardingServerCall.SimpleForwardingServerCall;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import topicpolicies.v1.GetEffectivePolicyRequest;
import topicpolicies.v1.GetEffectivePolicyResponse;
import topicpolicies.v1.GetPolicyRequest;
import topicpolicies.v1.GetPolicyResponse;
import topicpolicies.v1.ListHistoryRequest;
import topicpolicies.v1.ListHistoryResponse;
import topicpolicies.v1.ListPoliciesRequest;
import topicpolicies.v1.ListPoliciesResponse;
import topicpolicies.v1.PolicyDocument;
import topicpolicies.v1.TopicPoliciesServiceGrpc;

/** The time since which the answer to a read is unconfirmed. */
@Timeout(60)
final class UnconfirmedTest {
    private static final Metadata.Key<String> KEY = Metadata.Key.of("topicpolicies-unconfirmed-since", Metadata.ASCII_STRING_MARSHALLER);
    private static final String TOPIC = "persistent://t/n/x";
    private volatile Optional<String> unconfirmedSince = Optional.empty();
    private Server server;

    private final class Unconfirmed extends TopicPoliciesServiceGrpc.TopicPoliciesServiceImplBase implements ServerInterceptor {
        @Override
        public <Q, A> ServerCall.Listener<Q> interceptCall(ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
            return next.startCall(new SimpleForwardingServerCall<>(call) {
                @Override
                public void close(Status status, Metadata trailers) {
                    unconfirmedSince.ifPresent(since -> trailers.put(KEY, since));
                    super.close(status, trailers);
                }
            }, headers);
        }

        @Override
        public void getPolicy(GetPolicyRequest request, StreamObserver<GetPolicyResponse> answer) {
            GetPolicyResponse.Builder message = GetPolicyResponse.newBuilder();
            request.getScopesList().forEach(scope -> message.addDocuments(PolicyDocument.newBuilder().setScope(scope)));
            answer(answer, message.build());
        }

        @Override
        public void listPolicies(ListPoliciesRequest request, StreamObserver<ListPoliciesResponse> answer) {
            PolicyDocument.Builder document = PolicyDocument.newBuilder().setScope(topicpolicies.v1.Scope.SCOPE_LOCAL);
            answer(answer, ListPoliciesResponse.newBuilder().addDocuments(document).build());
        }

        @Override
        public void getEffectivePolicy(GetEffectivePolicyRequest request, StreamObserver<GetEffectivePolicyResponse> answer) {
            answer(answer, GetEffectivePolicyResponse.getDefaultInstance());
        }

        @Override
        public void listHistory(ListHistoryRequest request, StreamObserver<ListHistoryResponse> answer) {
            answer(answer, ListHistoryResponse.getDefaultInstance());
        }

        private static <A> void answer(StreamObserver<A> observer, A answer) {
            observer.onNext(answer);
            observer.onCompleted();
        }
    }

    @BeforeEach
    void start() throws Exception {
        Unconfirmed service = new Unconfirmed();
        server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create()).addService(service).intercept(service).build().start();
    }

    @AfterEach
    void stop() {
        server.shutdownNow();
    }

    /** Returns the distinct values of {@code unconfirmedSince} of the answers to every kind of read. */
    private static List<Optional<Instant>> unconfirmedTimes(TopicPoliciesClient client) {
        ScopedDocuments both = client.getBoth(TOPIC);
        DocumentList list = client.list("t/n");
        List<Optional<Instant>> times = new ArrayList<>(List.of(client.get(TOPIC).unconfirmedSince(), both.local().unconfirmedSince(),
                both.global().unconfirmedSince(), client.effective(TOPIC).unconfirmedSince(), list.unconfirmedSince(),
                client.history(HistoryQuery.ofTopic(TOPIC).build()).unconfirmedSince()));
        list.forEach(document -> times.add(document.unconfirmedSince()));
        assertEquals(7, times.size());
        return times.stream().distinct().toList();
    }

    @Test
    void everyReadReturnsSinceWhenItsAnswerIsUnconfirmed() {
        Optional<Instant> since = Optional.of(Instant.parse("2026-03-01T12:00:00.250Z"));
        try (TopicPoliciesClient client = TopicPoliciesClient.open("localhost:" + server.getPort())) {
            assertEquals(List.of(Optional.empty()), unconfirmedTimes(client));
            unconfirmedSince = Optional.of("2026-03-01T12:00:00.250+00:00");
            assertEquals(List.of(since), unconfirmedTimes(client));
            unconfirmedSince = Optional.of("2026-03-01T14:00:00.25+02:00");
            assertEquals(List.of(since), unconfirmedTimes(client));
            unconfirmedSince = Optional.of("yesterday");
            assertEquals(List.of(Optional.empty()), unconfirmedTimes(client));
        }
    }
}
