package topicpolicies.client;

import com.google.protobuf.Message;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.function.Supplier;
import topicpolicies.v1.PolicyHistoryServiceGrpc;
import topicpolicies.v1.TopicPoliciesServiceGrpc;
import topicpolicies.v1.WatchEvent;
import topicpolicies.v1.WatchHistoryEvent;
import topicpolicies.v1.WatchHistoryRequest;
import topicpolicies.v1.WatchHistoryResponse;
import topicpolicies.v1.WatchPoliciesRequest;
import topicpolicies.v1.WatchPoliciesResponse;
import topicpolicies.v1.WatchReset;

/**
 * An open watch, which resumes where its stream broke. It ends when it or its client is closed, when its listener throws, or after an error
 * at which the listener ends it.
 *
 * @param <E> the type of the events
 */
public final class Watch<E> implements AutoCloseable {
    private static final Set<Status.Code> PERMANENT = EnumSet.of(Status.Code.INVALID_ARGUMENT, Status.Code.UNAUTHENTICATED,
            Status.Code.PERMISSION_DENIED, Status.Code.UNIMPLEMENTED, Status.Code.FAILED_PRECONDITION);
    private static final long FIRST_PAUSE_MILLIS = 100;
    private static final long LONGEST_PAUSE_MILLIS = 10_000;

    static final Kind<WatchPoliciesRequest, WatchPoliciesResponse, WatchEvent> POLICIES = new Kind<>(
            TopicPoliciesServiceGrpc.getWatchPoliciesMethod(),
            (request, tokens) -> request.toBuilder().clearResumeTokens().putAllResumeTokens(tokens).build(),
            WatchPoliciesResponse::getEventsList, WatchEvent::getNamespace, WatchEvent::getResumeToken, WatchEvent::hasReset,
            namespace -> WatchEvent.newBuilder().setNamespace(namespace).setReset(again(namespace)).build());
    static final Kind<WatchHistoryRequest, WatchHistoryResponse, WatchHistoryEvent> HISTORY = new Kind<>(
            PolicyHistoryServiceGrpc.getWatchHistoryMethod(),
            (request, positions) -> request.toBuilder().clearPositions().putAllPositions(positions).build(),
            WatchHistoryResponse::getEventsList, WatchHistoryEvent::getNamespace, WatchHistoryEvent::getPosition, WatchHistoryEvent::hasReset,
            namespace -> WatchHistoryEvent.newBuilder().setNamespace(namespace).setReset(again(namespace)).build());

    /** What the two watches differ in. */
    record Kind<Q extends Message, R, E>(MethodDescriptor<Q, R> method, BiFunction<Q, Map<String, String>, Q> resumed,
                                         Function<R, List<E>> events, Function<E, String> namespace, Function<E, String> token,
                                         Predicate<E> reset, Function<String, E> again) {
    }

    /**
     * Gets the events of a watch, one at a time; while it is busy, the service holds back the events of this watch.
     *
     * @param <E> the type of the events
     */
    @FunctionalInterface
    public interface Listener<E> {
        /**
         * Handles an event. If a stream breaks before a namespace has a token, the namespace begins again with a {@code WatchReset} without
         * a reason. An exception ends the watch.
         */
        void onEvent(E event);

        /**
         * The stream broke.
         *
         * @param error why
         * @param permanent whether another stream would probably end in the same way, as for a caller without permission
         * @return whether to resume after a pause
         */
        default boolean onInterrupted(TopicPoliciesException error, boolean permanent) {
            return !permanent;
        }
    }

    private interface Opener {
        ClientCall<?, ?> open();
    }

    private final Listener<E> listener;
    private final Executor executor;
    private final Places places;
    private final Opener opener;
    private final Function<String, E> again;
    private final CompletableFuture<Void> ended = new CompletableFuture<>();
    private volatile ClientCall<?, ?> call;
    /** How many streams broke one after the other without a message. */
    private int failures;

    private Watch(Listener<E> listener, Executor executor, Places places, Function<String, E> again, Function<Watch<E>, Opener> opener) {
        this.listener = listener;
        this.executor = executor;
        this.places = places;
        this.again = again;
        this.opener = opener.apply(this);
    }

    static <Q extends Message, R, E> Watch<E> of(Kind<Q, R, E> kind, Q request, Map<String, String> tokens, Listener<E> listener,
                                                 Supplier<Channel> channel, CallOptions options, Executor executor) {
        Places places = new Places(tokens);
        return new Watch<>(listener, executor, places, kind.again(), watch -> () -> {
            ClientCall<Q, R> call = channel.get().newCall(kind.method(), options);
            watch.call = call;
            call.start(watch.new Stream<>(kind, call), new Metadata());
            call.sendMessage(kind.resumed().apply(request, watch.resumeTokens()));
            call.halfClose();
            call.request(1);
            return call;
        });
    }

    /** Where to resume after all events that the listener has got: save it together with the result of processing them. */
    public Map<String, String> resumeTokens() {
        synchronized (places) {
            return places.tokens();
        }
    }

    /** Completes when the watch ends: exceptionally with {@link TopicPoliciesException}, or what the listener threw, unless it was closed. */
    public CompletableFuture<Void> whenEnded() {
        return ended.copy();
    }

    /** Ends the watch; a call of the listener in progress is completed. */
    @Override
    public void close() {
        end(null);
    }

    void start() {
        try {
            executor.execute(this::connect);
        } catch (RejectedExecutionException rejected) {
            end(TopicPoliciesException.of(Status.CANCELLED.withDescription("The executor accepts no tasks.").withCause(rejected)));
        }
    }

    private void connect() {
        List<String> beginning;
        synchronized (places) {
            beginning = places.connect();
        }
        beginning.forEach(namespace -> handle(again.apply(namespace)));
        if (ended.isDone()) {
            return;
        }
        ClientCall<?, ?> opened = opener.open();
        if (ended.isDone()) {
            opened.cancel("The watch has ended.", null);
        }
    }

    private void handle(E event) {
        if (ended.isDone()) {
            return;
        }
        try {
            listener.onEvent(event);
        } catch (Throwable error) { // also errors, or the watch would go on although the event was not handled
            end(error);
        }
    }

    private void broke(TopicPoliciesException error, boolean began) {
        if (ended.isDone()) {
            return;
        }
        try {
            if (!listener.onInterrupted(error, isPermanent(error, began))) {
                end(error);
                return;
            }
        } catch (Throwable thrown) {
            end(thrown);
            return;
        }
        failures = began ? 1 : failures + 1;
        long longest = Math.min(FIRST_PAUSE_MILLIS << Math.min(failures - 1, 10), LONGEST_PAUSE_MILLIS);
        long pause = (long) (longest * ThreadLocalRandom.current().nextDouble(0.5, 1));
        long least = error.retryDelay().map(delay -> delay.toMillis()).orElse(0L);
        CompletableFuture.delayedExecutor(least + pause, TimeUnit.MILLISECONDS, task -> task.run()).execute(this::start);
    }

    /** Whether a stream that ended like this would end again; {@code began} says whether it had sent a message. */
    static boolean isPermanent(TopicPoliciesException error, boolean began) {
        boolean renewable = began && error.reason().equals("CREDENTIALS_EXPIRED"); // the caller may have renewed its token
        return PERMANENT.contains(error.code()) && !renewable;
    }

    private void end(Throwable error) {
        boolean first = error == null ? ended.complete(null) : ended.completeExceptionally(error);
        ClientCall<?, ?> open = call;
        if (first && open != null) {
            open.cancel("The watch has ended.", null);
        }
    }

    private static WatchReset again(String namespace) {
        return WatchReset.newBuilder().setMessage(namespace + " begins again: its stream broke before there was a place to resume.").build();
    }

    /** One stream. gRPC calls it from one thread at a time. */
    private final class Stream<Q extends Message, R> extends ClientCall.Listener<R> {
        private final Kind<Q, R, E> kind;
        private final ClientCall<Q, R> own;
        private boolean began;

        Stream(Kind<Q, R, E> kind, ClientCall<Q, R> own) {
            this.kind = kind;
            this.own = own;
        }

        @Override
        public void onMessage(R response) {
            began = true;
            for (E event : kind.events().apply(response)) {
                synchronized (places) { // also before the call of the listener, which may ask for the tokens
                    places.received(kind.namespace().apply(event), kind.token().apply(event), kind.reset().test(event));
                }
                handle(event);
            }
            own.request(1);
        }

        @Override
        public void onClose(Status status, Metadata trailers) {
            Status why = status.isOk() ? Status.UNAVAILABLE.withDescription("The service ended the stream.") : status;
            broke(TopicPoliciesException.of(why.asRuntimeException(trailers)), began);
        }
    }
}
