package topicpolicies.client;

import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.util.concurrent.CompletableFuture;

/** One attempt of a unary call, which knows whether its request went out. */
final class Attempt<Q, A> implements ClientResponseObserver<Q, A> {
    private final CompletableFuture<A> answered = new CompletableFuture<>();
    private final Sent sent = new Sent();
    private final Trailing trailing = new Trailing();
    private volatile boolean abandoned;
    private volatile boolean ended;
    private volatile ClientCallStreamObserver<Q> call;
    private A answer;

    /** What becomes of it; fails with {@link TopicPoliciesException}. */
    CompletableFuture<A> answered() {
        return answered;
    }

    /** Notes whether there was a connection that took the request. */
    Sent sent() {
        return sent;
    }

    /** Notes what comes behind the answer. */
    Trailing trailing() {
        return trailing;
    }

    /** Ends it, if there has been no connection so far. */
    void abandonUnlessSent() {
        if (!sent.isSent() && call != null) {
            abandoned = true;
            call.cancel("there is no connection yet", null);
        }
    }

    /** Ends it, once it was started, because nobody waits for it any more; nor does anybody for gRPC to tell so. */
    void end(TopicPoliciesException why) {
        ended = true;
        answered.completeExceptionally(why);
        if (call != null) {
            call.cancel(why.getMessage(), null);
        }
    }

    /** Whether it was ended so, perhaps before its request was handed over: gRPC throws then. */
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
