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
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Semaphore;
import topicpolicies.v1.Bookmark;
import topicpolicies.v1.BookmarkKind;
import topicpolicies.v1.DeleteOutcome;
import topicpolicies.v1.DeletePolicyRequest;
import topicpolicies.v1.DeletePolicyResponse;
import topicpolicies.v1.GetPolicyRequest;
import topicpolicies.v1.GetPolicyResponse;
import topicpolicies.v1.PolicyChange;
import topicpolicies.v1.PolicyDocument;
import topicpolicies.v1.Scope;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.TopicPoliciesServiceGrpc.TopicPoliciesServiceImplBase;
import topicpolicies.v1.UpdateOutcome;
import topicpolicies.v1.UpdatePolicyRequest;
import topicpolicies.v1.UpdatePolicyResponse;
import topicpolicies.v1.WatchEvent;
import topicpolicies.v1.WatchPoliciesRequest;
import topicpolicies.v1.WatchPoliciesResponse;
import topicpolicies.v1.WatchToken;

/** A simplified sidecar for the plug-in's own rules: it stores whole documents, refuses one value, and can be made to wait or to fail. */
final class FakeSidecar extends TopicPoliciesServiceImplBase implements AutoCloseable {
    /** A value of max_message_size that is refused. */
    static final int REFUSED = 666;

    final List<UpdatePolicyRequest> updates = new CopyOnWriteArrayList<>();
    final List<DeletePolicyRequest> deletes = new CopyOnWriteArrayList<>();
    /** The status codes with which deletions fail, by scope; those of other scopes succeed. */
    final Map<Scope, Status.Code> deletesFail = new ConcurrentHashMap<>();
    /** Namespaces of which a new watch receives nothing. */
    final Set<String> silent = ConcurrentHashMap.newKeySet();
    /** The status codes of the deletions after the next one. */
    final Queue<Status.Code> deletesFailLater = new ConcurrentLinkedQueue<>();
    /** Each update takes one permit. */
    final Semaphore updatesAllowed = new Semaphore(1000);
    private final Map<String, TopicPolicies> documents = new HashMap<>();
    private final List<Watching> watches = new CopyOnWriteArrayList<>();
    private final Server server;
    private int version = 100;

    private record Watching(Set<String> namespaces, StreamObserver<WatchPoliciesResponse> answer) {
    }

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
            answer.onNext(UpdatePolicyResponse.newBuilder().setDocument(document(request.getTopic(), request.getScope()))
                    .setPreviousVersion(before).setOutcome(UpdateOutcome.UPDATE_OUTCOME_APPLIED).setRequestId(request.getRequestId()).build());
        }
        answer.onCompleted();
    }

    @Override
    public synchronized void getPolicy(GetPolicyRequest request, StreamObserver<GetPolicyResponse> answer) {
        GetPolicyResponse.Builder response = GetPolicyResponse.newBuilder();
        request.getScopesList().forEach(scope -> response.addDocuments(document(request.getTopic(), scope)));
        answer.onNext(response.build());
        answer.onCompleted();
    }

    private PolicyDocument.Builder document(String topic, Scope scope) {
        PolicyDocument.Builder document = PolicyDocument.newBuilder().setTopic(topic).setScope(scope).setVersion(String.valueOf(version));
        TopicPolicies policies = documents.get(topic + scope);
        return policies == null ? document : document.setPolicies(policies);
    }

    @Override
    public synchronized void deletePolicy(DeletePolicyRequest request, StreamObserver<DeletePolicyResponse> answer) {
        deletes.add(request);
        int code = deletesFail.getOrDefault(request.getScope(), Status.Code.OK).value();
        if (!deletesFailLater.isEmpty()) {
            deletesFail.put(request.getScope(), deletesFailLater.remove());
        }
        if (code != 0) {
            answer.onError(StatusProto.toStatusException(com.google.rpc.Status.newBuilder().setCode(code).setMessage("It fails.")
                    .addDetails(Any.pack(ErrorInfo.newBuilder().setDomain("topicpolicies").setReason("WHY").build())).build()));
            return;
        }
        answer.onNext(DeletePolicyResponse.newBuilder().setOutcome(DeleteOutcome.DELETE_OUTCOME_DELETED)
                .setDocument(PolicyDocument.newBuilder().setTopic(request.getTopic()).setScope(request.getScope()).setVersion("999")).build());
        answer.onCompleted();
    }

    @Override
    public synchronized void watchPolicies(WatchPoliciesRequest request, StreamObserver<WatchPoliciesResponse> answer) {
        watches.add(new Watching(Set.copyOf(request.getNamespacesList()), answer));
        for (String namespace : request.getNamespacesList()) {
            if (!silent.contains(namespace)) {
                answer.onNext(response(synced(namespace)));
            }
        }
    }

    /** Whether a namespace is watched. */
    boolean isWatched(String namespace) {
        return watches.stream().anyMatch(watch -> watch.namespaces().contains(namespace));
    }

    /** Sends an event to the watches of its namespace. */
    synchronized void send(WatchEvent.Builder event) {
        watches.stream().filter(watch -> watch.namespaces().contains(event.getNamespace())).forEach(watch -> watch.answer().onNext(response(event)));
    }

    /** Sends a change of a document. */
    synchronized void change(String namespace, String topic, TopicPolicies policies) {
        version++;
        send(changed(namespace, topic, policies));
    }

    /** Returns the event of a change at the newest version. */
    synchronized WatchEvent.Builder changed(String namespace, String topic, TopicPolicies policies) {
        return WatchEvent.newBuilder().setNamespace(namespace).setChange(PolicyChange.newBuilder().setPosition(String.valueOf(version))
                .setDocument(PolicyDocument.newBuilder().setTopic(topic).setPolicies(policies).setScope(Scope.SCOPE_LOCAL)
                        .setVersion(String.valueOf(version))));
    }

    /** Returns the bookmark that ends a snapshot. */
    static WatchEvent.Builder synced(String namespace) {
        return WatchEvent.newBuilder().setNamespace(namespace).setBookmark(Bookmark.newBuilder()
                .setKind(BookmarkKind.BOOKMARK_KIND_SYNCED).setToken(WatchToken.newBuilder().setLog("log")));
    }

    private static WatchPoliciesResponse response(WatchEvent.Builder event) {
        return WatchPoliciesResponse.newBuilder().addEvents(event).build();
    }
}
