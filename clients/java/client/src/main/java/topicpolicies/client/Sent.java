package topicpolicies.client;

import io.grpc.Attributes;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ClientStreamTracer;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;

/** Records whether there was a connection that took a call. */
final class Sent implements ClientInterceptor {
    private volatile boolean sent;

    boolean isSent() {
        return sent;
    }

    void note() {
        sent = true;
    }

    @Override
    public <R, S> ClientCall<R, S> interceptCall(MethodDescriptor<R, S> method, CallOptions options, Channel next) {
        return next.newCall(method, options.withStreamTracerFactory(new ClientStreamTracer.Factory() {
            @Override
            public ClientStreamTracer newClientStreamTracer(ClientStreamTracer.StreamInfo info, Metadata headers) {
                return new ClientStreamTracer() {
                    @Override
                    public void streamCreated(Attributes transport, Metadata headers) {
                        note();
                    }
                };
            }
        }));
    }
}
