package topicpolicies.broker;

import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Semaphore;
import topicpolicies.v1.Bookmark;
import topicpolicies.v1.BookmarkKind;
import topicpolicies.v1.DeletePolicyRequest;
import topicpolicies.v1.DeletePolicyResponse;
import topicpolicies.v1.GetPolicyRequest;
import topicpolicies.v1.GetPolicyResponse;
import topicpolicies.v1.PolicyChange;
import topicpolicies.v1.ScopedDelete;
import topicpolicies.v1.ScopedDeleteResult;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.TopicPoliciesServiceGrpc.TopicPoliciesServiceImplBase;
import topicpolicies.v1.UpdateOutcome;
import topicpolicies.v1.UpdatePolicyRequest;
import topicpolicies.v1.UpdatePolicyResponse;
import topicpolicies.v1.WatchPoliciesRequest;
import topicpolicies.v1.WatchPoliciesResponse;

/** As much of a sidecar as the plug-in's own rules need: it takes whole documents, refuses one value, and can be made to wait. */
final class FakeSidecar extends TopicPoliciesServiceImplBase implements AutoCloseable {
    /** A value of max_message_size that is refused. */
    static final int REFUSED = 666;

    final List<UpdatePolicyRequest> updates = new CopyOnWriteArrayList<>();
    final List<DeletePolicyRequest> deletes = new CopyOnWriteArrayList<>();
    /** How deletes fail; OK: they do not. */
    volatile Status.Code deletesFail = Status.Code.OK;
    /** Whether the call fails then, or each scope of it. */
    volatile boolean deletesFailWhole = true;
    /** What further deletes do after the next has failed. */
    final Queue<Status.Code> deletesFailLater = new ConcurrentLinkedQueue<>();
    /** Each update takes one. */
    final Semaphore updatesAllowed = new Semaphore(1000);
    private final Map<String, TopicPolicies> documents = new HashMap<>();
    private final List<StreamObserver<WatchPoliciesResponse>> watches = new ArrayList<>();
    private final Server server;
    private int version = 100;

    FakeSidecar() throws IOException {
        server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create()).addService(this).build().start();
    }

    String target() {
        return "localhost:" + server.getPort();
    }

    @Override
    public void close() {
        server.shutdownNow();
    }

    @Override
    public void updatePolicy(UpdatePolicyRequest request, StreamObserver<UpdatePolicyResponse> answer) {
        updates.add(request);
        updatesAllowed.acquireUninterruptibly();
        if (request.getPolicies().getMaxMessageSize() == REFUSED) {
            answer.onError(Status.INVALID_ARGUMENT.withDescription("It is refused.").asException());
            return;
        }
        synchronized (this) {
            String before = String.valueOf(version);
            documents.put(request.getTopic() + request.getScope(), request.getPolicies());
            version++;
            answer.onNext(UpdatePolicyResponse.newBuilder().setTopic(request.getTopic()).setScope(request.getScope())
                    .setPolicies(request.getPolicies()).setVersion(String.valueOf(version)).setPreviousVersion(before)
                    .setOutcome(UpdateOutcome.UPDATE_OUTCOME_APPLIED).setRequestId(request.getRequestId()).build());
        }
        answer.onCompleted();
    }

    @Override
    public synchronized void getPolicy(GetPolicyRequest request, StreamObserver<GetPolicyResponse> answer) {
        TopicPolicies document = documents.get(request.getTopic() + request.getScope());
        GetPolicyResponse.Builder response = GetPolicyResponse.newBuilder().setTopic(request.getTopic()).setScope(request.getScope())
                .setExists(document != null).setVersion(String.valueOf(version));
        answer.onNext(document == null ? response.build() : response.setPolicies(document).build());
        answer.onCompleted();
    }

    @Override
    public void deletePolicy(DeletePolicyRequest request, StreamObserver<DeletePolicyResponse> answer) {
        deletes.add(request);
        Any details = Any.pack(ErrorInfo.newBuilder().setDomain("topicpolicies.v1").setReason("WHY").build());
        int code = deletesFail.value();
        deletesFail = deletesFailLater.isEmpty() ? deletesFail : deletesFailLater.remove();
        if (code != 0 && deletesFailWhole) {
            answer.onError(StatusProto.toStatusException(com.google.rpc.Status.newBuilder().setCode(code).setMessage("It fails.")
                    .addDetails(details).build()));
            return;
        }
        topicpolicies.v1.Status error = topicpolicies.v1.Status.newBuilder().setCode(code).setMessage("It fails.").addDetails(details).build();
        DeletePolicyResponse.Builder response = DeletePolicyResponse.newBuilder().setTopic(request.getTopic());
        for (ScopedDelete each : request.getDeletesList()) {
            ScopedDeleteResult.Builder result = ScopedDeleteResult.newBuilder().setScope(each.getScope());
            response.addResults(code == 0 ? result.setVersion("999") : result.setError(error));
        }
        answer.onNext(response.build());
        answer.onCompleted();
    }

    @Override
    public synchronized void watchPolicies(WatchPoliciesRequest request, StreamObserver<WatchPoliciesResponse> answer) {
        watches.add(answer);
        for (String namespace : request.getNamespacesList()) {
            answer.onNext(WatchPoliciesResponse.newBuilder().setBookmark(Bookmark.newBuilder().setNamespace(namespace)
                    .setKind(BookmarkKind.BOOKMARK_KIND_SYNCED).setToken(topicpolicies.v1.WatchToken.newBuilder().setLog("log"))).build());
        }
    }

    /** Tells all watches of a change. */
    synchronized void change(String namespace, String topic, TopicPolicies policies) {
        version++;
        PolicyChange.Builder change = PolicyChange.newBuilder().setNamespace(namespace).setTopic(topic).setExists(true).setPolicies(policies)
                .setScope(topicpolicies.v1.Scope.SCOPE_LOCAL).setVersion(String.valueOf(version)).setPosition(String.valueOf(version));
        watches.forEach(watch -> watch.onNext(WatchPoliciesResponse.newBuilder().setChange(change).build()));
    }
}
