package topicpolicies.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;

/**
 * Lets a cancellation wait until its call has been started. {@code cancel} may come from any thread, but a {@code RetriableStream} that is
 * cancelled while another thread starts it has no listener to tell so yet, and fails; and a call that was cancelled before cannot start.
 */
final class CancelAfterStart implements ClientInterceptor {
    @Override
    public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
        return new Call<>(next.newCall(method, options));
    }

    private record Cancellation(String message, Throwable cause) {}

    private static final class Call<Q, A> extends SimpleForwardingClientCall<Q, A> {
        /** Whether starting it is over, be it in vain. */
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
                    super.cancel(cancellation.message, cancellation.cause); // in vain too: nothing of it stays in the channel
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
