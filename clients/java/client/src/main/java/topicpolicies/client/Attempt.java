package topicpolicies.client;

import io.grpc.Attributes;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ClientStreamTracer;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.util.concurrent.CompletableFuture;

/** One attempt of a unary call, which knows whether its request went out. */
final class Attempt<Q, A> implements ClientResponseObserver<Q, A>, ClientInterceptor {
    private final CompletableFuture<A> answered = new CompletableFuture<>();
    private volatile boolean sent;
    private volatile boolean abandoned;
    private volatile ClientCallStreamObserver<Q> call;
    private A answer;

    /** What becomes of it; fails with {@link TopicPoliciesException}. */
    CompletableFuture<A> answered() {
        return answered;
    }

    /** Whether there was a connection that took the request. */
    boolean sent() {
        return sent;
    }

    /** Ends it, if there has been no connection so far. */
    void abandonUnlessSent() {
        if (!sent && call != null) {
            abandoned = true;
            call.cancel("there is no connection yet", null);
        }
    }

    /** Ends it, once it was started, because the client was closed; nobody waits for gRPC to tell so. */
    void end() {
        answered.completeExceptionally(TopicPoliciesException.clientClosed());
        if (call != null) {
            call.cancel("the client was closed", null);
        }
    }

    @Override
    public <R, S> ClientCall<R, S> interceptCall(MethodDescriptor<R, S> method, CallOptions options, Channel next) {
        return next.newCall(method, options.withStreamTracerFactory(new ClientStreamTracer.Factory() {
            @Override
            public ClientStreamTracer newClientStreamTracer(ClientStreamTracer.StreamInfo info, Metadata headers) {
                return new ClientStreamTracer() {
                    @Override
                    public void streamCreated(Attributes transport, Metadata headers) {
                        sent = true;
                    }
                };
            }
        }));
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
        if (abandoned && !sent && failure.code() == Status.Code.CANCELLED) {
            failure = new TopicPoliciesException(Status.Code.UNAVAILABLE, "There was no connection in time.", error);
        }
        answered.completeExceptionally(failure);
    }

    @Override
    public void onCompleted() {
        answered.complete(answer);
    }
}
