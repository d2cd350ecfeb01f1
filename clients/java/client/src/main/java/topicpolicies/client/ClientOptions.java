package topicpolicies.client;

import io.grpc.ClientInterceptor;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.function.Supplier;

/** The options of a client: how it reaches the service, and what applies to all its calls. Immutable. */
public final class ClientOptions {
    /** The service's default address. */
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
     * Options for an address: a timeout of 30 s for each call, with retries, and with TLS unless the address is on this machine.
     *
     * @param target {@code host:port} or another target in gRPC's syntax, or the addresses of several sidecars, separated by commas; if one
     *     can't be reached, the client moves on to the next. If one sidecar leads a namespace, changes of that namespace go to it, whatever
     *     its address, with the same TLS and token; reads and watches stay at the client's own addresses
     */
    public static Builder of(String target) {
        return new Builder(target);
    }

    /** A builder that starts with these options. */
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

    /** The TLS settings; empty: no TLS. */
    public Optional<Tls> tls() {
        return tls;
    }

    /** Supplies the bearer token of each call; empty: no token. */
    public Optional<Supplier<String>> token() {
        return token;
    }

    /** The actor of changes that name none; may be empty. */
    public String actor() {
        return actor;
    }

    /** The reason of changes that name none; may be empty. */
    public String reason() {
        return reason;
    }

    /** How long a call may take in all, retries included. */
    public Duration timeout() {
        return timeout;
    }

    /** Whether failed calls are retried. */
    public boolean retries() {
        return retries;
    }

    /** Where futures complete and listeners of watches are called; empty: Java's common pool. */
    public Optional<Executor> executor() {
        return executor;
    }

    /** The interceptors that each call passes, the first one first. */
    public List<ClientInterceptor> interceptors() {
        return interceptors;
    }

    /** The options without the token itself. */
    @Override
    public String toString() {
        return "ClientOptions[" + target + (tls.isPresent() ? ", TLS" : "") + (token.isPresent() ? ", token" : "") + "]";
    }

    /** Checks that a timeout is positive. */
    static Duration positive(Duration timeout) {
        if (timeout.isNegative() || timeout.isZero()) {
            throw new IllegalArgumentException("the timeout must be positive");
        }
        return timeout;
    }

    /** Builds the options. */
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

        /** Uses this TLS, also on this machine. */
        public Builder tls(Tls value) {
            tls = Optional.of(value);
            plain = false;
            return this;
        }

        /** Turns TLS off, also to another machine; a token is never sent to another machine without TLS. */
        public Builder withoutTls() {
            tls = Optional.empty();
            plain = true;
            return this;
        }

        /**
         * Sends a token with each call, as {@code authorization: Bearer}. The supplier is called for every call, so the token may change.
         * If it throws, the call fails (UNAUTHENTICATED); a watch tries again.
         */
        public Builder token(Supplier<String> value) {
            token = Optional.of(value);
            return this;
        }

        /** Sets the actor of changes that name none; it is stored in the log. Sent as metadata: printable ASCII. */
        public Builder actor(String value) {
            actor = metadata("actor", value);
            return this;
        }

        /** Sets the reason of changes that name none; it is stored in the log. Sent as metadata: printable ASCII. */
        public Builder reason(String value) {
            reason = metadata("reason", value);
            return this;
        }

        /** Sets how long a call may take in all, retries included, unless the call has its own timeout. */
        public Builder timeout(Duration value) {
            timeout = positive(value);
            return this;
        }

        /**
         * Makes every call only once. By default, calls that found no connection, or no leader of the namespace, are retried until their
         * time is over; changes carry a request id, so that is safe.
         */
        public Builder withoutRetries() {
            retries = false;
            return this;
        }

        /**
         * Sets the executor on which futures complete and listeners of watches are called. It should accept every task until the client is
         * closed. No call is lost if it rejects one: answers and events then arrive on Java's common pool, a call fails with its last error
         * instead of being repeated, and a watch that would connect, or many changes, end.
         */
        public Builder executor(Executor value) {
            executor = Optional.of(value);
            return this;
        }

        /**
         * Adds an interceptor that each attempt of every call passes, after those added before: for metadata of your own, such as a
         * trace's, or for telemetry. It sees the client's own metadata, except the token.
         */
        public Builder interceptor(ClientInterceptor value) {
            interceptors.add(Objects.requireNonNull(value));
            return this;
        }

        /**
         * Builds the options.
         *
         * @throws IllegalArgumentException if a token would be sent to another machine without TLS
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
