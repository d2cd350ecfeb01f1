package topicpolicies.client;

import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.util.concurrent.CompletableFuture;

/** One attempt of a unary call. It records whether its request was sent. */
final class Attempt<Q, A> implements ClientResponseObserver<Q, A> {
    private final CompletableFuture<A> answered = new CompletableFuture<>();
    private final Sent sent = new Sent();
    private final Trailing trailing = new Trailing();
    private volatile boolean abandoned;
    private volatile TopicPoliciesException ended;
    private volatile ClientCallStreamObserver<Q> call;
    private A answer;

    /** The result of the attempt; fails with {@link TopicPoliciesException}. */
    CompletableFuture<A> answered() {
        return answered;
    }

    /** Records whether there was a connection that took the request. */
    Sent sent() {
        return sent;
    }

    /** Records the trailing metadata of the answer. */
    Trailing trailing() {
        return trailing;
    }

    /** Cancels the attempt if there has been no connection so far. */
    void abandonUnlessSent() {
        if (!sent.isSent() && call != null) {
            abandoned = true;
            call.cancel("there is no connection yet", null);
        }
    }

    /**
     * Ends the attempt, once it was started, because its result is no longer needed. The future fails at once, without waiting for gRPC.
     * Its call is cancelled before: if nothing was sent by the time the future fails, nothing will be.
     */
    void end(TopicPoliciesException why) {
        ended = why;
        try {
            if (call != null) {
                call.cancel(why.getMessage(), null);
            }
        } finally {
            answered.completeExceptionally(why);
        }
    }

    /** Whether the attempt was ended, perhaps before its request was handed over, in which case gRPC throws. */
    boolean isEnded() {
        return ended != null;
    }

    @Override
    public void beforeStart(ClientCallStreamObserver<Q> started) {
        call = started;
        if (ended != null) {
            started.cancel(ended.getMessage(), null);
        }
    }

    @Override
    public void onNext(A value) {
        answer = value;
    }

    @Override
    public void onError(Throwable error) {
        TopicPoliciesException failure = TopicPoliciesException.of(error);
        if (abandoned && !sent.isSent() && failure.code() == Status.Code.CANCELLED) {
            failure = new TopicPoliciesException(Status.Code.UNAVAILABLE, "There was no connection in time.", error);
        }
        boolean own = ended != null && failure.code() == Status.Code.CANCELLED && !failure.fromService();
        answered.completeExceptionally(own ? ended : failure);
    }

    @Override
    public void onCompleted() {
        answered.complete(answer);
    }
}
