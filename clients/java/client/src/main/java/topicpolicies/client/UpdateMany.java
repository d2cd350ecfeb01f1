package topicpolicies.client;

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
 * Makes many changes over streams, each to one address. A batch consists of the changes that are at hand; no change waits for a batch to
 * fill.
 *
 * <p>A separate thread reads the changes from their source, which may block, and stops while too many are in flight. Everything else runs
 * serially on the client's executor, the calls of the listener too: while the listener is busy, no further results are read.
 */
final class UpdateMany {
    /** The maximum number of changes that were read and have no result yet, by default. */
    static final int MOST_CHANGES = 4096;
    /** The maximum size of these changes in bytes; one change may exceed it. */
    static final int MOST_BYTES = 8 << 20;
    /** How often it is checked whether a stream has fallen silent, or the time of a change is over. */
    private static final Duration LOOK = Duration.ofMillis(500);

    private final Line line;
    private final Pauses pauses;
    private final Duration silence;
    private final Iterable<? extends Change> source;
    private final Consumer<? super ChangeResult> listener;
    private final Pipeline pipeline;
    private final Executor loop;
    private final Window window;
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
               Consumer<? super ChangeResult> listener, int maxInFlight) {
        this.line = line;
        this.window = new Window(maxInFlight, MOST_BYTES);
        this.pauses = pauses;
        this.silence = retries.attemptTimeout().compareTo(timeout) < 0 ? retries.attemptTimeout() : timeout;
        this.source = source;
        this.listener = listener;
        this.pipeline = new Pipeline(line.routes(), retries, timeout);
        this.loop = new SerialExecutor(executor);
    }

    /** Completes when the listener has got all results. Completing it early ends the work. */
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

    /** Ends the work because the client was closed. */
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

    /** Runs a task on the loop. An unexpected exception in it ends everything. */
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
        } catch (RejectedExecutionException rejected) {
            done.completeExceptionally(TopicPoliciesException.rejected(rejected));
        }
    }

    // --- on the loop -------------------------------------------------------------------------------------------------

    private void send() {
        if (done.isDone()) {
            return;
        }
        boolean last = exhausted; // read before the arrived changes are taken
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
                    stream.cancel(); // ended after the other streams were cancelled
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
        } catch (RuntimeException error) { // the client was closed, or an interceptor of the given channel threw
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
            pipeline.settle(address, each).ifPresent(this::report);
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
        pipeline.broke(address, error, sent).forEach(this::report);
        wake(); // later: if no stream can be opened, sending returns here at once
    }

    private void report(ChangeResult result) {
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

    /**
     * Ends a stream that has changes in flight and is silent for too long. If the time of one of them is over, a short silence is too long;
     * a stream that has brought something just now may be about to bring the result.
     */
    private void look() {
        after(LOOK, () -> {
            streams.forEach((address, stream) -> {
                if (pipeline.isUnderWay(address)) {
                    boolean overdue = pipeline.isOverdue(address);
                    stream.endIfSilentFor(!overdue ? silence : stream.isSent() ? LOOK : Duration.ZERO);
                }
            });
            look();
        });
    }

    private void after(Duration pause, Runnable task) {
        pauses.pause(pause).whenComplete((nothing, rejected) -> {
            if (pauses.isClosed()) {
                close();
            } else if (rejected != null) {
                done.completeExceptionally(TopicPoliciesException.rejected(rejected));
            } else if (!done.isDone()) {
                run(task);
            }
        });
    }

    /** Passes the events of a stream to the loop. */
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
