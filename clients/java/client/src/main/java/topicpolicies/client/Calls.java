package topicpolicies.client;

import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import topicpolicies.v1.TopicPoliciesServiceGrpc.TopicPoliciesServiceStub;

/** Unary calls as futures, each with its repeats, where {@link Routes} says. Whoever completes a future himself ends its call. */
final class Calls {
    private final Line line;
    private final RetryPolicy retries;
    private final Pauses pauses;
    private final Set<Attempt<?, ?>> attempts = ConcurrentHashMap.newKeySet();

    /** One of the service's unary methods. */
    interface Method<Q, A> {
        void call(TopicPoliciesServiceStub stub, Q request, StreamObserver<A> answer);
    }

    /**
     * What is asked.
     *
     * @param method the method
     * @param message the request
     * @param reading what the caller makes of the answer
     * @param timeout how long it may take in all
     */
    record Question<Q, A, R>(Method<Q, A> method, Q message, Function<Answered<A>, R> reading, Duration timeout) {
    }

    Calls(Line line, RetryPolicy retries, Pauses pauses) {
        this.line = line;
        this.retries = retries;
        this.pauses = pauses;
    }

    /** A read, which gRPC repeats where it can: there the client does not, for attempts would multiply. */
    <Q, A, R> CompletableFuture<R> read(Question<Q, A, R> question) {
        return new Call<>(question, "", "", true).start();
    }

    /** A change that is not to be made: like a read, but gRPC knows it as a change, and repeats it nowhere. */
    <Q, A, R> CompletableFuture<R> dryRun(Question<Q, A, R> question) {
        return new Call<>(question, "", "", false).start();
    }

    /** A change: if it was sent and not answered, its outcome is unknown. */
    <Q, A, R> CompletableFuture<R> change(Question<Q, A, R> question, String namespace, String requestId) {
        return new Call<>(question, namespace, requestId, false).start();
    }

    /**
     * Nothing is waited for any more. The end of a channel does not end all: gRPC lets a read go on that it was just about to repeat, a
     * channel that the client was given stays open, and an executor may be gone by which gRPC would tell.
     */
    void close() {
        attempts.forEach(attempt -> attempt.end(TopicPoliciesException.clientClosed()));
    }

    /** Waits; fails with the exception itself. */
    static <A> A await(CompletableFuture<A> future) {
        try {
            return future.join();
        } catch (CompletionException failure) {
            if (failure.getCause() instanceof RuntimeException cause) {
                throw cause;
            }
            if (failure.getCause() instanceof Error cause) {
                throw cause;
            }
            throw TopicPoliciesException.of(failure);
        }
    }

    /** One call. Its attempts follow each other, so nothing in it is shared but what ends it. */
    private final class Call<Q, A, R> {
        private final Question<Q, A, R> question;
        private final String namespace;
        private final boolean change;
        private final boolean repeatedByGrpc;
        private final Tries tries;
        private final CompletableFuture<R> result = new CompletableFuture<>();
        private volatile Attempt<Q, A> current;
        /** Where a read was sent by a sidecar that can't answer it; null: nowhere. */
        private String led;

        /** Without a request id it is a read. */
        Call(Question<Q, A, R> question, String namespace, String requestId, boolean repeatedByGrpc) {
            this.question = question;
            this.namespace = namespace;
            this.change = !requestId.isEmpty();
            this.repeatedByGrpc = repeatedByGrpc;
            this.tries = new Tries(retries, requestId, System.nanoTime() + question.timeout().toNanos());
        }

        CompletableFuture<R> start() {
            result.whenComplete((answer, error) -> endCurrent());
            attempt();
            return result;
        }

        /** There is an end to it, perhaps because whoever waited for it has given it up. */
        private void endCurrent() {
            Attempt<Q, A> attempt = current;
            if (attempt != null && !attempt.answered().isDone()) {
                attempt.end(new TopicPoliciesException(Status.Code.CANCELLED, "The call was given up.", null));
            }
        }

        private void attempt() {
            String address = change ? line.routes().writer(namespace) : led != null ? led : line.routes().address();
            Attempt<Q, A> attempt = new Attempt<>();
            attempts.add(attempt);
            attempt.answered().whenComplete((answer, error) -> attempts.remove(attempt));
            try {
                question.method().call(ready(line.stub(address), address, attempt), question.message(), attempt);
            } catch (RuntimeException error) { // the client's, or that of an interceptor of a channel that it was given
                if (!attempt.isEnded()) {
                    attempts.remove(attempt);
                    line.routes().forget(address, namespace);
                    fail(TopicPoliciesException.of(error), true);
                    return;
                }
            }
            if (line.hurries(address)) {
                pauses.pause(Line.CONNECTING).thenRun(attempt::abandonUnlessSent);
            }
            attempt.answered().whenComplete((answer, error) -> {
                if (error == null) {
                    succeed(new Answered<>(answer, attempt.trailing().unconfirmedSince()));
                } else {
                    failed(address, TopicPoliciesException.of(error), attempt.sent().isSent());
                }
            });
            current = attempt;
            if (line.isClosed()) {
                attempt.end(TopicPoliciesException.clientClosed()); // after the others were
            } else if (result.isDone()) {
                endCurrent();
            }
        }

        private TopicPoliciesServiceStub ready(TopicPoliciesServiceStub stub, String address, Attempt<Q, A> attempt) {
            long left = tries.leftNanos();
            long limit = change && retries.repeats() ? Math.min(left, retries.attemptTimeout().toNanos()) : left;
            TopicPoliciesServiceStub timed = stub.withInterceptors(attempt.sent(), attempt.trailing())
                    .withDeadlineAfter(limit, TimeUnit.NANOSECONDS);
            return line.waits(address) ? timed.withWaitForReady() : timed;
        }

        private void succeed(Answered<A> answer) {
            try {
                result.complete(question.reading().apply(answer));
            } catch (RuntimeException error) {
                result.completeExceptionally(error);
            }
        }

        private void failed(String address, TopicPoliciesException error, boolean sent) {
            if (result.isDone()) {
                return; // it was given up, which says nothing of the address
            }
            boolean redirected = change ? line.routes().failed(address, namespace, error) : led(address, error);
            boolean another = redirected || error.isPassingLimit() || !(repeatedByGrpc && line.repeatsReads(address));
            Optional<Duration> pause = tries.failed(error, sent, redirected, ThreadLocalRandom.current().nextDouble());
            if (pause.isEmpty() || !another) {
                fail(error, sent);
                return;
            }
            pauses.pause(pause.get()).whenComplete((nothing, rejected) -> {
                if (line.isClosed() || rejected != null || result.isDone()) {
                    fail(error, sent);
                } else {
                    attempt();
                }
            });
        }

        /** Whether a read was sent somewhere else, to which the next attempt goes. */
        private boolean led(String address, TopicPoliciesException error) {
            led = line.routes().leader(address, error).orElse(null);
            if (led == null) {
                line.routes().failed(address, error);
            }
            return led != null;
        }

        private void fail(TopicPoliciesException error, boolean sent) {
            result.completeExceptionally(tries.verdict(error, sent));
        }
    }
}
