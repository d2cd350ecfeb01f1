package topicpolicies.client;

import io.grpc.Channel;
import java.time.Duration;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import topicpolicies.v1.DeletePolicyRequest;
import topicpolicies.v1.GetPolicyRequest;
import topicpolicies.v1.ListPoliciesRequest;
import topicpolicies.v1.ListPoliciesResponse;
import topicpolicies.v1.ScopedDelete;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.TopicPoliciesServiceGrpc.TopicPoliciesServiceStub;
import topicpolicies.v1.UpdatePolicyResponse;

/**
 * Changes, reads and follows topic policies. It may be used by any number of threads; close it when it is no longer needed.
 *
 * <p>Each call comes in two forms: {@code get} waits, {@code getAsync} gives a future. Both fail with {@link TopicPoliciesException} or one
 * of its kinds. Futures complete on the client's executor; do not block there.
 */
public final class TopicPoliciesClient implements AutoCloseable {
    private final Line line;
    private final Calls calls;
    private final Executor executor;
    private final Set<Watch> watches = ConcurrentHashMap.newKeySet();
    private volatile boolean closed;

    private TopicPoliciesClient(ClientOptions options, Line line, RetryPolicy retries) {
        this.line = line;
        this.executor = options.executor().orElseGet(java.util.concurrent.ForkJoinPool::commonPool);
        this.calls = new Calls(line, retries, options.timeout(), executor);
    }

    /** A client; the first call connects. */
    public static TopicPoliciesClient open(ClientOptions options) {
        return open(options, options.retries() ? RetryPolicy.DEFAULT : RetryPolicy.NONE);
    }

    static TopicPoliciesClient open(ClientOptions options, RetryPolicy retries) {
        return new TopicPoliciesClient(options, Line.to(options, retries), retries);
    }

    /** A client of a service without TLS on this machine or behind a proxy that does it. */
    public static TopicPoliciesClient open(String target) {
        return open(ClientOptions.of(target));
    }

    /**
     * A client on an open channel, which stays open when the client is closed; the options say nothing of the connection then, and the client
     * follows no leader.
     */
    public static TopicPoliciesClient on(Channel channel, ClientOptions options) {
        return new TopicPoliciesClient(options, Line.on(channel, options), options.retries() ? RetryPolicy.DEFAULT : RetryPolicy.NONE);
    }

    /** Reads one document; an absent one is no error. */
    public Document get(String topic, Scope scope) {
        return Calls.await(getAsync(topic, scope, ""));
    }

    /**
     * Reads one document.
     *
     * @param topic the topic
     * @param scope in which clusters
     * @param atLeast a version of this document, as an update returned it, that the answer must have reached; empty: the newest known
     */
    public CompletableFuture<Document> getAsync(String topic, Scope scope, String atLeast) {
        GetPolicyRequest request = GetPolicyRequest.newBuilder().setTopic(topic).setScope(scope.message()).setAtLeast(atLeast).build();
        return calls.read(TopicPoliciesServiceStub::getPolicy, request).thenApply(Document::of);
    }

    /** Changes some fields of one document, and no others. */
    public UpdateResult update(Update update) {
        return Calls.await(updateAsync(update));
    }

    /** Changes the named fields of the LOCAL document, and no others; what is named and not set is cleared. */
    public UpdateResult update(String topic, TopicPolicies policies, String... mask) {
        return update(Update.of(topic, policies, mask));
    }

    /** Changes some fields of one document, and no others. */
    public CompletableFuture<UpdateResult> updateAsync(Update update) {
        return updateAsync(update, 1);
    }

    CompletableFuture<UpdateResult> updateAsync(Update update, int attempt) {
        CompletableFuture<UpdatePolicyResponse> answered = update.validateOnly()
                ? calls.dryRun(TopicPoliciesServiceStub::updatePolicy, update.message())
                : calls.change(TopicPoliciesServiceStub::updatePolicy, update.message(), update.topic(), update.requestId());
        return answered.thenApply(answer -> UpdateResult.of(answer, attempt));
    }

    /** Changes the LOCAL document by editing a copy of it; see {@link Edit}. */
    public UpdateResult edit(String topic, Consumer<TopicPolicies.Builder> change) {
        return edit(Edit.of(topic, change));
    }

    /** Changes a document by editing a copy of it; see {@link Edit}. */
    public UpdateResult edit(Edit edit) {
        return Calls.await(editAsync(edit));
    }

    /** Changes a document by editing a copy of it; fails with {@link ConflictException} if others were faster again and again. */
    public CompletableFuture<UpdateResult> editAsync(Edit edit) {
        CompletableFuture<Document> start =
                edit.start().map(CompletableFuture::completedFuture).orElseGet(() -> getAsync(edit.topic(), edit.scope(), ""));
        return start.thenCompose(document -> new EditLoop(this, edit, this::later).attempt(document, 1));
    }

    /** Deletes the documents of a topic in some scopes: one may fail and the other succeed, so look at each result. */
    public List<DeleteResult> delete(String topic, Collection<Scope> scopes) {
        return Calls.await(deleteAsync(topic, scopes));
    }

    /** Deletes the documents of a topic in some scopes. */
    public CompletableFuture<List<DeleteResult>> deleteAsync(String topic, Collection<Scope> scopes) {
        DeletePolicyRequest.Builder request = DeletePolicyRequest.newBuilder().setTopic(topic).setRequestId(UUID.randomUUID().toString());
        scopes.forEach(scope -> request.addDeletes(ScopedDelete.newBuilder().setScope(scope.message())));
        return calls.change(TopicPoliciesServiceStub::deletePolicy, request.build(), topic, request.getRequestId())
                .thenApply(answer -> answer.getResultsList().stream().map(each -> DeleteResult.of(answer.getTopic(), each)).toList());
    }

    /** The documents of a namespace in both scopes, ordered by topic and scope, page by page as they are asked for. */
    public Iterable<Document> list(String namespace) {
        return () -> new Pages(namespace);
    }

    /**
     * Follows documents: a snapshot, then changes. It resumes by itself where it broke, and starts over with a snapshot where it can't.
     *
     * @param selection what to follow
     * @param listener is told one event at a time, in order; while it is busy, the service waits and nobody else is delayed
     */
    public Watch watch(Selection selection, Watch.Listener listener) {
        if (closed) {
            throw TopicPoliciesException.clientClosed();
        }
        Watch watch = new Watch(line, new WatchSession(selection), listener, executor, watches::remove);
        watches.add(watch);
        watch.start();
        return watch;
    }

    /** A local, always current copy of what is selected. Close it when it is no longer needed. */
    public PolicyCache cache(Selection selection) {
        return new PolicyCache(this, selection, executor);
    }

    /** Ends all watches and caches, and the connections. */
    @Override
    public void close() {
        closed = true;
        List.copyOf(watches).forEach(Watch::close);
        line.close();
        calls.close();
    }

    private Executor later(Duration pause) {
        return CompletableFuture.delayedExecutor(pause.toNanos(), TimeUnit.NANOSECONDS, executor);
    }

    private final class Pages implements Iterator<Document> {
        private final String namespace;
        private Iterator<Document> page = List.<Document>of().iterator();
        private String next = "";
        private boolean last;

        Pages(String namespace) {
            this.namespace = namespace;
        }

        @Override
        public boolean hasNext() {
            while (!page.hasNext() && !last) {
                ListPoliciesRequest request = ListPoliciesRequest.newBuilder().setNamespace(namespace).setPageToken(next).build();
                ListPoliciesResponse answer = Calls.await(calls.read(TopicPoliciesServiceStub::listPolicies, request));
                page = answer.getEntriesList().stream().map(Document::of).iterator();
                next = answer.getNextPageToken();
                last = next.isEmpty();
            }
            return page.hasNext();
        }

        @Override
        public Document next() {
            if (!hasNext()) {
                throw new java.util.NoSuchElementException();
            }
            return page.next();
        }
    }
}
