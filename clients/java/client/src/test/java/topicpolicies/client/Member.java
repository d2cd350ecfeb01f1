package topicpolicies.client;

import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import io.grpc.Attributes;
import io.grpc.ForwardingServerCallListener;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerCredentials;
import io.grpc.ServerInterceptor;
import io.grpc.ServerTransportFilter;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntFunction;
import topicpolicies.v1.Bookmark;
import topicpolicies.v1.BookmarkKind;
import topicpolicies.v1.DeletePolicyRequest;
import topicpolicies.v1.DeletePolicyResponse;
import topicpolicies.v1.GetPolicyRequest;
import topicpolicies.v1.GetPolicyResponse;
import topicpolicies.v1.ListHistoryRequest;
import topicpolicies.v1.ListHistoryResponse;
import topicpolicies.v1.ListPoliciesRequest;
import topicpolicies.v1.ListPoliciesResponse;
import topicpolicies.v1.PolicyChangeRequest;
import topicpolicies.v1.PolicyChangeResult;
import topicpolicies.v1.PolicyDocument;
import topicpolicies.v1.Scope;
import topicpolicies.v1.TopicPoliciesServiceGrpc;
import topicpolicies.v1.UpdatePoliciesRequest;
import topicpolicies.v1.UpdatePoliciesResponse;
import topicpolicies.v1.UpdatePolicyRequest;
import topicpolicies.v1.UpdatePolicyResponse;
import topicpolicies.v1.WatchEvent;
import topicpolicies.v1.WatchPoliciesRequest;
import topicpolicies.v1.WatchPoliciesResponse;
import topicpolicies.v1.WatchToken;

/** A sidecar that answers changes and reads as a test specifies, and records the requests. */
final class Member extends TopicPoliciesServiceGrpc.TopicPoliciesServiceImplBase implements ServerInterceptor, AutoCloseable {
    /** The error of a change, or of a read, by its number, counted from 1; null: it succeeds. */
    static final IntFunction<StatusRuntimeException> LEADING = attempt -> null;
    /** Stands for no answer at all. */
    static final StatusRuntimeException SILENCE = Status.OK.asRuntimeException();
    private static final PolicyDocument DOCUMENT = PolicyDocument.newBuilder().setScope(Scope.SCOPE_LOCAL).setVersion("2").build();
    private static final UpdatePolicyResponse UPDATED = UpdatePolicyResponse.newBuilder().setDocument(DOCUMENT).setVersion("2").build();
    private static final DeletePolicyResponse DELETED = DeletePolicyResponse.newBuilder().setDocument(DOCUMENT).setVersion("2").build();
    private static final Metadata.Key<String> REPEATED = Metadata.Key.of("grpc-previous-rpc-attempts", Metadata.ASCII_STRING_MARSHALLER);

    final List<String> requestIds = new CopyOnWriteArrayList<>();
    final List<Metadata> seen = new CopyOnWriteArrayList<>();
    final AtomicInteger reads = new AtomicInteger();
    final AtomicInteger watches = new AtomicInteger();
    final AtomicInteger streams = new AtomicInteger();
    final List<UpdatePoliciesRequest> batches = new CopyOnWriteArrayList<>();
    /** Calls that ended before they were answered. */
    final AtomicInteger cancelled = new AtomicInteger();
    final AtomicInteger connections = new AtomicInteger();
    /** The error of a read, by its number, counted from 1; null: it succeeds. */
    volatile IntFunction<StatusRuntimeException> reading = LEADING;
    /** The token of the page after each page of a list or of a history; empty: there is none. */
    volatile String nextPage = "";
    private final IntFunction<StatusRuntimeException> answering;
    private final Server server;

    Member(IntFunction<StatusRuntimeException> answering) throws IOException {
        this(answering, InsecureServerCredentials.create());
    }

    Member(IntFunction<StatusRuntimeException> answering, ServerCredentials credentials) throws IOException {
        this(answering, credentials, 0);
    }

    Member(IntFunction<StatusRuntimeException> answering, ServerCredentials credentials, int port) throws IOException {
        this.answering = answering;
        this.server = Grpc.newServerBuilderForPort(port, credentials).addService(this).intercept(this)
                .addTransportFilter(new ServerTransportFilter() {
                    @Override
                    public Attributes transportReady(Attributes attributes) {
                        connections.incrementAndGet();
                        return attributes;
                    }
                }).build().start();
    }

    /** Returns the error of a follower; {@code leader} is empty if the follower does not know the leader. */
    static StatusRuntimeException refusal(String leader) {
        ErrorInfo.Builder info = ErrorInfo.newBuilder().setDomain("topicpolicies").setReason("NOT_LEADER").putMetadata("namespace", "t/n");
        if (!leader.isEmpty()) {
            info.putMetadata("leader", leader);
        }
        return error(Status.Code.UNAVAILABLE, info.build());
    }

    /** Returns the error of a sidecar that does not know the outcome of a change. */
    static StatusRuntimeException outcomeUnknown() {
        return error(Status.Code.DEADLINE_EXCEEDED, "OUTCOME_UNKNOWN");
    }

    /** Returns an error of the service with a reason. */
    static StatusRuntimeException error(Status.Code code, String reason) {
        return error(code, ErrorInfo.newBuilder().setDomain("topicpolicies").setReason(reason).build());
    }

    /** Returns an error with these details. */
    static StatusRuntimeException error(Status.Code code, ErrorInfo info) {
        return StatusProto.toStatusRuntimeException(com.google.rpc.Status.newBuilder().setCode(code.value()).setMessage("A sentence.")
                .addDetails(Any.pack(info)).build());
    }

    String address() {
        return "localhost:" + port();
    }

    int port() {
        return server.getPort();
    }

    /** Returns how many changes arrived. */
    int changeCount() {
        return requestIds.size();
    }

    /** Returns, for each call that arrived, the number of previous attempts in gRPC's metadata; 0 if there is none. */
    List<String> repeatedByGrpc() {
        return seen.stream().map(headers -> Objects.requireNonNullElse(headers.get(REPEATED), "0")).toList();
    }

    @Override
    public void close() {
        server.shutdownNow();
    }

    @Override
    public <Q, A> ServerCall.Listener<Q> interceptCall(ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
        seen.add(headers);
        return new ForwardingServerCallListener.SimpleForwardingServerCallListener<>(next.startCall(call, headers)) {
            @Override
            public void onCancel() {
                cancelled.incrementAndGet();
                super.onCancel();
            }
        };
    }

    @Override
    public void updatePolicy(UpdatePolicyRequest request, StreamObserver<UpdatePolicyResponse> answer) {
        answer(request.getRequestId(), UPDATED, answer);
    }

    @Override
    public void deletePolicy(DeletePolicyRequest request, StreamObserver<DeletePolicyResponse> answer) {
        answer(request.getRequestId(), DELETED, answer);
    }

    private synchronized <A> void answer(String requestId, A taken, StreamObserver<A> answer) {
        requestIds.add(requestId);
        answer(answering.apply(requestIds.size()), taken, answer);
    }

    private static <A> void answer(StatusRuntimeException error, A taken, StreamObserver<A> answer) {
        if (error == null) {
            answer.onNext(taken);
            answer.onCompleted();
        } else if (error != SILENCE) {
            answer.onError(error);
        }
    }

    @Override
    public void getPolicy(GetPolicyRequest request, StreamObserver<GetPolicyResponse> answer) {
        answer(reading.apply(reads.incrementAndGet()), found(request), answer);
    }

    @Override
    public void listPolicies(ListPoliciesRequest request, StreamObserver<ListPoliciesResponse> answer) {
        answer(reading.apply(reads.incrementAndGet()), ListPoliciesResponse.newBuilder().setNextPageToken(nextPage).build(), answer);
    }

    @Override
    public void listHistory(ListHistoryRequest request, StreamObserver<ListHistoryResponse> answer) {
        answer(reading.apply(reads.incrementAndGet()), ListHistoryResponse.newBuilder().setNextPageToken(nextPage).build(), answer);
    }

    /** Answers each change of each batch separately, as a call of its own. */
    @Override
    public StreamObserver<UpdatePoliciesRequest> updatePolicies(StreamObserver<UpdatePoliciesResponse> answer) {
        streams.incrementAndGet();
        return new StreamObserver<>() {
            private boolean open = true;

            @Override
            public void onNext(UpdatePoliciesRequest batch) {
                batches.add(batch);
                for (PolicyChangeRequest change : batch.getChangesList()) {
                    open = open && answerOne(change, answer);
                }
            }

            @Override
            public void onError(Throwable error) {
                cancelled.incrementAndGet();
            }

            @Override
            public void onCompleted() {
                answer.onCompleted();
            }
        };
    }

    /** Answers one change of a stream; returns whether the stream stays open. */
    private synchronized boolean answerOne(PolicyChangeRequest change, StreamObserver<UpdatePoliciesResponse> answer) {
        requestIds.add(change.hasUpdate() ? change.getUpdate().getRequestId() : change.getDelete().getRequestId());
        PolicyChangeResult.Builder result = PolicyChangeResult.newBuilder().setSequence(change.getSequence());
        StatusRuntimeException error = answering.apply(requestIds.size());
        if (error == SILENCE) {
            return true;
        }
        if (error != null && !hasDetails(error)) {
            answer.onError(error); // the stream breaks
            return false;
        }
        if (error != null) {
            result.setError(StatusProto.fromThrowable(error));
        } else if (change.hasUpdate()) {
            result.setUpdated(UPDATED);
        } else {
            result.setDeleted(DELETED);
        }
        answer.onNext(UpdatePoliciesResponse.newBuilder().addResults(result).build());
        return true;
    }

    private static boolean hasDetails(StatusRuntimeException error) {
        com.google.rpc.Status details = StatusProto.fromThrowable(error);
        return details != null && details.getDetailsCount() > 0;
    }

    /** Sends SYNCED for an empty namespace, and then nothing. */
    @Override
    public void watchPolicies(WatchPoliciesRequest request, StreamObserver<WatchPoliciesResponse> answer) {
        watches.incrementAndGet();
        answer.onNext(WatchPoliciesResponse.newBuilder().addEvents(WatchEvent.newBuilder().setNamespace(request.getNamespaces(0))
                .setBookmark(Bookmark.newBuilder().setKind(BookmarkKind.BOOKMARK_KIND_SYNCED).setToken(WatchToken.newBuilder().setLog("a")))).build());
    }

    private static GetPolicyResponse found(GetPolicyRequest request) {
        GetPolicyResponse.Builder answer = GetPolicyResponse.newBuilder();
        request.getScopesList().forEach(scope -> answer.addDocuments(PolicyDocument.newBuilder().setTopic(request.getTopic()).setScope(scope)));
        return answer.build();
    }
}
