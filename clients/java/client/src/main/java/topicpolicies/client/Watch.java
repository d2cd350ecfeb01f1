package topicpolicies.client;

import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ThreadLocalRandom;
import topicpolicies.v1.WatchPoliciesRequest;
import topicpolicies.v1.WatchPoliciesResponse;

/** An open watch. It ends when it is closed, when all was told and that was to be its end, or when it makes no sense to try again. */
public final class Watch implements AutoCloseable {
    /** Whom a watch tells. */
    @FunctionalInterface
    public interface Listener {
        /** One event; the next one comes when this returns. An exception ends the watch. */
        void on(WatchEvent event);
    }

    private final Line line;
    private final WatchSession session;
    private final Listener listener;
    private final Pauses pauses;
    private final CompletableFuture<Void> ended = new CompletableFuture<>();
    private final Object lock = new Object();
    private ClientCallStreamObserver<WatchPoliciesRequest> call;

    Watch(Line line, WatchSession session, Listener listener, Pauses pauses) {
        this.line = line;
        this.session = session;
        this.listener = listener;
        this.pauses = pauses;
    }

    /**
     * Where to go on after what the listener has been told, the event included that it is being told. Save it together with what came of
     * that.
     */
    public ResumeToken token() {
        synchronized (session) {
            return session.token();
        }
    }

    /**
     * Completes when the watch has told everything and was to end then; fails with {@link TopicPoliciesException} when it makes no sense to
     * go on, or when it was closed (CANCELLED).
     */
    public CompletableFuture<Void> whenEnded() {
        return ended.copy();
    }

    /** Ends the watch; an event that is being told is told to its end. */
    @Override
    public void close() {
        end(new TopicPoliciesException(Status.Code.CANCELLED, "The watch was closed.", null));
    }

    /** Begins; {@code executor} is where. */
    void start(Executor executor) {
        executor.execute(this::connect);
    }

    boolean isEnded() {
        return ended.isDone();
    }

    private void connect() {
        if (isEnded()) {
            return;
        }
        List<WatchEvent> first = new ArrayList<>();
        WatchPoliciesRequest request;
        synchronized (session) {
            request = session.connect(first);
        }
        String address = line.routes().address();
        try {
            if (first.stream().allMatch(this::tell)) {
                line.stub(address).watchPolicies(request, new Stream(address));
            }
        } catch (RuntimeException error) { // the client's, or that of an interceptor of a channel that it was given
            broke(TopicPoliciesException.of(error));
        }
        if (isEnded()) {
            cancelCall(); // it was not there yet when the watch ended
        }
    }

    /** Tells an event; gives whether the watch goes on. */
    private boolean tell(WatchEvent event) {
        if (isEnded()) {
            return false;
        }
        try {
            listener.on(event);
        } catch (RuntimeException error) {
            end(new TopicPoliciesException(Status.Code.CANCELLED, "The watch's listener failed: " + error, error));
        }
        return !isEnded();
    }

    /** {@code error} is why; null: all was told. */
    private void end(TopicPoliciesException error) {
        if (error == null) {
            ended.complete(null);
        } else {
            ended.completeExceptionally(error);
        }
        cancelCall();
    }

    private void cancelCall() {
        ClientCallStreamObserver<WatchPoliciesRequest> open;
        synchronized (lock) {
            open = call;
            call = null;
        }
        if (open != null) {
            open.cancel("the watch has ended", null);
        }
    }

    private void broke(TopicPoliciesException error) {
        if (isEnded()) {
            return;
        }
        Optional<WatchEvent.Interrupted> interrupted;
        synchronized (session) {
            interrupted = session.broke(error, ThreadLocalRandom.current().nextDouble());
        }
        if (interrupted.isEmpty() || line.isClosed()) {
            end(error);
        } else if (tell(interrupted.get())) {
            pauses.pause(interrupted.get().pause()).whenComplete((nothing, rejected) -> {
                if (rejected == null) {
                    connect();
                } else {
                    end(error);
                }
            });
        }
    }

    /** One stream. gRPC calls it from one thread at a time, and takes the next message when the last one has been told. */
    private final class Stream implements ClientResponseObserver<WatchPoliciesRequest, WatchPoliciesResponse> {
        private final String address;

        Stream(String address) {
            this.address = address;
        }

        @Override
        public void beforeStart(ClientCallStreamObserver<WatchPoliciesRequest> started) {
            synchronized (lock) {
                call = started;
            }
        }

        @Override
        public void onNext(WatchPoliciesResponse response) {
            for (topicpolicies.v1.WatchEvent each : response.getEventsList()) {
                if (isEnded()) {
                    return;
                }
                Optional<WatchEvent> event;
                synchronized (session) {
                    event = session.received(each);
                }
                event.ifPresent(Watch.this::tell);
            }
        }

        @Override
        public void onError(Throwable error) {
            TopicPoliciesException failure = TopicPoliciesException.of(error);
            if (!isEnded()) {
                if (failure.code() == Status.Code.RESOURCE_EXHAUSTED) {
                    line.routes().leave(address);
                }
                line.routes().failed(address, failure);
            }
            broke(failure);
        }

        @Override
        public void onCompleted() {
            boolean complete;
            synchronized (session) {
                complete = session.isComplete();
            }
            if (complete) {
                end(null);
            } else {
                onError(Status.UNAVAILABLE.withDescription("The service has ended the stream.").asRuntimeException());
            }
        }
    }
}
