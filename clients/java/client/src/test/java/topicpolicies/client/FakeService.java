package topicpolicies.client;

import com.google.protobuf.Any;
import com.google.protobuf.Duration;
import com.google.rpc.ErrorInfo;
import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.StatusException;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import topicpolicies.v1.BatchUpdatePoliciesRequest;
import topicpolicies.v1.BatchUpdatePoliciesResponse;
import topicpolicies.v1.Bookmark;
import topicpolicies.v1.ChangeResult;
import topicpolicies.v1.PolicyChange;
import topicpolicies.v1.PolicyChangeResult;
import topicpolicies.v1.PolicyDocument;
import topicpolicies.v1.Scope;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.TopicPoliciesServiceGrpc.TopicPoliciesServiceImplBase;
import topicpolicies.v1.UpdatePolicyRequest;
import topicpolicies.v1.WatchEvent;
import topicpolicies.v1.WatchPoliciesRequest;
import topicpolicies.v1.WatchPoliciesResponse;

/** A service that fails as a test wants, and records what it gets. */
final class FakeService extends TopicPoliciesServiceImplBase implements AutoCloseable {
    record Watching(WatchPoliciesRequest request, StreamObserver<WatchPoliciesResponse> answer) {
        void send(WatchEvent... events) {
            answer.onNext(WatchPoliciesResponse.newBuilder().addAllEvents(List.of(events)).build());
        }
    }

    /** The failures of the next calls; without one a call succeeds. */
    final Queue<StatusException> failures = new ConcurrentLinkedQueue<>();
    final List<UpdatePolicyRequest> updates = new CopyOnWriteArrayList<>();
    final List<BatchUpdatePoliciesRequest> batches = new CopyOnWriteArrayList<>();
    final List<String> tokens = new CopyOnWriteArrayList<>();
    final BlockingQueue<Watching> watches = new LinkedBlockingQueue<>();
    private final Server server;

    FakeService() throws IOException {
        ServerInterceptor recorder = new ServerInterceptor() {
            @Override
            public <Q, R> ServerCall.Listener<Q> interceptCall(ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
                String token = headers.get(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER));
                tokens.add(token == null ? "" : token);
                return Contexts.interceptCall(Context.current(), call, headers, next);
            }
        };
        server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create()).addService(this).intercept(recorder)
                .maxInboundMessageSize(64 << 20).build().start();
    }

    int port() {
        return server.getPort();
    }

    TopicPoliciesClient.Builder client() {
        return TopicPoliciesClient.builder("127.0.0.1:" + port());
    }

    @Override
    public void close() {
        server.shutdownNow();
    }

    static StatusException failure(Status.Code code, String reason) {
        com.google.rpc.Status.Builder status = com.google.rpc.Status.newBuilder().setCode(code.value()).setMessage("It fails.");
        if (!reason.isEmpty()) {
            status.addDetails(Any.pack(ErrorInfo.newBuilder().setDomain("topicpolicies").setReason(reason).build()));
        }
        return StatusProto.toStatusException(status.build());
    }

    private <T> void answer(StreamObserver<T> observer, T value) {
        StatusException failure = failures.poll();
        if (failure != null) {
            observer.onError(failure);
        } else {
            observer.onNext(value);
            observer.onCompleted();
        }
    }

    @Override
    public void updatePolicy(UpdatePolicyRequest request, StreamObserver<ChangeResult> observer) {
        updates.add(request);
        answer(observer, ChangeResult.newBuilder().setRequestId(request.getRequestId()).build());
    }

    @Override
    public void batchUpdatePolicies(BatchUpdatePoliciesRequest request, StreamObserver<BatchUpdatePoliciesResponse> observer) {
        batches.add(request);
        BatchUpdatePoliciesResponse.Builder response = BatchUpdatePoliciesResponse.newBuilder();
        request.getChangesList().forEach(change -> response.addResults(PolicyChangeResult.newBuilder()
                .setSuccess(ChangeResult.newBuilder().setVersion(change.getUpdate().getTopic()))));
        answer(observer, response.build());
    }

    @Override
    public void watchPolicies(WatchPoliciesRequest request, StreamObserver<WatchPoliciesResponse> observer) {
        StatusException failure = failures.poll();
        if (failure != null) {
            observer.onError(failure);
        } else {
            watches.add(new Watching(request, observer));
        }
    }

    static WatchEvent change(String version, String token) {
        return WatchEvent.newBuilder().setNamespace("t/n").setResumeToken(token).setChange(PolicyChange.newBuilder()
                .setDocument(document(version, 1))).build();
    }

    static PolicyDocument document(String version, int producers) {
        return PolicyDocument.newBuilder().setTopic("persistent://t/n/a").setScope(Scope.SCOPE_LOCAL).setVersion(version)
                .setPolicies(TopicPolicies.newBuilder().setMaxProducerPerTopic(producers)).build();
    }

    static WatchEvent synced(String token) {
        return WatchEvent.newBuilder().setNamespace("t/n").setResumeToken(token)
                .setBookmark(Bookmark.newBuilder().setSynced(true).setAge(Duration.getDefaultInstance())).build();
    }
}
