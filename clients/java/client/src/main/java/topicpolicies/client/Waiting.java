package topicpolicies.client;

import io.grpc.Status;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.locks.Lock;
import java.util.function.Supplier;

/** How blocking methods wait. An interrupt of the waiting thread ends the wait and the work for which it waits. */
final class Waiting {
    private static final String BEFORE = "The thread was interrupted before the call; nothing was sent.";
    private static final String DURING = "The thread was interrupted while it waited.";

    private Waiting() {
    }

    /**
     * Starts something, and waits for its result; throws the exception itself.
     *
     * @throws TopicPoliciesException with the code CANCELLED if the thread is or was interrupted, which it then still is. Where a change may
     *     have been made, it is an {@link OutcomeUnknownException}. If the thread was interrupted before, nothing is started
     */
    static <A> A await(Supplier<CompletableFuture<A>> start) {
        refuseIfInterrupted();
        CompletableFuture<A> future = start.get();
        try {
            return future.get();
        } catch (InterruptedException interrupt) {
            try {
                end(future, interrupted(DURING, interrupt));
                return future.join(); // perhaps a result that came at the same time
            } catch (CompletionException failure) {
                throw thrown(failure);
            } finally {
                Thread.currentThread().interrupt();
            }
        } catch (ExecutionException failure) {
            throw thrown(failure);
        }
    }

    /** Takes a lock; throws as {@link #await} does if the thread is interrupted. */
    static void lock(Lock lock) {
        refuseIfInterrupted();
        try {
            lock.lockInterruptibly();
        } catch (InterruptedException interrupt) {
            Thread.currentThread().interrupt();
            throw interrupted(DURING, interrupt);
        }
    }

    private static void refuseIfInterrupted() {
        if (Thread.currentThread().isInterrupted()) {
            throw interrupted(BEFORE, null);
        }
    }

    private static void end(CompletableFuture<?> future, TopicPoliciesException why) {
        if (future instanceof Ongoing<?> ongoing) {
            ongoing.end(why);
        } else {
            future.completeExceptionally(why);
        }
    }

    private static TopicPoliciesException interrupted(String message, InterruptedException cause) {
        return new TopicPoliciesException(Status.Code.CANCELLED, message, cause);
    }

    private static RuntimeException thrown(Exception failure) {
        if (failure.getCause() instanceof Error error) {
            throw error;
        }
        return failure.getCause() instanceof RuntimeException cause ? cause : TopicPoliciesException.of(failure);
    }
}
