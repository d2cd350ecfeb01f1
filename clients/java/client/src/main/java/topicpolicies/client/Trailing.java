package topicpolicies.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.ForwardingClientCallListener.SimpleForwardingClientCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.time.DateTimeException;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.Optional;

/** Records the trailing metadata of a call. */
final class Trailing implements ClientInterceptor {
    private static final Metadata.Key<String> UNCONFIRMED = Metadata.Key.of("topicpolicies-unconfirmed-since",
            Metadata.ASCII_STRING_MARSHALLER);

    private volatile Metadata metadata = new Metadata();

    /** The time since which the answer can't be confirmed; empty if it was confirmed, or the metadata can't be parsed. */
    Optional<Instant> unconfirmedSince() {
        String said = metadata.get(UNCONFIRMED);
        try {
            return Optional.ofNullable(said).map(OffsetDateTime::parse).map(OffsetDateTime::toInstant);
        } catch (DateTimeException unreadable) {
            return Optional.empty();
        }
    }

    @Override
    public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
        return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
            @Override
            public void start(Listener<A> listener, Metadata headers) {
                super.start(new SimpleForwardingClientCallListener<>(listener) {
                    @Override
                    public void onClose(Status status, Metadata trailers) {
                        metadata = trailers;
                        super.onClose(status, trailers);
                    }
                }, headers);
            }
        };
    }
}
