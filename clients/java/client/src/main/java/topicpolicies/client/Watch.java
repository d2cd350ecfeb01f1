package topicpolicies.client;

import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import topicpolicies.v1.WatchPoliciesRequest;
import topicpolicies.v1.WatchPoliciesResponse;

/**
 * An open watch. It ends when it is closed, when every namespace is synced if {@code endWhenSynced} is set, or after an error that retrying
 * can't cure.
 */
public final class Watch implements AutoCloseable {
    /** Gets the events of a watch. */
    @FunctionalInterface
    public interface Listener {
        /** Handles one event; the next one comes when this method returns. An exception or an error ends the watch. */
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
     * The place from which to resume after all events that the listener has got, the present one included. Save it together with the result
     * of processing them.
     */
    public ResumeToken token() {
        synchronized (session) {
            return session.token();
        }
    }

    /**
     * Completes when every namespace is synced and the watch was to end then. Fails with {@link TopicPoliciesException} after an error that
     * retrying can't cure, or when the watch was closed (CANCELLED).
     */
    public CompletableFuture<Void> whenEnded() {
        return ended.copy();
    }

    /** Ends the watch; a call of the listener in progress is completed. */
    @Override
    public void close() {
        end(new TopicPoliciesException(Status.Code.CANCELLED, "The watch was closed.", null));
    }

    /** Starts the watch on {@code executor}, whose rejection ends it. */
    void start(Executor executor) {
        try {
            executor.execute(this::connect);
        } catch (RejectedExecutionException rejected) {
            end(TopicPoliciesException.rejected(rejected));
        }
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
            if (first.stream().allMatch(this::call)) {
                line.stub(address).watchPolicies(request, new Stream(address));
            }
        } catch (RuntimeException error) { // the client was closed, or an interceptor of the given channel threw
            broke(TopicPoliciesException.of(error));
        }
        if (isEnded()) {
            cancelCall(); // the call did not exist yet when the watch ended
        }
    }

    /** Calls the listener with an event; returns whether the watch continues. */
    private boolean call(WatchEvent event) {
        if (isEnded()) {
            return false;
        }
        try {
            listener.on(event);
        } catch (Throwable error) { // also errors, or the watch would continue without the listener having handled this event
            end(new TopicPoliciesException(Status.Code.CANCELLED, "The watch's listener failed: " + error, error));
        }
        return !isEnded();
    }

    /** Ends the watch; {@code error} is why, or null if every namespace is synced. */
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
        } else if (call(interrupted.get())) {
            pauses.pause(interrupted.get().pause()).whenComplete((nothing, rejected) -> {
                if (rejected == null) {
                    connect();
                } else {
                    end(error);
                }
            });
        }
    }

    /** One stream. gRPC calls it from one thread at a time, and reads the next message when the listener has got the last one. */
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
                event.ifPresent(Watch.this::call);
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
