package topicpolicies.broker;

import com.google.protobuf.Any;
import com.google.protobuf.Duration;
import com.google.rpc.ErrorInfo;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.StatusException;
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
import topicpolicies.v1.ChangeOutcome;
import topicpolicies.v1.ChangeResult;
import topicpolicies.v1.DeletePolicyRequest;
import topicpolicies.v1.GetPolicyRequest;
import topicpolicies.v1.PolicyChange;
import topicpolicies.v1.PolicyDocument;
import topicpolicies.v1.Scope;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.TopicPoliciesServiceGrpc.TopicPoliciesServiceImplBase;
import topicpolicies.v1.UpdatePolicyRequest;
import topicpolicies.v1.WatchEvent;
import topicpolicies.v1.WatchPoliciesRequest;
import topicpolicies.v1.WatchPoliciesResponse;

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
    /** Whether another writer changes the document before each update with a precondition, which therefore fails. */
    volatile boolean contended;
    /** The setting that the other writer changes. */
    volatile String contendedField = "message_ttl_in_seconds";
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
    public void updatePolicy(UpdatePolicyRequest request, StreamObserver<ChangeResult> answer) {
        updates.add(request);
        updatesAllowed.acquireUninterruptibly();
        if (request.getPolicies().getMaxMessageSize() == REFUSED) {
            answer.onError(Status.INVALID_ARGUMENT.withDescription("It is refused.").asException());
            return;
        }
        if (contended && request.hasPrecondition()) {
            answer.onError(changedMeanwhile(request));
            return;
        }
        synchronized (this) {
            String before = String.valueOf(version);
            TopicPolicies.Builder merged = documents.getOrDefault(request.getTopic() + request.getScope(), TopicPolicies.getDefaultInstance()).toBuilder();
            TopicPolicies.getDescriptor().getFields().stream().filter(field -> request.getUpdateMask().getPathsList().contains(field.getName()))
                    .forEach(field -> merged.setField(field, request.getPolicies().getField(field)));
            documents.put(request.getTopic() + request.getScope(), merged.build());
            version++;
            answer.onNext(ChangeResult.newBuilder().setDocument(document(request.getTopic(), request.getScope()))
                    .setPreviousVersion(before).setOutcome(ChangeOutcome.CHANGE_OUTCOME_APPLIED).setRequestId(request.getRequestId()).build());
        }
        answer.onCompleted();
    }

    private synchronized StatusException changedMeanwhile(UpdatePolicyRequest request) {
        documents.compute(request.getTopic() + request.getScope(), (key, known) -> (known == null ? TopicPolicies.newBuilder() : known.toBuilder())
                .setField(TopicPolicies.getDescriptor().findFieldByName(contendedField), ++version).build());
        return failure(Status.Code.ABORTED.value(), "PRECONDITION_FAILED");
    }

    private static StatusException failure(int code, String reason) {
        return StatusProto.toStatusException(com.google.rpc.Status.newBuilder().setCode(code).setMessage("It fails.")
                .addDetails(Any.pack(ErrorInfo.newBuilder().setDomain("topicpolicies").setReason(reason).build())).build());
    }

    @Override
    public synchronized void getPolicy(GetPolicyRequest request, StreamObserver<PolicyDocument> answer) {
        answer.onNext(document(request.getTopic(), request.getScope()).build());
        answer.onCompleted();
    }

    private PolicyDocument.Builder document(String topic, Scope scope) {
        PolicyDocument.Builder document = PolicyDocument.newBuilder().setTopic(topic).setScope(scope).setVersion(String.valueOf(version));
        TopicPolicies policies = documents.get(topic + scope);
        return policies == null ? document : document.setPolicies(policies);
    }

    @Override
    public synchronized void deletePolicy(DeletePolicyRequest request, StreamObserver<ChangeResult> answer) {
        deletes.add(request);
        int code = deletesFail.getOrDefault(request.getScope(), Status.Code.OK).value();
        if (!deletesFailLater.isEmpty()) {
            deletesFail.put(request.getScope(), deletesFailLater.remove());
        }
        if (code != 0) {
            answer.onError(failure(code, code == Status.Code.NOT_FOUND.value() ? "NAMESPACE_NOT_FOUND" : "WHY"));
            return;
        }
        answer.onNext(ChangeResult.newBuilder().setOutcome(ChangeOutcome.CHANGE_OUTCOME_APPLIED)
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
        return WatchEvent.newBuilder().setNamespace(namespace).setChange(PolicyChange.newBuilder().setDocument(PolicyDocument.newBuilder().setTopic(topic).setPolicies(policies).setScope(Scope.SCOPE_LOCAL)
                        .setVersion(String.valueOf(version))));
    }

    /** Returns the bookmark that ends a snapshot. */
    static WatchEvent.Builder synced(String namespace) {
        return WatchEvent.newBuilder().setNamespace(namespace).setResumeToken("here")
                .setBookmark(Bookmark.newBuilder().setSynced(true).setAge(Duration.getDefaultInstance()));
    }

    private static WatchPoliciesResponse response(WatchEvent.Builder event) {
        return WatchPoliciesResponse.newBuilder().addEvents(event).build();
    }
}
