package topicpolicies.client;

import io.grpc.Context;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import topicpolicies.v1.TopicPoliciesServiceGrpc.TopicPoliciesServiceStub;

/**
 * Unary calls as futures, each with its retries, at the addresses that {@link Routes} gives. A caller who completes a future ends its call.
 */
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
     * A request.
     *
     * @param method the method
     * @param message the request message
     * @param reading converts the answer to the result for the caller
     * @param timeout how long the call may take in all
     */
    record Question<Q, A, R>(Method<Q, A> method, Q message, Function<Answered<A>, R> reading, Duration timeout) {
    }

    Calls(Line line, RetryPolicy retries, Pauses pauses) {
        this.line = line;
        this.retries = retries;
        this.pauses = pauses;
    }

    /** Makes a read. Where gRPC itself retries reads, the client does not, so that attempts don't multiply. */
    <Q, A, R> CompletableFuture<R> read(Question<Q, A, R> question) {
        return new Call<>(question, "", "", true).start();
    }

    /** Makes a dry run of a change. It is retried like a read, but only by the client: to gRPC its method is a change. */
    <Q, A, R> CompletableFuture<R> dryRun(Question<Q, A, R> question) {
        return new Call<>(question, "", "", false).start();
    }

    /** Makes a change: if it was sent and not answered, its outcome is unknown. */
    <Q, A, R> CompletableFuture<R> change(Question<Q, A, R> question, String namespace, String requestId) {
        return new Call<>(question, namespace, requestId, false).start();
    }

    /**
     * Ends all calls. Closing a channel does not end them all: gRPC continues a read that it was about to retry, a channel that the client
     * was given stays open, and the executor on which gRPC reports results may have been shut down.
     */
    void close() {
        attempts.forEach(attempt -> attempt.end(TopicPoliciesException.clientClosed()));
    }

    /** Whether the caller's context has ended, so that a repeat would be cancelled. */
    private static boolean isOver(Context context) {
        return context.isCancelled() || context.getDeadline() != null && context.getDeadline().isExpired();
    }

    /**
     * One call. Its attempts and the pauses between them follow each other, so only what ends the call is shared between threads. Whoever
     * ends it sets {@code ended} first, and then ends the attempt and the pause at hand; a new one is ended by whoever begins it.
     */
    private final class Call<Q, A, R> {
        private final Question<Q, A, R> question;
        private final String namespace;
        private final boolean change;
        private final boolean repeatedByGrpc;
        private final Tries tries;
        /** Whose call it is: with the values that interceptors may need, and perhaps with an end. */
        private final Context context = Context.current();
        private final Ongoing<R> result = new Ongoing<>(this::end);
        private volatile Attempt<Q, A> current;
        private volatile CompletableFuture<Void> pause = CompletableFuture.completedFuture(null);
        /** Why whoever waited for the call ended it; null if nobody did. */
        private volatile TopicPoliciesException ended;
        /** The leader that the last error named, to which this read goes next; null if there is none. */
        private String led;

        /** An empty request id means a read. */
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

        /** Ends the current attempt or pause when the result is complete, perhaps because the caller cancelled it. */
        private void endCurrent() {
            endCurrent(new TopicPoliciesException(Status.Code.CANCELLED, "The call was cancelled.", null));
        }

        private void endCurrent(TopicPoliciesException why) {
            Attempt<Q, A> attempt = current;
            if (attempt != null && !attempt.answered().isDone()) {
                attempt.end(why);
            }
            pause.complete(null);
        }

        private void end(TopicPoliciesException why) {
            ended = why;
            endCurrent(why);
        }

        private void attempt() {
            String address = change ? line.routes().writer(namespace) : led != null ? led : line.routes().address();
            Attempt<Q, A> attempt = new Attempt<>();
            attempts.add(attempt);
            attempt.answered().whenComplete((answer, error) -> attempts.remove(attempt));
            try {
                question.method().call(ready(line.stub(address), address, attempt), question.message(), attempt);
            } catch (RuntimeException error) { // the client was closed, or an interceptor of the given channel threw
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
                attempt.end(TopicPoliciesException.clientClosed()); // closed after the other attempts were ended
            } else if (ended != null) {
                endCurrent(ended);
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
                return; // the caller cancelled the call, which says nothing about the address
            }
            if (error == ended || isOver(context)) { // nor does this
                tries.failed(error, sent, false, 0);
                fail(error, sent);
                return;
            }
            boolean redirected = change ? line.routes().failed(address, namespace, error) : led(address, error);
            boolean another = redirected || error.isPassingLimit() || !(repeatedByGrpc && line.repeatsReads(address));
            Optional<Duration> wait = tries.failed(error, sent, redirected, ThreadLocalRandom.current().nextDouble());
            if (wait.isEmpty() || !another) {
                fail(error, sent);
                return;
            }
            CompletableFuture<Void> over = pauses.pause(wait.get());
            pause = over;
            over.whenComplete((nothing, rejected) -> {
                if (ended != null) {
                    fail(ended, false);
                } else if (line.isClosed() || rejected != null || result.isDone()) {
                    fail(error, sent);
                } else {
                    context.run(this::attempt);
                }
            });
            if (ended != null || result.isDone()) {
                over.complete(null);
            }
        }

        /** Whether the error of a read named another address, to which the next attempt goes. */
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
