package topicpolicies.client;

import com.google.gson.Gson;
import com.google.protobuf.FieldMask;
import io.grpc.CallCredentials;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ChannelCredentials;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.ConnectivityState;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.NameResolverRegistry;
import io.grpc.Status;
import io.grpc.TlsChannelCredentials;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;
import topicpolicies.v1.BatchUpdatePoliciesRequest;
import topicpolicies.v1.ChangeOutcome;
import topicpolicies.v1.ChangeResult;
import topicpolicies.v1.DeletePolicyRequest;
import topicpolicies.v1.EffectivePolicy;
import topicpolicies.v1.GetEffectivePolicyRequest;
import topicpolicies.v1.GetPolicyAsOfRequest;
import topicpolicies.v1.GetPolicyRequest;
import topicpolicies.v1.GetServerInfoRequest;
import topicpolicies.v1.HistoryEntry;
import topicpolicies.v1.ListHistoryRequest;
import topicpolicies.v1.ListHistoryResponse;
import topicpolicies.v1.ListPoliciesRequest;
import topicpolicies.v1.ListPoliciesResponse;
import topicpolicies.v1.PolicyChangeRequest;
import topicpolicies.v1.PolicyChangeResult;
import topicpolicies.v1.PolicyDocument;
import topicpolicies.v1.PolicyHistoryServiceGrpc;
import topicpolicies.v1.Precondition;
import topicpolicies.v1.Scope;
import topicpolicies.v1.ServerInfo;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.TopicPoliciesServiceGrpc;
import topicpolicies.v1.UpdatePolicyRequest;
import topicpolicies.v1.WatchEvent;
import topicpolicies.v1.WatchHistoryEvent;
import topicpolicies.v1.WatchHistoryRequest;
import topicpolicies.v1.WatchPoliciesRequest;

/**
 * A client of the topic policies service. Requests and answers are the generated messages. It is thread-safe, and has one channel.
 *
 * <p>Calls are repeated by gRPC, as {@code service_config.json} in this package says. Each change has a request id, so it is made once; this
 * client adds one if a request has none. Calls throw {@link TopicPoliciesException}; a change whose outcome is not known throws {@link
 * OutcomeUnknownException}. An interrupt ends a blocking call with CANCELLED. A deadline of the current {@link io.grpc.Context} that is
 * shorter than the client's timeout counts.
 */
public final class TopicPoliciesClient implements AutoCloseable {
    /** The service's default address. */
    public static final String DEFAULT_TARGET = "localhost:6680";

    private static final Metadata.Key<String> AUTHORIZATION = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
    private static final int LARGEST_ANSWER_BYTES = 64 << 20;
    private static final int LARGEST_REQUEST_BYTES = 8 << 20;
    private static final int MOST_CHANGES = 1000;
    private static final int MOST_BATCH_BYTES = 3 << 20;
    private static final int EDIT_ATTEMPTS = 16;
    private static final long LONGEST_EDIT_PAUSE_MILLIS = 500;
    private static final Set<String> CONFLICTS = Set.of("PRECONDITION_FAILED", "CONTENTION");

    static {
        NameResolverRegistry.getDefaultRegistry().register(new Addresses());
    }

    private final ManagedChannel connection;
    private final Channel channel;
    private final CallOptions options;
    private final Executor executor;
    private final Duration timeout;
    private final String actor;
    private final Set<Watch<?>> watches = ConcurrentHashMap.newKeySet();
    private volatile boolean closed;

    private TopicPoliciesClient(Builder builder) {
        ManagedChannelBuilder<?> made = Grpc.newChannelBuilder(builder.target, builder.credentials())
                .defaultServiceConfig(serviceConfig()).enableRetry().perRpcBufferLimit(LARGEST_REQUEST_BYTES)
                .maxInboundMessageSize(LARGEST_ANSWER_BYTES)
                .keepAliveTime(30, TimeUnit.SECONDS).keepAliveTimeout(10, TimeUnit.SECONDS); // detects a connection that died silently
        if (builder.authority != null) {
            made.overrideAuthority(builder.authority);
        }
        executor = builder.executor == null ? ForkJoinPool.commonPool() : builder.executor;
        connection = made.executor(executor).build();
        channel = ClientInterceptors.intercept(connection, builder.interceptors);
        options = builder.token == null ? CallOptions.DEFAULT : CallOptions.DEFAULT.withCallCredentials(new Bearer(builder.token));
        timeout = builder.timeout;
        actor = builder.actor;
    }

    /**
     * A builder of a client.
     *
     * @param target {@code host:port}, or another target of gRPC, such as {@code ipv4:10.0.0.1:6680,10.0.0.2:6680}: the first address that
     *     can be reached is used
     */
    public static Builder builder(String target) {
        return new Builder(target);
    }

    /** Updates one document. */
    public ChangeResult update(UpdatePolicyRequest request) {
        UpdatePolicyRequest sent = completed(request);
        return call(TopicPoliciesServiceGrpc.getUpdatePolicyMethod(), sent, idOfChange(sent.getRequestId(), sent.getValidateOnly()));
    }

    /**
     * Updates the LOCAL document of a topic.
     *
     * @param topic the topic
     * @param policies the values
     * @param paths the fields to change; one that is not set in {@code policies} is cleared. None: the fields that are set
     */
    public ChangeResult update(String topic, TopicPolicies policies, String... paths) {
        return update(UpdatePolicyRequest.newBuilder().setTopic(topic).setPolicies(policies).setUpdateMask(Masks.of(paths)).build());
    }

    /** Updates one document; the future fails as {@link #update(UpdatePolicyRequest)} does. */
    public CompletableFuture<ChangeResult> updateAsync(UpdatePolicyRequest request, Duration limit) {
        UpdatePolicyRequest sent = completed(request);
        return callAsync(TopicPoliciesServiceGrpc.getUpdatePolicyMethod(), sent, idOfChange(sent.getRequestId(), sent.getValidateOnly()), limit);
    }

    /** Deletes one document. */
    public ChangeResult delete(DeletePolicyRequest request) {
        DeletePolicyRequest sent = completed(request);
        return call(TopicPoliciesServiceGrpc.getDeletePolicyMethod(), sent, idOfChange(sent.getRequestId(), sent.getValidateOnly()));
    }

    /** Deletes the LOCAL document of a topic. */
    public ChangeResult delete(String topic) {
        return delete(DeletePolicyRequest.newBuilder().setTopic(topic).build());
    }

    /** Deletes one document; the future fails as {@link #delete(DeletePolicyRequest)} does. */
    public CompletableFuture<ChangeResult> deleteAsync(DeletePolicyRequest request, Duration limit) {
        DeletePolicyRequest sent = completed(request);
        return callAsync(TopicPoliciesServiceGrpc.getDeletePolicyMethod(), sent, idOfChange(sent.getRequestId(), sent.getValidateOnly()), limit);
    }

    /** Edits the LOCAL document of a topic; see {@link #edit(UpdatePolicyRequest, Consumer)}. */
    public ChangeResult edit(String topic, Consumer<TopicPolicies.Builder> change) {
        return edit(UpdatePolicyRequest.newBuilder().setTopic(topic).build(), change);
    }

    /**
     * Edits one document: reads it, lets a function change it, and sends what differs, with the version as the precondition. If another
     * writer was faster, all of it is repeated, up to 16 times. Without a difference nothing is sent.
     *
     * @param request the topic, the scope and further options; policies, mask, precondition and request id are set here
     * @param change changes the copy, and does nothing else: it may be called again
     */
    public ChangeResult edit(UpdatePolicyRequest request, Consumer<TopicPolicies.Builder> change) {
        GetPolicyRequest.Builder read = GetPolicyRequest.newBuilder().setTopic(request.getTopic()).setScope(request.getScope());
        for (int attempt = 1;; attempt++) {
            PolicyDocument document = get(read.build());
            if (request.getSkipIfAbsent() && !document.hasPolicies()) {
                return nothing(request, document, ChangeOutcome.CHANGE_OUTCOME_SKIPPED);
            }
            TopicPolicies.Builder copy = document.getPolicies().toBuilder();
            change.accept(copy);
            TopicPolicies after = copy.build();
            FieldMask mask = Masks.difference(document.getPolicies(), after);
            if (mask.getPathsCount() == 0) {
                return nothing(request, document, ChangeOutcome.CHANGE_OUTCOME_UNCHANGED);
            }
            try {
                return update(request.toBuilder().setPolicies(after).setUpdateMask(mask).clearRequestId()
                        .setPrecondition(Precondition.newBuilder().setVersion(document.getVersion())).build());
            } catch (TopicPoliciesException error) {
                if (!CONFLICTS.contains(error.reason()) || attempt == EDIT_ATTEMPTS) {
                    throw error;
                }
                read.setAtLeastVersion(error.metadata().getOrDefault("version", ""));
                pause(Math.min(10L << Math.min(attempt - 1, 6), LONGEST_EDIT_PAUSE_MILLIS), error);
            }
        }
    }

    /**
     * Makes any number of changes, in batches of at most 1,000 changes and 3 MiB, one after the other. Changes of one policy key are made in
     * this order; each change succeeds or fails alone, also if the call of its batch fails.
     *
     * @return the results, in the order of the changes; {@link TopicPoliciesException#of(com.google.rpc.Status)} converts an error
     */
    public List<PolicyChangeResult> batch(List<PolicyChangeRequest> changes) {
        List<PolicyChangeResult> results = new ArrayList<>(changes.size());
        BatchUpdatePoliciesRequest.Builder batch = BatchUpdatePoliciesRequest.newBuilder();
        long bytes = 0;
        for (PolicyChangeRequest change : changes) {
            PolicyChangeRequest sent = completed(change);
            if (batch.getChangesCount() == MOST_CHANGES || batch.getChangesCount() > 0 && bytes + sent.getSerializedSize() > MOST_BATCH_BYTES) {
                results.addAll(send(batch.build()));
                batch.clearChanges();
                bytes = 0;
            }
            batch.addChanges(sent);
            bytes += sent.getSerializedSize();
        }
        if (batch.getChangesCount() > 0) {
            results.addAll(send(batch.build()));
        }
        return results;
    }

    private List<PolicyChangeResult> send(BatchUpdatePoliciesRequest batch) {
        try {
            return call(TopicPoliciesServiceGrpc.getBatchUpdatePoliciesMethod(), batch, "").getResultsList();
        } catch (TopicPoliciesException error) {
            return batch.getChangesList().stream().map(change -> PolicyChangeResult.newBuilder().setError(error.status(idOfChange(change))).build())
                    .toList();
        }
    }

    /** Reads one document. */
    public PolicyDocument get(GetPolicyRequest request) {
        return call(TopicPoliciesServiceGrpc.getGetPolicyMethod(), request, "");
    }

    /** Reads one document. */
    public PolicyDocument get(String topic, Scope scope) {
        return get(GetPolicyRequest.newBuilder().setTopic(topic).setScope(scope).build());
    }

    /** Reads the LOCAL document of a topic. */
    public PolicyDocument get(String topic) {
        return get(topic, Scope.SCOPE_LOCAL);
    }

    /** Reads one document; the future fails as {@link #get(GetPolicyRequest)} does. */
    public CompletableFuture<PolicyDocument> getAsync(GetPolicyRequest request, Duration limit) {
        return callAsync(TopicPoliciesServiceGrpc.getGetPolicyMethod(), request, "", limit);
    }

    /** Reads the policies of a topic that brokers enforce, and the level that sets each. */
    public EffectivePolicy effective(GetEffectivePolicyRequest request) {
        return call(TopicPoliciesServiceGrpc.getGetEffectivePolicyMethod(), request, "");
    }

    /** Lists documents. The first page has the token from which a watch of the namespace misses nothing. */
    public Pages<ListPoliciesResponse, PolicyDocument> list(ListPoliciesRequest request) {
        return new Pages<>(token -> call(TopicPoliciesServiceGrpc.getListPoliciesMethod(), request.toBuilder().setPageToken(token).build(), ""),
                ListPoliciesResponse::getNextPageToken, ListPoliciesResponse::getDocumentsList);
    }

    /** Lists all documents of a namespace, {@code tenant/namespace}. */
    public Pages<ListPoliciesResponse, PolicyDocument> list(String namespace) {
        return list(ListPoliciesRequest.newBuilder().setNamespace(namespace).build());
    }

    /** Lists the history of a topic or a namespace. The pages also have gaps in the record. */
    public Pages<ListHistoryResponse, HistoryEntry> history(ListHistoryRequest request) {
        return new Pages<>(token -> call(PolicyHistoryServiceGrpc.getListHistoryMethod(), request.toBuilder().setPageToken(token).build(), ""),
                ListHistoryResponse::getNextPageToken, ListHistoryResponse::getEntriesList);
    }

    /** Reads a document as it was at a time or a version. */
    public PolicyDocument asOf(GetPolicyAsOfRequest request) {
        return call(PolicyHistoryServiceGrpc.getGetPolicyAsOfMethod(), request, "");
    }

    /** Returns facts about the server. */
    public ServerInfo serverInfo() {
        return call(TopicPoliciesServiceGrpc.getGetServerInfoMethod(), GetServerInfoRequest.getDefaultInstance(), "");
    }

    /** Watches documents, from the request's tokens if it has any. */
    public Watch<WatchEvent> watch(WatchPoliciesRequest request, Watch.Listener<WatchEvent> listener) {
        return started(Watch.of(Watch.POLICIES, request, request.getResumeTokensMap(), listener, this::connecting, options,
                executor));
    }

    /** Watches the history of namespaces: every event, from the request's positions if it has any. */
    public Watch<WatchHistoryEvent> watchHistory(WatchHistoryRequest request, Watch.Listener<WatchHistoryEvent> listener) {
        return started(Watch.of(Watch.HISTORY, request, request.getPositionsMap(), listener, this::connecting, options,
                executor));
    }

    /** Opens a cache of namespaces, {@code tenant/namespace}. */
    public PolicyCache cache(String... namespaces) {
        return cache(WatchPoliciesRequest.newBuilder().addAllNamespaces(Arrays.asList(namespaces)).build(), false);
    }

    /**
     * Opens a cache of what a request watches.
     *
     * @param request the topics and namespaces; its tokens are ignored
     * @param relentless whether the cache goes on also after errors that seem permanent, such as a lack of permission
     */
    public PolicyCache cache(WatchPoliciesRequest request, boolean relentless) {
        return PolicyCache.of(this, request, relentless);
    }

    /** Ends all calls, watches and caches, and closes the connection. */
    @Override
    public void close() {
        closed = true;
        watches.forEach(Watch::close);
        connection.shutdownNow();
    }

    private <E> Watch<E> started(Watch<E> watch) {
        watches.add(watch);
        watch.whenEnded().whenComplete((nothing, error) -> watches.remove(watch));
        if (closed) {
            watch.close();
        }
        watch.start();
        return watch;
    }

    private <Q, R> R call(MethodDescriptor<Q, R> method, Q request, String requestId) {
        try {
            return ClientCalls.blockingUnaryCall(connecting(), method, within(timeout), request);
        } catch (RuntimeException error) {
            throw TopicPoliciesException.of(error, requestId);
        }
    }

    private <Q, R> CompletableFuture<R> callAsync(MethodDescriptor<Q, R> method, Q request, String requestId, Duration limit) {
        CompletableFuture<R> future = new CompletableFuture<>();
        ClientCalls.asyncUnaryCall(connecting().newCall(method, within(limit)), request, new StreamObserver<R>() {
            private R answer;

            @Override
            public void onNext(R value) {
                answer = value;
            }

            @Override
            public void onError(Throwable error) {
                future.completeExceptionally(TopicPoliciesException.of(error, requestId));
            }

            @Override
            public void onCompleted() {
                future.complete(answer);
            }
        });
        return future;
    }

    /** Makes a new call connect at once, also after a server was gone for long: gRPC would wait for up to two minutes. */
    private Channel connecting() {
        if (connection.getState(false) == ConnectivityState.TRANSIENT_FAILURE) {
            connection.resetConnectBackoff();
        }
        return channel;
    }

    private CallOptions within(Duration limit) {
        return options.withDeadlineAfter(limit.toNanos(), TimeUnit.NANOSECONDS);
    }

    private UpdatePolicyRequest completed(UpdatePolicyRequest request) {
        return request.toBuilder().setRequestId(idOr(request.getRequestId())).setActor(actorOr(request.getActor())).build();
    }

    private DeletePolicyRequest completed(DeletePolicyRequest request) {
        return request.toBuilder().setRequestId(idOr(request.getRequestId())).setActor(actorOr(request.getActor())).build();
    }

    private PolicyChangeRequest completed(PolicyChangeRequest change) {
        return switch (change.getChangeCase()) {
            case UPDATE -> change.toBuilder().setUpdate(completed(change.getUpdate())).build();
            case DELETE -> change.toBuilder().setDelete(completed(change.getDelete())).build();
            case CHANGE_NOT_SET -> change;
        };
    }

    private static String idOr(String given) {
        return given.isEmpty() ? UUID.randomUUID().toString().replace("-", "") : given;
    }

    private String actorOr(String given) {
        return given.isEmpty() ? actor : given;
    }

    /** The id of a request that may change something, and else an empty one. */
    private static String idOfChange(String requestId, boolean validateOnly) {
        return validateOnly ? "" : requestId;
    }

    private static String idOfChange(PolicyChangeRequest change) {
        return change.hasUpdate() ? change.getUpdate().getRequestId() : change.getDelete().getRequestId();
    }

    private static ChangeResult nothing(UpdatePolicyRequest request, PolicyDocument document, ChangeOutcome outcome) {
        ChangeResult.Builder result = ChangeResult.newBuilder().setDocument(document).setVersion(document.getVersion())
                .setPreviousVersion(document.getVersion()).setOutcome(outcome);
        return request.getIncludePrevious() ? result.setPrevious(document).build() : result.build();
    }

    private static void pause(long longestMillis, TopicPoliciesException otherwise) {
        try {
            TimeUnit.MILLISECONDS.sleep(ThreadLocalRandom.current().nextLong(longestMillis / 2, longestMillis + 1));
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw otherwise;
        }
    }

    /** How gRPC repeats calls: the same file for the clients of all languages. */
    @SuppressWarnings("unchecked")
    static Map<String, ?> serviceConfig() {
        try (InputStream file = TopicPoliciesClient.class.getResourceAsStream("service_config.json")) {
            return new Gson().fromJson(new InputStreamReader(file, StandardCharsets.UTF_8), Map.class);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Sends a token with each call. If there is none this time, as while its file is replaced, the last one is sent. */
    private static final class Bearer extends CallCredentials {
        private final Supplier<String> token;
        private volatile String last;

        Bearer(Supplier<String> token) {
            this.token = token;
        }

        @Override
        public void applyRequestMetadata(RequestInfo request, Executor executor, MetadataApplier applier) {
            executor.execute(() -> {
                try {
                    last = token.get().strip();
                } catch (RuntimeException error) {
                    if (last == null) {
                        applier.fail(Status.UNAUTHENTICATED.withDescription("There is no token: " + error.getMessage()).withCause(error));
                        return;
                    }
                }
                Metadata headers = new Metadata();
                headers.put(AUTHORIZATION, "Bearer " + last);
                applier.apply(headers);
            });
        }
    }

    /** Builds a client. */
    public static final class Builder {
        private final String target;
        private ChannelCredentials credentials;
        private String authority;
        private Supplier<String> token;
        private String actor = "";
        private Duration timeout = Duration.ofSeconds(30);
        private Executor executor;
        private final List<ClientInterceptor> interceptors = new ArrayList<>();

        private Builder(String target) {
            this.target = target;
        }

        /**
         * Sets the credentials of the channel: {@link TlsChannelCredentials}, also with a certificate of the client's own, or {@link
         * InsecureChannelCredentials}. Default: none for an address of this machine, else TLS with Java's own authorities.
         */
        public Builder credentials(ChannelCredentials value) {
            credentials = value;
            return this;
        }

        /** Sets the name in the server's certificate, if it differs from the target. */
        public Builder overrideAuthority(String value) {
            authority = value;
            return this;
        }

        /** Sets a token, which is requested for each call. Without TLS it is sent to this machine only. */
        public Builder token(Supplier<String> value) {
            token = value;
            return this;
        }

        /** Sets the file of a token, which is read for each call, because it may change. */
        public Builder tokenFile(Path file) {
            return token(() -> {
                try {
                    return Files.readString(file);
                } catch (IOException error) {
                    throw new UncheckedIOException("the file " + file + " can't be read", error);
                }
            });
        }

        /** Sets who makes changes that name no actor; it is kept in the log. */
        public Builder actor(String value) {
            actor = value;
            return this;
        }

        /** Sets how long a blocking call may take, repeats included; by default 30 seconds. */
        public Builder timeout(Duration value) {
            timeout = value;
            return this;
        }

        /** Sets where futures complete and listeners are called; by default Java's common pool. */
        public Builder executor(Executor value) {
            executor = value;
            return this;
        }

        /** Adds an interceptor of every call, such as one that adds metadata. */
        public Builder intercept(ClientInterceptor value) {
            interceptors.add(value);
            return this;
        }

        /**
         * Opens the client; it connects with the first call.
         *
         * @throws IllegalArgumentException if a token would be sent to another machine without TLS
         */
        public TopicPoliciesClient build() {
            if (token != null && credentials() instanceof InsecureChannelCredentials && !isHere()) {
                throw new IllegalArgumentException("a token is not sent to another machine without TLS: " + target);
            }
            return new TopicPoliciesClient(this);
        }

        private ChannelCredentials credentials() {
            if (credentials != null) {
                return credentials;
            }
            return isHere() ? InsecureChannelCredentials.create() : TlsChannelCredentials.create();
        }

        boolean isHere() {
            String addresses = target.replaceFirst("^(ipv4:|dns:///)", "");
            return target.startsWith("unix:")
                    || Arrays.stream(addresses.split(",")).allMatch(each -> each.matches("(localhost|127(\\.\\d+){3}|\\[::1\\])(:\\d+)?"));
        }
    }
}
