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
    private volatile boolean ended;
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
     */
    void end(TopicPoliciesException why) {
        ended = true;
        answered.completeExceptionally(why);
        if (call != null) {
            call.cancel(why.getMessage(), null);
        }
    }

    /** Whether the attempt was ended, perhaps before its request was handed over, in which case gRPC throws. */
    boolean isEnded() {
        return ended;
    }

    @Override
    public void beforeStart(ClientCallStreamObserver<Q> started) {
        call = started;
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
        answered.completeExceptionally(failure);
    }

    @Override
    public void onCompleted() {
        answered.complete(answer);
    }
}
