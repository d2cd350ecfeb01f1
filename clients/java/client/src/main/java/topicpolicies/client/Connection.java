package topicpolicies.client;

import io.grpc.CallCredentials;
import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.TlsChannelCredentials;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** The channel to an address: TLS, token, keep-alive, and how gRPC retries reads; see {@link RetryPolicy}. */
final class Connection {
    static final Metadata.Key<String> ACTOR = Metadata.Key.of("topicpolicies-actor", Metadata.ASCII_STRING_MARSHALLER);
    static final Metadata.Key<String> REASON = Metadata.Key.of("topicpolicies-reason", Metadata.ASCII_STRING_MARSHALLER);
    private static final Metadata.Key<String> AUTHORIZATION = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
    private static final int LARGEST_MESSAGE_BYTES = 64 << 20;

    private Connection() {
    }

    /** Opens a channel; {@code reads} says how gRPC retries reads on it. */
    static ManagedChannel open(ClientOptions options, String address, RetryPolicy reads) {
        ManagedChannelBuilder<?> builder = Grpc.newChannelBuilder(address, credentials(options))
                .keepAliveTime(30, TimeUnit.SECONDS) // detects a connection that died silently
                .keepAliveTimeout(10, TimeUnit.SECONDS)
                .maxInboundMessageSize(LARGEST_MESSAGE_BYTES)
                .disableServiceConfigLookUp(); // a service config from DNS is ignored
        if (reads.repeats()) {
            builder.defaultServiceConfig(reads.ofReads()).maxRetryAttempts(reads.maxAttempts()); // gRPC's own limit is 5
        }
        options.tls().flatMap(Tls::serverName).ifPresent(builder::overrideAuthority);
        options.executor().map(LosingNothing::new).ifPresent(builder::executor);
        return builder.build();
    }

    private static ChannelCredentials credentials(ClientOptions options) {
        if (options.tls().isEmpty()) {
            return InsecureChannelCredentials.create();
        }
        Tls tls = options.tls().get();
        TlsChannelCredentials.Builder builder = TlsChannelCredentials.newBuilder();
        try {
            if (tls.authorities().isPresent()) {
                builder.trustManager(tls.authorities().get().toFile());
            }
            if (tls.certificate().isPresent() && tls.key().isPresent()) {
                builder.keyManager(tls.certificate().get().toFile(), tls.key().get().toFile());
            }
        } catch (IOException error) {
            throw new UncheckedIOException("A file of the TLS options can't be read: " + error.getMessage(), error);
        }
        return builder.build();
    }

    /** Sends a token with each call. The token is requested on another thread than the transport's, because it may be read from a file. */
    static final class Bearer extends CallCredentials {
        private final Supplier<String> token;

        Bearer(Supplier<String> token) {
            this.token = token;
        }

        @Override
        public void applyRequestMetadata(RequestInfo request, Executor executor, MetadataApplier applier) {
            executor.execute(() -> {
                try {
                    Metadata headers = new Metadata();
                    headers.put(AUTHORIZATION, "Bearer " + token.get());
                    applier.apply(headers);
                } catch (Throwable error) { // also errors, or the call would wait for its token without end
                    NoTokenException why = new NoTokenException(error);
                    applier.fail(Status.UNAUTHENTICATED.withDescription(why.getMessage()).withCause(why));
                }
            });
        }
    }
}
