package topicpolicies.client;

import io.grpc.Status;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import topicpolicies.v1.PolicyChangeRequest;
import topicpolicies.v1.PolicyChangeResult;
import topicpolicies.v1.TopicPoliciesServiceGrpc.TopicPoliciesServiceStub;
import topicpolicies.v1.UpdatePoliciesRequest;
import topicpolicies.v1.UpdatePoliciesResponse;

/**
 * Many changes over streams, each to an address. What is at hand goes into the next batch, and nothing waits for more.
 *
 * <p>A thread of its own takes the changes from where they come, which may block, and stops while so many are under way. All else happens
 * one thing after the other on the client's executor, the telling of results too: while that takes its time, no further results are taken.
 */
final class UpdateMany {
    /** Changes that were taken and have not been told of, at most. */
    static final int MOST_CHANGES = 4096;
    /** Bytes of them, at most, and one change more. */
    static final int MOST_BYTES = 8 << 20;
    /** How often it is looked whether a stream has fallen silent. */
    private static final Duration LOOK = Duration.ofMillis(500);

    private final Line line;
    private final Pauses pauses;
    private final Duration silence;
    private final Iterable<? extends Change> source;
    private final Consumer<? super ChangeResult> listener;
    private final Pipeline pipeline;
    private final Executor loop;
    private final Window window = new Window(MOST_CHANGES, MOST_BYTES);
    private final CompletableFuture<Void> done = new CompletableFuture<>();
    private final ConcurrentLinkedQueue<Taken> arrived = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean woken = new AtomicBoolean();
    private final Map<String, UpdateStream> streams = new ConcurrentHashMap<>();
    private final Map<Long, Integer> sizes = new HashMap<>();
    private volatile boolean exhausted;
    private boolean pausing;

    private record Taken(Change change, PolicyChangeRequest message) {
    }

    UpdateMany(Line line, RetryPolicy retries, Pauses pauses, Duration timeout, Executor executor, Iterable<? extends Change> source,
               Consumer<? super ChangeResult> listener) {
        this.line = line;
        this.pauses = pauses;
        this.silence = retries.attemptTimeout().compareTo(timeout) < 0 ? retries.attemptTimeout() : timeout;
        this.source = source;
        this.listener = listener;
        this.pipeline = new Pipeline(line.routes(), retries, timeout);
        this.loop = new SerialExecutor(executor);
    }

    /** Completes when all was told. Whoever completes it himself ends it. */
    CompletableFuture<Void> done() {
        return done;
    }

    void start() {
        Thread taking = new Thread(this::take, "topicpolicies-changes");
        taking.setDaemon(true);
        done.whenComplete((nothing, error) -> {
            taking.interrupt();
            streams.values().forEach(UpdateStream::cancel);
        });
        taking.start();
        look();
    }

    /** Ends it, because the client was closed. */
    void close() {
        done.completeExceptionally(TopicPoliciesException.clientClosed());
    }

    // --- on its own thread -------------------------------------------------------------------------------------------

    private void take() {
        try {
            long index = 0;
            for (Change change : source) {
                PolicyChangeRequest message = change.inBatch().setSequence(index++).build();
                window.enter(message.getSerializedSize());
                arrived.add(new Taken(change, message));
                wake();
                if (done.isDone()) {
                    return;
                }
            }
            exhausted = true;
            wake();
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        } catch (RuntimeException error) {
            done.completeExceptionally(error);
        } catch (Throwable error) {
            done.completeExceptionally(error);
            throw error; // to the thread's handler
        }
    }

    private void wake() {
        if (woken.compareAndSet(false, true)) {
            run(() -> {
                woken.set(false);
                send();
            });
        }
    }

    /** Brings a task to the loop. One that fails as nobody foresaw ends it all. */
    private void run(Runnable task) {
        try {
            loop.execute(() -> {
                try {
                    task.run();
                } catch (Throwable error) {
                    done.completeExceptionally(error);
                    throw error; // to the thread's handler
                }
            });
        } catch (RejectedExecutionException gone) {
            String message = "The client's executor takes nothing any more.";
            done.completeExceptionally(new TopicPoliciesException(Status.Code.CANCELLED, message, gone));
        }
    }

    // --- on the loop -------------------------------------------------------------------------------------------------

    private void send() {
        if (done.isDone()) {
            return;
        }
        boolean last = exhausted; // before what has arrived is taken
        for (Taken taken = arrived.poll(); taken != null; taken = arrived.poll()) {
            sizes.put(taken.message().getSequence(), taken.message().getSerializedSize());
            pipeline.add(taken.change(), taken.message());
        }
        for (String address : pipeline.ready(System.nanoTime())) {
            send(address);
        }
        pipeline.pause(System.nanoTime()).ifPresent(this::sendAfter);
        if (last && pipeline.isIdle()) {
            streams.values().forEach(UpdateStream::finish);
            streams.clear();
            done.complete(null);
        }
    }

    private void send(String address) {
        UpdateStream stream = streams.get(address);
        try {
            if (stream == null) {
                TopicPoliciesServiceStub stub = line.stub(address);
                stream = new UpdateStream(line.waits(address) ? stub.withWaitForReady() : stub, line.hurries(address), pauses,
                        new Events(address));
                streams.put(address, stream);
                stream.open();
                if (done.isDone()) {
                    stream.cancel(); // after the others were
                    return;
                }
            }
            while (stream.isReady()) {
                UpdatePoliciesRequest batch = pipeline.batch(address, System.nanoTime());
                if (batch.getChangesCount() == 0) {
                    return;
                }
                stream.send(batch);
            }
        } catch (RuntimeException error) { // the client's, or that of an interceptor of a channel that it was given
            pipeline.batch(address, System.nanoTime());
            if (stream != null) {
                stream.cancel();
            }
            broke(address, stream, TopicPoliciesException.of(error), stream != null && stream.isSent());
        }
    }

    private void sendAfter(Duration pause) {
        if (!pausing) {
            pausing = true;
            after(pause, () -> {
                pausing = false;
                send();
            });
        }
    }

    private void received(String address, UpdateStream stream, UpdatePoliciesResponse response) {
        for (PolicyChangeResult each : response.getResultsList()) {
            pipeline.settle(address, each).ifPresent(this::tell);
        }
        stream.next();
        send();
    }

    private void broke(String address, UpdateStream stream, TopicPoliciesException error, boolean sent) {
        if (done.isDone() || stream != null && !streams.remove(address, stream)) {
            return;
        }
        if (line.isClosed()) {
            close();
            return;
        }
        pipeline.broke(address, error, sent).forEach(this::tell);
        wake(); // later: where no stream can be opened, sending comes back here at once
    }

    private void tell(ChangeResult result) {
        if (done.isDone()) {
            return;
        }
        try {
            listener.accept(result);
        } catch (RuntimeException error) {
            done.completeExceptionally(error);
        }
        window.leave(sizes.remove(result.index()));
    }

    /** A stream that has something under way and says nothing for too long has an end. */
    private void look() {
        after(LOOK, () -> {
            streams.forEach((address, stream) -> {
                if (pipeline.isUnderWay(address)) {
                    stream.endIfSilentFor(silence);
                }
            });
            look();
        });
    }

    private void after(Duration pause, Runnable task) {
        pauses.pause(pause).whenComplete((nothing, rejected) -> {
            if (rejected != null || pauses.isClosed()) {
                close();
            } else if (!done.isDone()) {
                run(task);
            }
        });
    }

    /** What a stream tells, brought to the loop. */
    private final class Events implements UpdateStream.Listener {
        private final String address;

        Events(String address) {
            this.address = address;
        }

        @Override
        public void ready() {
            wake();
        }

        @Override
        public void received(UpdateStream stream, UpdatePoliciesResponse response) {
            run(() -> UpdateMany.this.received(address, stream, response));
        }

        @Override
        public void broke(UpdateStream stream, TopicPoliciesException error, boolean sent) {
            run(() -> UpdateMany.this.broke(address, stream, error, sent));
        }
    }
}
