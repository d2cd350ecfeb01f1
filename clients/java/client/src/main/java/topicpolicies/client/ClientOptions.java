package topicpolicies.client;

import io.grpc.ClientInterceptor;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.function.Supplier;

/** How a client reaches the service, and what holds for all its calls. Immutable. */
public final class ClientOptions {
    /** Where the service listens unless it was told otherwise. */
    public static final String DEFAULT_TARGET = "localhost:6680";

    private final String target;
    private final Optional<Tls> tls;
    private final Optional<Supplier<String>> token;
    private final String actor;
    private final String reason;
    private final Duration timeout;
    private final boolean retries;
    private final Optional<Executor> executor;
    private final List<ClientInterceptor> interceptors;

    private ClientOptions(Builder builder) {
        boolean elsewhere = !Routes.addressesOf(builder.target).stream().allMatch(Line::local);
        this.target = builder.target;
        this.tls = builder.tls.isEmpty() && elsewhere && !builder.plain ? Optional.of(Tls.DEFAULT) : builder.tls;
        this.token = builder.token;
        this.actor = builder.actor;
        this.reason = builder.reason;
        this.timeout = builder.timeout;
        this.retries = builder.retries;
        this.executor = builder.executor;
        this.interceptors = List.copyOf(builder.interceptors);
        if (token.isPresent() && tls.isEmpty() && elsewhere) {
            throw new IllegalArgumentException("a token is not sent to another machine without TLS: " + target);
        }
    }

    /**
     * Options for an address: 30 s a call, with retries, and with TLS unless the address is this machine's.
     *
     * @param target {@code host:port} or as gRPC understands it, or the addresses of several sidecars, separated by commas, which take
     *     turns when they can't be reached. A change of a namespace that one sidecar leads goes to that one, wherever it is, with the same
     *     TLS and token; reads and watches stay where they are
     */
    public static Builder of(String target) {
        return new Builder(target);
    }

    /** Options that begin as these. */
    public Builder toBuilder() {
        Builder builder = new Builder(target);
        builder.tls = tls;
        builder.plain = tls.isEmpty();
        builder.token = token;
        builder.actor = actor;
        builder.reason = reason;
        builder.timeout = timeout;
        builder.retries = retries;
        builder.executor = executor;
        builder.interceptors.addAll(interceptors);
        return builder;
    }

    /** The address, or several. */
    public String target() {
        return target;
    }

    /** TLS; empty: in clear. */
    public Optional<Tls> tls() {
        return tls;
    }

    /** Gives the token that each call carries; empty: none. */
    public Optional<Supplier<String>> token() {
        return token;
    }

    /** Who asks for the changes; empty: nobody says. */
    public String actor() {
        return actor;
    }

    /** Why; empty: nobody says. */
    public String reason() {
        return reason;
    }

    /** How long a call may take in all, its repeats included. */
    public Duration timeout() {
        return timeout;
    }

    /** Whether calls are repeated. */
    public boolean retries() {
        return retries;
    }

    /** Where answers and watches are told; empty: Java's common pool. */
    public Optional<Executor> executor() {
        return executor;
    }

    /** What each call passes, the first of them first. */
    public List<ClientInterceptor> interceptors() {
        return interceptors;
    }

    /** Everything but the token. */
    @Override
    public String toString() {
        return "ClientOptions[" + target + (tls.isPresent() ? ", TLS" : "") + (token.isPresent() ? ", token" : "") + "]";
    }

    /** A time that a call may take. */
    static Duration positive(Duration timeout) {
        if (timeout.isNegative() || timeout.isZero()) {
            throw new IllegalArgumentException("the timeout must be positive");
        }
        return timeout;
    }

    /** What options are made of. */
    public static final class Builder {
        private final String target;
        private Optional<Tls> tls = Optional.empty();
        private boolean plain;
        private Optional<Supplier<String>> token = Optional.empty();
        private String actor = "";
        private String reason = "";
        private Duration timeout = Duration.ofSeconds(30);
        private boolean retries = true;
        private Optional<Executor> executor = Optional.empty();
        private final List<ClientInterceptor> interceptors = new ArrayList<>();

        private Builder(String target) {
            this.target = Objects.requireNonNull(target);
        }

        /** With this TLS, also on this machine. */
        public Builder tls(Tls value) {
            tls = Optional.of(value);
            plain = false;
            return this;
        }

        /** In clear, also to another machine; a token is not sent to one so. */
        public Builder withoutTls() {
            tls = Optional.empty();
            plain = true;
            return this;
        }

        /** With a token in each call, sent as {@code authorization: Bearer}; it is asked for anew for every call, so that it may change. */
        public Builder token(Supplier<String> value) {
            token = Optional.of(value);
            return this;
        }

        /** Who asks, where a change does not say so itself; it is written into the log. Sent as metadata: printable ASCII. */
        public Builder actor(String value) {
            actor = metadata("actor", value);
            return this;
        }

        /** Why, where a change does not say so itself; it is written into the log. Sent as metadata: printable ASCII. */
        public Builder reason(String value) {
            reason = metadata("reason", value);
            return this;
        }

        /** How long a call may take in all, its repeats included, where the call does not say so itself. */
        public Builder timeout(Duration value) {
            timeout = positive(value);
            return this;
        }

        /**
         * Every call is made once. Otherwise those that found no service, or nobody who writes the namespace, are repeated until their time
         * is over; changes carry a request id, so that is safe.
         */
        public Builder withoutRetries() {
            retries = false;
            return this;
        }

        /** Answers and watches are told on this executor. */
        public Builder executor(Executor value) {
            executor = Optional.of(value);
            return this;
        }

        /**
         * Each attempt of every call passes this interceptor, behind those that were added before: for metadata of your own, such as a
         * trace's, or for telemetry. It sees the client's own metadata, but for the token.
         */
        public Builder interceptor(ClientInterceptor value) {
            interceptors.add(Objects.requireNonNull(value));
            return this;
        }

        /**
         * The options.
         *
         * @throws IllegalArgumentException a token would be sent to another machine without TLS
         */
        public ClientOptions build() {
            return new ClientOptions(this);
        }

        private static String metadata(String name, String value) {
            if (!value.equals(value.strip()) || !value.chars().allMatch(each -> each >= ' ' && each < 127)) {
                throw new IllegalArgumentException("the " + name + " is sent as metadata: printable ASCII, without blanks around it");
            }
            return value;
        }
    }
}
