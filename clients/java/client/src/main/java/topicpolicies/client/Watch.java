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
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import topicpolicies.v1.TopicPoliciesServiceGrpc.TopicPoliciesServiceStub;
import topicpolicies.v1.WatchPoliciesRequest;
import topicpolicies.v1.WatchPoliciesResponse;

/** An open watch. It ends when it is closed, or when it makes no sense to try again. */
public final class Watch implements AutoCloseable {
    /** Whom a watch tells. */
    public interface Listener {
        /** One event; the next one comes when this returns. An exception ends the watch. */
        void on(WatchEvent event);

        /** The watch has ended by itself: why. Not called when it was closed. */
        default void ended(TopicPoliciesException error) {
        }
    }

    private final Line line;
    private final WatchSession session;
    private final Listener listener;
    private final Executor executor;
    private final Consumer<Watch> onEnd;
    private final Object lock = new Object();
    private ClientCallStreamObserver<WatchPoliciesRequest> call;
    private boolean closed;
    private volatile ResumeToken token;

    Watch(Line line, WatchSession session, Listener listener, Executor executor, Consumer<Watch> onEnd) {
        this.line = line;
        this.session = session;
        this.listener = listener;
        this.executor = executor;
        this.onEnd = onEnd;
        this.token = session.token();
    }

    /** Where to go on after everything that the listener has been told. Save it once you have dealt with that. */
    public ResumeToken token() {
        return token;
    }

    /** Ends the watch; an event that is being told is told to its end. */
    @Override
    public void close() {
        ClientCallStreamObserver<WatchPoliciesRequest> open;
        synchronized (lock) {
            closed = true;
            open = call;
            call = null;
        }
        onEnd.accept(this);
        if (open != null) {
            open.cancel("the watch was closed", null);
        }
    }

    void start() {
        executor.execute(this::connect);
    }

    private void connect() {
        List<WatchEvent> first = new ArrayList<>();
        WatchPoliciesRequest request = session.connect(first);
        for (WatchEvent event : first) {
            if (!tell(event)) {
                return;
            }
        }
        if (!isClosed()) {
            String address = line.routes().address();
            TopicPoliciesServiceStub stub;
            try {
                stub = line.stub(address);
            } catch (TopicPoliciesException error) {
                broke(error);
                return;
            }
            stub.watchPolicies(request, new Stream(address));
        }
    }

    private boolean isClosed() {
        synchronized (lock) {
            return closed;
        }
    }

    private boolean tell(WatchEvent event) {
        try {
            listener.on(event);
            token = session.token();
            return true;
        } catch (RuntimeException error) {
            end(new TopicPoliciesException(Status.Code.CANCELLED, "The watch's listener failed: " + error, error));
            return false;
        }
    }

    private void end(TopicPoliciesException error) {
        boolean byItself = !isClosed();
        close();
        if (byItself) {
            listener.ended(error);
        }
    }

    private void broke(TopicPoliciesException error) {
        if (isClosed()) {
            return;
        }
        Optional<WatchEvent.Interrupted> interrupted = session.broke(error, ThreadLocalRandom.current().nextDouble());
        if (interrupted.isEmpty()) {
            end(error);
        } else if (tell(interrupted.get())) {
            long pause = interrupted.get().pause().toNanos();
            CompletableFuture.delayedExecutor(pause, TimeUnit.NANOSECONDS, executor).execute(this::connect);
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
            boolean late;
            synchronized (lock) {
                late = closed;
                call = started;
            }
            if (late) {
                executor.execute(() -> started.cancel("the watch was closed", null));
            }
        }

        @Override
        public void onNext(WatchPoliciesResponse response) {
            if (!isClosed()) {
                session.received(response).ifPresent(Watch.this::tell);
            }
        }

        @Override
        public void onError(Throwable error) {
            failed(TopicPoliciesException.of(error));
        }

        @Override
        public void onCompleted() {
            failed(new TopicPoliciesException(Status.Code.UNAVAILABLE, "The service has ended the stream.", null));
        }

        private void failed(TopicPoliciesException error) {
            if (!isClosed()) {
                line.routes().failed(address, error);
            }
            broke(error);
        }
    }
}
