package topicpolicies.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;

/**
 * Delays a cancellation until its call has been started. {@code cancel} may be called by any thread, but a {@code RetriableStream} that is
 * cancelled while another thread starts it has no listener yet, and fails; and a call that was cancelled before cannot be started.
 */
final class CancelAfterStart implements ClientInterceptor {
    @Override
    public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
        return new Call<>(next.newCall(method, options));
    }

    private record Cancellation(String message, Throwable cause) {}

    private static final class Call<Q, A> extends SimpleForwardingClientCall<Q, A> {
        /** Whether {@code start} has returned, even if it failed. */
        private boolean started;
        private Cancellation waiting;

        Call(ClientCall<Q, A> call) {
            super(call);
        }

        @Override
        public void start(Listener<A> listener, Metadata headers) {
            try {
                super.start(listener, headers);
            } finally {
                Cancellation cancellation;
                synchronized (this) {
                    started = true;
                    cancellation = waiting;
                }
                if (cancellation != null) {
                    super.cancel(cancellation.message, cancellation.cause); // also after a failed start: nothing stays in the channel
                }
            }
        }

        @Override
        public void cancel(String message, Throwable cause) {
            synchronized (this) {
                if (!started) {
                    waiting = waiting == null ? new Cancellation(message, cause) : waiting;
                    return;
                }
            }
            super.cancel(message, cause);
        }
    }
}
