package topicpolicies.client;

import io.grpc.Channel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.function.Consumer;
import java.util.function.Function;
import topicpolicies.v1.GetPolicyRequest;
import topicpolicies.v1.GetPolicyResponse;
import topicpolicies.v1.GetServerInfoRequest;
import topicpolicies.v1.GetServerInfoResponse;
import topicpolicies.v1.ListHistoryResponse;
import topicpolicies.v1.ListPoliciesResponse;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.TopicPoliciesServiceGrpc.TopicPoliciesServiceStub;

/**
 * Changes, reads and follows topic policies. Safe for use by multiple threads; close it when it is no longer needed.
 *
 * <p>Each call comes in two forms: {@code get} blocks, {@code getAsync} returns a future; cancelling the future ends the call. Both fail
 * with {@link TopicPoliciesException} or one of its subclasses. Futures complete on the client's executor; do not block there.
 *
 * <p>Interrupting a thread that blocks ends its call, also at the service. The method then throws a {@link TopicPoliciesException} with the
 * code CANCELLED and leaves the thread interrupted, as gRPC's blocking stubs do. If a change may have been made it is an {@link
 * OutcomeUnknownException}, with the request id with which to repeat the change; otherwise the change was certainly not made. If a thread
 * is already interrupted when it calls a blocking method, nothing is sent. A result that arrives at the same time as an interrupt is
 * returned. {@link #close} does not block.
 *
 * <p>A call, with all its repeats, and an edit are made in the {@link io.grpc.Context} of the caller, and end with it. Many changes, watches
 * and caches do not depend on it.
 */
public final class TopicPoliciesClient implements AutoCloseable {
    private final ClientOptions options;
    private final Line line;
    private final RetryPolicy retries;
    private final Executor executor;
    private final Pauses pauses;
    private final Calls calls;
    /** What is closed with the client. */
    private final OpenThings open = new OpenThings();

    private TopicPoliciesClient(ClientOptions options, Line line, RetryPolicy retries) {
        this.options = options;
        this.line = line;
        this.retries = retries;
        this.executor = options.executor().orElseGet(ForkJoinPool::commonPool);
        this.pauses = new Pauses(executor);
        this.calls = new Calls(line, retries, pauses);
    }

    /** Creates a client; the first call connects. */
    public static TopicPoliciesClient open(ClientOptions options) {
        return open(options, options.retries() ? RetryPolicy.DEFAULT : RetryPolicy.NONE);
    }

    static TopicPoliciesClient open(ClientOptions options, RetryPolicy retries) {
        return new TopicPoliciesClient(options, Line.to(options, retries), retries);
    }

    /** Creates a client with the default options; see {@link ClientOptions#of}. */
    public static TopicPoliciesClient open(String target) {
        return open(ClientOptions.of(target).build());
    }

    /**
     * Creates a client on an open channel, which stays open when the client is closed. The options' connection settings are ignored, and
     * the client follows no leaders.
     */
    public static TopicPoliciesClient on(Channel channel, ClientOptions options) {
        return new TopicPoliciesClient(options, Line.on(channel, options), options.retries() ? RetryPolicy.DEFAULT : RetryPolicy.NONE);
    }

    /** The generated stub, with the metadata of this client's calls, at the address for reads. It retries no changes. */
    public TopicPoliciesServiceStub stub() {
        return line.stub(line.routes().address());
    }

    /** Changes some fields of one document, and no others. */
    public UpdateResult update(Update update) {
        return Waiting.await(() -> updateAsync(update));
    }

    /**
     * Changes the named fields of the LOCAL document; a field that is named and not set is cleared. Without names, the fields that are set
     * are changed.
     */
    public UpdateResult update(String topic, TopicPolicies policies, String... mask) {
        return update(Update.of(topic).policies(policies).mask(mask).build());
    }

    /** Changes some fields of one document, and no others. */
    public CompletableFuture<UpdateResult> updateAsync(Update update) {
        var question = question(TopicPoliciesServiceStub::updatePolicy, update.message(), answer -> UpdateResult.of(answer.message()),
                update.timeout());
        return update.message().getValidateOnly() ? calls.dryRun(question)
                : calls.change(question, TopicNames.namespaceOf(update.topic()), update.requestId());
    }

    /** Changes the LOCAL document by editing a copy of it; see {@link Edit}. */
    public UpdateResult edit(String topic, Consumer<TopicPolicies.Builder> change) {
        return edit(Edit.of(topic, change).build());
    }

    /** Changes a document by editing a copy of it; see {@link Edit}. */
    public UpdateResult edit(Edit edit) {
        return Waiting.await(() -> editAsync(edit));
    }

    /** Changes a document by editing a copy of it; fails with {@link ConflictException} if other writers were faster again and again. */
    public CompletableFuture<UpdateResult> editAsync(Edit edit) {
        return new EditLoop(this, edit, pauses, edit.timeout().orElse(options.timeout())).start();
    }

    /** Deletes the document of a topic in one scope. If there is none, that is no error: the outcome is {@code DELETE_OUTCOME_ABSENT}. */
    public DeleteResult delete(String topic, Scope scope) {
        return delete(Delete.of(topic).scope(scope).build());
    }

    /**
     * Deletes one document. If there is none, that is no error (the outcome is {@code DELETE_OUTCOME_ABSENT}), unless an etag is given that
     * does not match the version of the absence: that is a {@link ConflictException}, as with a document.
     */
    public DeleteResult delete(Delete deletion) {
        return Waiting.await(() -> deleteAsync(deletion));
    }

    /** Deletes one document; see {@link #delete(Delete)}. */
    public CompletableFuture<DeleteResult> deleteAsync(Delete deletion) {
        var question = question(TopicPoliciesServiceStub::deletePolicy, deletion.message(), answer -> DeleteResult.of(answer.message()),
                deletion.timeout());
        return deletion.message().getValidateOnly() ? calls.dryRun(question)
                : calls.change(question, TopicNames.namespaceOf(deletion.topic()), deletion.requestId());
    }

    /**
     * Makes many changes, in batches. Returns the result of each, in the order of the changes. A change that fails does not affect the
     * others.
     *
     * @throws TopicPoliciesException with the code CANCELLED if the thread is interrupted. Any of the changes may or may not have been made;
     *     to learn it, call again with the same objects, which keep their request ids. If the thread was interrupted before, none was made
     */
    public List<ChangeResult> updateMany(Iterable<? extends Change> changes) {
        List<ChangeResult> results = new ArrayList<>();
        Waiting.await(() -> updateManyAsync(changes, results::add));
        results.sort(Comparator.comparingLong(ChangeResult::index));
        return results;
    }

    /**
     * Makes many changes, in batches. Changes of one document are made in their order.
     *
     * @param changes the changes. A separate thread reads them, somewhat ahead of the results, so the iteration may block for further
     *     changes, and they need not fit into memory
     * @param listener is called with the result of each change, one at a time, in the order in which the changes are settled; while it is
     *     busy, no further results are read
     * @return completes when the listener has got all results. If it fails, or is cancelled, changes without a result may or may not have
     *     been made
     */
    public CompletableFuture<Void> updateManyAsync(Iterable<? extends Change> changes, Consumer<? super ChangeResult> listener) {
        return updateManyAsync(changes, listener, UpdateMany.MOST_CHANGES);
    }

    /**
     * Makes many changes, in batches; see {@link #updateManyAsync(Iterable, Consumer)}.
     *
     * @param maxInFlight how many changes may be in flight at most: read, and not yet reported to the listener; by default 4,096
     * @throws IllegalArgumentException if {@code maxInFlight} is not positive
     */
    public CompletableFuture<Void> updateManyAsync(Iterable<? extends Change> changes, Consumer<? super ChangeResult> listener,
                                                   int maxInFlight) {
        if (maxInFlight < 1) {
            throw new IllegalArgumentException("maxInFlight must be positive");
        }
        UpdateMany many = new UpdateMany(line, retries, pauses, options.timeout(), executor, changes, listener, maxInFlight);
        open.add(many::close, many.done());
        many.start();
        return many.done();
    }

    /** Reads the LOCAL document of a topic. If there is none, the result has no policies; that is no error. */
    public Document get(String topic) {
        return get(Read.of(topic).build());
    }

    /** Reads one document. If there is none, the result has no policies; that is no error. */
    public Document get(String topic, Scope scope) {
        return get(Read.of(topic).scope(scope).build());
    }

    /** Reads one document. If there is none, the result has no policies; that is no error. */
    public Document get(Read read) {
        return Waiting.await(() -> getAsync(read));
    }

    /** Reads one document. If there is none, the result has no policies; that is no error. */
    public CompletableFuture<Document> getAsync(Read read) {
        Scope scope = read.scope().orElse(Scope.LOCAL);
        return got(read, List.of(scope), answer -> answered(answer, scope));
    }

    /** Reads the documents of a topic in both scopes in one call. */
    public ScopedDocuments getBoth(String topic) {
        return getBoth(Read.of(topic).build());
    }

    /** Reads the documents of a topic in both scopes in one call; the read must not set a scope. */
    public ScopedDocuments getBoth(Read read) {
        return Waiting.await(() -> getBothAsync(read));
    }

    /** Reads the documents of a topic in both scopes in one call; the read must not set a scope. */
    public CompletableFuture<ScopedDocuments> getBothAsync(Read read) {
        if (read.scope().isPresent()) {
            throw new IllegalArgumentException("a read of both scopes names none");
        }
        return got(read, List.of(Scope.values()),
                answer -> new ScopedDocuments(answered(answer, Scope.LOCAL), answered(answer, Scope.GLOBAL)));
    }

    /** Reads the effective policies of a topic, as brokers enforce them. */
    public EffectivePolicies effective(String topic) {
        return effective(EffectiveRead.of(topic).build());
    }

    /** Reads the effective policies of a topic, and the level that sets each value. */
    public EffectivePolicies effective(EffectiveRead read) {
        return Waiting.await(() -> effectiveAsync(read));
    }

    /** Reads the effective policies of a topic, and the level that sets each value. */
    public CompletableFuture<EffectivePolicies> effectiveAsync(EffectiveRead read) {
        return calls.read(question(TopicPoliciesServiceStub::getEffectivePolicy, read.message(), EffectivePolicies::of, read.timeout()));
    }

    /** Lists the documents of a namespace in both scopes. */
    public DocumentList list(String namespace) {
        return list(Listing.of(namespace).build());
    }

    /** Lists the documents of a namespace. */
    public DocumentList list(Listing listing) {
        return new DocumentList(listing.namespace(), token -> Waiting.await(() -> calls.read(question(
                TopicPoliciesServiceStub::listPolicies, listing.page(token), Function.<Answered<ListPoliciesResponse>>identity(),
                listing.timeout()))));
    }

    /** Reads the history of the documents of a topic or a namespace, as the server has recorded it. */
    public History history(HistoryQuery query) {
        return new History(token -> Waiting.await(() -> calls.read(question(
                TopicPoliciesServiceStub::listHistory, query.page(token), Function.<Answered<ListHistoryResponse>>identity(),
                query.timeout()))));
    }

    /** Reads the server's version, configuration and limits. */
    public GetServerInfoResponse serverInfo() {
        return Waiting.await(() -> serverInfoAsync());
    }

    /** Reads the server's version, configuration and limits. */
    public CompletableFuture<GetServerInfoResponse> serverInfoAsync() {
        return serverInfoAsync(options.timeout());
    }

    /** Reads the server's version, configuration and limits; {@code timeout} is how long the call may take in all. */
    public CompletableFuture<GetServerInfoResponse> serverInfoAsync(Duration timeout) {
        return calls.read(question(TopicPoliciesServiceStub::getServerInfo, GetServerInfoRequest.getDefaultInstance(),
                Answered<GetServerInfoResponse>::message, Optional.of(ClientOptions.positive(timeout))));
    }

    /**
     * Follows documents: a snapshot, then changes. When the stream breaks, the watch resumes where it was.
     *
     * @param selection what to follow
     * @param listener is called with one event at a time, in order; while it is busy, the service holds back this watch's further events
     *     and no others
     */
    public Watch watch(Selection selection, Watch.Listener listener) {
        Watch watch = new Watch(line, new WatchSession(selection), listener, pauses);
        open.add(watch::close, watch.whenEnded());
        watch.start(executor);
        return watch;
    }

    /** Keeps a local copy of the documents that are selected. Close the cache when it is no longer needed. */
    public PolicyCache cache(Selection selection) {
        return new PolicyCache(this, selection, executor);
    }

    /** Keeps a local copy of the documents of all topics of some namespaces. */
    public PolicyCache cache(String... namespaces) {
        return cache(Selection.ofNamespaces(namespaces).build());
    }

    /** Ends all calls, watches and caches, and closes the connections. */
    @Override
    public void close() {
        open.close();
        line.close();
        calls.close();
        pauses.close();
    }

    /** The address, or several. For a client on a given channel these come from the options, and are not used. */
    @Override
    public String toString() {
        return "TopicPoliciesClient[" + options.target() + (line.isClosed() ? ", closed" : "") + "]";
    }

    private <Q, A, R> Calls.Question<Q, A, R> question(Calls.Method<Q, A> method, Q message, Function<Answered<A>, R> reading,
                                                      Optional<Duration> timeout) {
        return new Calls.Question<>(method, message, reading, timeout.orElse(options.timeout()));
    }

    private <R> CompletableFuture<R> got(Read read, List<Scope> scopes,
                                         Function<Answered<GetPolicyResponse>, R> reading) {
        Calls.Method<GetPolicyRequest, GetPolicyResponse> method = TopicPoliciesServiceStub::getPolicy;
        return calls.read(question(method, read.message(scopes), reading, read.timeout()));
    }

    private static Document answered(Answered<GetPolicyResponse> answer, Scope scope) {
        return answer.message().getDocumentsList().stream().map(each -> Document.of(each, answer.unconfirmedSince()))
                .flatMap(Optional::stream).filter(each -> each.scope() == scope).findFirst()
                .orElseThrow(() -> TopicPoliciesException.unexpected("The service has not answered for the scope " + scope + "."));
    }
}
