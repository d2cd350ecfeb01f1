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
 * Changes, reads and follows topic policies. It may be used by any number of threads; close it when it is no longer needed.
 *
 * <p>Each call comes in two forms: {@code get} waits, {@code getAsync} gives a future, and whoever cancels that gives the call up. Both
 * fail with {@link TopicPoliciesException} or one of its kinds. Futures complete on the client's executor; do not block there.
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

    /** A client; the first call connects. */
    public static TopicPoliciesClient open(ClientOptions options) {
        return open(options, options.retries() ? RetryPolicy.DEFAULT : RetryPolicy.NONE);
    }

    static TopicPoliciesClient open(ClientOptions options, RetryPolicy retries) {
        return new TopicPoliciesClient(options, Line.to(options, retries), retries);
    }

    /** A client with the default options; see {@link ClientOptions#of}. */
    public static TopicPoliciesClient open(String target) {
        return open(ClientOptions.of(target).build());
    }

    /**
     * A client on an open channel, which stays open when the client is closed; the options say nothing of the connection then, and the
     * client follows no leader.
     */
    public static TopicPoliciesClient on(Channel channel, ClientOptions options) {
        return new TopicPoliciesClient(options, Line.on(channel, options), options.retries() ? RetryPolicy.DEFAULT : RetryPolicy.NONE);
    }

    /** The generated stub, with the metadata of this client's calls, at the address that it reads from. It repeats no changes. */
    public TopicPoliciesServiceStub stub() {
        return line.stub(line.routes().address());
    }

    /** Changes some fields of one document, and no others. */
    public UpdateResult update(Update update) {
        return Calls.await(updateAsync(update));
    }

    /** Changes the named fields of the LOCAL document; what is named and not set is cleared. Without names: what is set. */
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
        return Calls.await(editAsync(edit));
    }

    /** Changes a document by editing a copy of it; fails with {@link ConflictException} if others were faster again and again. */
    public CompletableFuture<UpdateResult> editAsync(Edit edit) {
        return new EditLoop(this, edit, pauses, edit.timeout().orElse(options.timeout())).start();
    }

    /** Deletes the document of a topic in one scope. */
    public DeleteResult delete(String topic, Scope scope) {
        return delete(Delete.of(topic).scope(scope).build());
    }

    /** Deletes one document. */
    public DeleteResult delete(Delete deletion) {
        return Calls.await(deleteAsync(deletion));
    }

    /** Deletes one document. */
    public CompletableFuture<DeleteResult> deleteAsync(Delete deletion) {
        var question = question(TopicPoliciesServiceStub::deletePolicy, deletion.message(), answer -> DeleteResult.of(answer.message()),
                deletion.timeout());
        return deletion.message().getValidateOnly() ? calls.dryRun(question)
                : calls.change(question, TopicNames.namespaceOf(deletion.topic()), deletion.requestId());
    }

    /** Makes many changes, in batches; gives what became of each, in their order. One that fails concerns no other one. */
    public List<ChangeResult> updateMany(Iterable<? extends Change> changes) {
        List<ChangeResult> results = new ArrayList<>();
        Calls.await(updateManyAsync(changes, results::add));
        results.sort(Comparator.comparingLong(ChangeResult::index));
        return results;
    }

    /**
     * Makes many changes, in batches. Those of one document are made in their order.
     *
     * @param changes the changes. A thread of its own takes them, some ahead of what is told, so they may still be coming, and need not fit
     *     into memory
     * @param listener is told what became of each, one at a time, in the order in which they are settled; while it is busy no others are
     *     told
     * @return completes when all was told. If it fails, or is cancelled, changes that were not told of may or may not have been made
     */
    public CompletableFuture<Void> updateManyAsync(Iterable<? extends Change> changes, Consumer<? super ChangeResult> listener) {
        UpdateMany many = new UpdateMany(line, retries, pauses, options.timeout(), executor, changes, listener);
        open.add(many::close, many.done());
        many.start();
        return many.done();
    }

    /** Reads the LOCAL document of a topic; an absent one is no error. */
    public Document get(String topic) {
        return get(Read.of(topic).build());
    }

    /** Reads one document; an absent one is no error. */
    public Document get(String topic, Scope scope) {
        return get(Read.of(topic).scope(scope).build());
    }

    /** Reads one document; an absent one is no error. */
    public Document get(Read read) {
        return Calls.await(getAsync(read));
    }

    /** Reads one document; an absent one is no error. */
    public CompletableFuture<Document> getAsync(Read read) {
        Scope scope = read.scope().orElse(Scope.LOCAL);
        return got(read, List.of(scope), answer -> answered(answer, scope));
    }

    /** Reads the documents of a topic in both scopes at once. */
    public ScopedDocuments getBoth(String topic) {
        return getBoth(Read.of(topic).build());
    }

    /** Reads the documents of a topic in both scopes at once; the read names none. */
    public ScopedDocuments getBoth(Read read) {
        return Calls.await(getBothAsync(read));
    }

    /** Reads the documents of a topic in both scopes at once; the read names none. */
    public CompletableFuture<ScopedDocuments> getBothAsync(Read read) {
        if (read.scope().isPresent()) {
            throw new IllegalArgumentException("a read of both scopes names none");
        }
        return got(read, List.of(Scope.values()),
                answer -> new ScopedDocuments(answered(answer, Scope.LOCAL), answered(answer, Scope.GLOBAL)));
    }

    /** Reads what holds for a topic, as brokers enforce it. */
    public EffectivePolicies effective(String topic) {
        return effective(EffectiveRead.of(topic).build());
    }

    /** Reads what holds for a topic, and which level says so. */
    public EffectivePolicies effective(EffectiveRead read) {
        return Calls.await(effectiveAsync(read));
    }

    /** Reads what holds for a topic, and which level says so. */
    public CompletableFuture<EffectivePolicies> effectiveAsync(EffectiveRead read) {
        return calls.read(question(TopicPoliciesServiceStub::getEffectivePolicy, read.message(), EffectivePolicies::of, read.timeout()));
    }

    /** The documents of a namespace in both scopes. */
    public DocumentList list(String namespace) {
        return list(Listing.of(namespace).build());
    }

    /** The documents of a namespace. */
    public DocumentList list(Listing listing) {
        return new DocumentList(listing.namespace(), token -> Calls.await(calls.read(question(
                TopicPoliciesServiceStub::listPolicies, listing.page(token), Function.<Answered<ListPoliciesResponse>>identity(),
                listing.timeout()))));
    }

    /** What happened to the documents of a topic or a namespace. */
    public History history(HistoryQuery query) {
        return new History(token -> Calls.await(calls.read(question(
                TopicPoliciesServiceStub::listHistory, query.page(token), Function.<Answered<ListHistoryResponse>>identity(),
                query.timeout()))));
    }

    /** What the server is, and what its limits are. */
    public GetServerInfoResponse serverInfo() {
        return Calls.await(serverInfoAsync());
    }

    /** What the server is, and what its limits are. */
    public CompletableFuture<GetServerInfoResponse> serverInfoAsync() {
        return serverInfoAsync(options.timeout());
    }

    /** What the server is, and what its limits are; {@code timeout} is how long asking may take in all. */
    public CompletableFuture<GetServerInfoResponse> serverInfoAsync(Duration timeout) {
        return calls.read(question(TopicPoliciesServiceStub::getServerInfo, GetServerInfoRequest.getDefaultInstance(),
                Answered<GetServerInfoResponse>::message, Optional.of(ClientOptions.positive(timeout))));
    }

    /**
     * Follows documents: a snapshot, then changes. It resumes by itself where it broke.
     *
     * @param selection what to follow
     * @param listener is told one event at a time, in order; while it is busy, the service waits and nobody else is delayed
     */
    public Watch watch(Selection selection, Watch.Listener listener) {
        Watch watch = new Watch(line, new WatchSession(selection), listener, pauses);
        open.add(watch::close, watch.whenEnded());
        watch.start(executor);
        return watch;
    }

    /** A local, always current copy of what is selected. Close it when it is no longer needed. */
    public PolicyCache cache(Selection selection) {
        return new PolicyCache(this, selection, executor);
    }

    /** A local, always current copy of all topics of some namespaces. */
    public PolicyCache cache(String... namespaces) {
        return cache(Selection.ofNamespaces(namespaces).build());
    }

    /** Ends all calls, watches and caches, and the connections. */
    @Override
    public void close() {
        open.close();
        line.close();
        calls.close();
        pauses.close();
    }

    /** The address, or several; a client on a given channel has those that its options say, and goes nowhere. */
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
