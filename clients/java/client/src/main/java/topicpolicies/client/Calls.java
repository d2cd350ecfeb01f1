package topicpolicies.client;

import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import topicpolicies.v1.TopicPoliciesServiceGrpc.TopicPoliciesServiceStub;

/** Unary calls as futures, each with its repeats, where {@link Routes} says. */
final class Calls {
    /** How a change fails when it may have been made all the same, unless the service itself says so. */
    private static final Set<Status.Code> AMBIGUOUS = EnumSet.of(Status.Code.UNAVAILABLE, Status.Code.CANCELLED,
            Status.Code.DEADLINE_EXCEEDED, Status.Code.INTERNAL, Status.Code.UNKNOWN);
    /** Answers that a repeat gets only if the request was not applied before: the service looks its id up first. */
    private static final Set<Status.Code> SETTLED = EnumSet.of(Status.Code.ABORTED, Status.Code.INVALID_ARGUMENT);
    /** How long a connection may take to be made where there is another address to try. */
    private static final long CONNECTING_SECONDS = 5;

    private final Line line;
    private final RetryPolicy retries;
    private final Duration timeout;
    private final Executor executor;
    private final Set<CompletableFuture<Void>> pauses = ConcurrentHashMap.newKeySet();
    private final Set<Attempt<?, ?>> attempts = ConcurrentHashMap.newKeySet();

    /** One of the service's unary methods. */
    interface Method<Q, A> {
        void call(TopicPoliciesServiceStub stub, Q request, StreamObserver<A> answer);
    }

    Calls(Line line, RetryPolicy retries, Duration timeout, Executor executor) {
        this.line = line;
        this.retries = retries;
        this.timeout = timeout;
        this.executor = executor;
    }

    /** A read. Where gRPC repeats it, nobody else does: attempts would multiply. */
    <Q, A> CompletableFuture<A> read(Method<Q, A> method, Q request) {
        RetryPolicy ours = line.repeatsReads(line.routes().address()) ? RetryPolicy.NONE : retries;
        return new Call<>(method, request, "", "", ours).start();
    }

    /** A change that is not to be made: like a read, but gRPC knows it as a change, and repeats it nowhere. */
    <Q, A> CompletableFuture<A> dryRun(Method<Q, A> method, Q request) {
        return new Call<>(method, request, "", "", retries).start();
    }

    /** A change: if it was sent and not answered, its outcome is unknown. */
    <Q, A> CompletableFuture<A> change(Method<Q, A> method, Q request, String topic, String requestId) {
        return new Call<>(method, request, Selection.namespaceOf(topic), requestId, retries).start();
    }

    /**
     * Nothing is repeated any more, and nothing is waited for. The end of a channel does not end all: gRPC lets a read go on that it was just about
     * to repeat, a channel that the client was given stays open, and an executor may be gone by which gRPC would tell.
     */
    void close() {
        pauses.forEach(pause -> pause.complete(null));
        attempts.forEach(Attempt::end);
    }

    /** Waits; fails with the exception itself. */
    static <A> A await(CompletableFuture<A> future) {
        try {
            return future.join();
        } catch (CompletionException failure) {
            if (failure.getCause() instanceof RuntimeException cause) {
                throw cause;
            }
            throw TopicPoliciesException.of(failure);
        }
    }

    /** One call. Its attempts follow each other, so nothing in it is shared. */
    private final class Call<Q, A> {
        private final Method<Q, A> method;
        private final Q request;
        private final String namespace;
        private final String requestId;
        private final long endNanos = System.nanoTime() + timeout.toNanos();
        private final CompletableFuture<A> result = new CompletableFuture<>();
        private final Repeats repeats;
        private boolean unknown;

        /** Without a request id it is a read. */
        Call(Method<Q, A> method, Q request, String namespace, String requestId, RetryPolicy policy) {
            this.method = method;
            this.request = request;
            this.namespace = namespace;
            this.requestId = requestId;
            this.repeats = new Repeats(policy, isChange());
        }

        CompletableFuture<A> start() {
            attempt();
            return result;
        }

        private boolean isChange() {
            return !requestId.isEmpty();
        }

        private void attempt() {
            String address = isChange() ? line.routes().writer(namespace) : line.routes().address();
            Attempt<Q, A> attempt = new Attempt<>();
            try {
                method.call(ready(line.stub(address), address, attempt), request, attempt);
            } catch (TopicPoliciesException error) {
                line.routes().forget(address, namespace);
                fail(error, true);
                return;
            }
            if (!line.alone(address) && !line.connected(address)) {
                CompletableFuture.delayedExecutor(CONNECTING_SECONDS, TimeUnit.SECONDS, executor).execute(attempt::abandonUnlessSent);
            }
            attempt.answered().whenComplete((answer, error) -> {
                if (error == null) {
                    result.complete(answer);
                } else {
                    failed(address, TopicPoliciesException.of(error), attempt.sent());
                }
            });
            underWay(attempt);
        }

        private void underWay(Attempt<Q, A> attempt) {
            attempts.add(attempt);
            attempt.answered().whenComplete((answer, error) -> attempts.remove(attempt));
            if (line.isClosed()) {
                attempt.end(); // after the others were
            }
        }

        private TopicPoliciesServiceStub ready(TopicPoliciesServiceStub stub, String address, Attempt<Q, A> attempt) {
            long left = Math.max(endNanos - System.nanoTime(), 0);
            long limit = isChange() && retries.repeats() ? Math.min(left, retries.attemptTimeout().toNanos()) : left;
            TopicPoliciesServiceStub timed = stub.withInterceptors(attempt).withDeadlineAfter(limit, TimeUnit.NANOSECONDS);
            return line.waits(address) ? timed.withWaitForReady() : timed;
        }

        private void failed(String address, TopicPoliciesException error, boolean sent) {
            boolean refused = error.fromService() && error.code() != Status.Code.DEADLINE_EXCEEDED;
            unknown |= sent && !refused && AMBIGUOUS.contains(error.code());
            boolean redirected = false;
            if (isChange()) {
                redirected = line.routes().failed(address, namespace, error);
            } else {
                line.routes().failed(address, error);
            }
            Optional<Duration> pause = repeats.failed(error, sent, redirected, ThreadLocalRandom.current().nextDouble());
            if (pause.isEmpty() || System.nanoTime() + pause.get().toNanos() - endNanos >= 0) {
                fail(error, sent);
                return;
            }
            pausing(pause.get()).thenRun(() -> {
                if (line.isClosed()) {
                    fail(error, sent);
                } else {
                    attempt();
                }
            });
        }

        private CompletableFuture<Void> pausing(Duration pause) {
            if (pause.isZero()) {
                return CompletableFuture.completedFuture(null);
            }
            CompletableFuture<Void> over = new CompletableFuture<>();
            pauses.add(over);
            CompletableFuture.delayedExecutor(pause.toNanos(), TimeUnit.NANOSECONDS, executor).execute(() -> over.complete(null));
            if (line.isClosed()) {
                over.complete(null); // after the others were
            }
            return over.whenComplete((nothing, error) -> pauses.remove(over));
        }

        private void fail(TopicPoliciesException error, boolean sent) {
            if (isChange() && unknown && !SETTLED.contains(error.code())) {
                result.completeExceptionally(new OutcomeUnknownException(error, requestId));
            } else if (isChange() && error.code() == Status.Code.DEADLINE_EXCEEDED && Repeats.unsent(error, sent)) {
                String message = "There was no connection to the service in time: " + error.getMessage();
                result.completeExceptionally(new TopicPoliciesException(Status.Code.UNAVAILABLE, message, error));
            } else {
                result.completeExceptionally(error);
            }
        }
    }
}
