package topicpolicies.client;

import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.function.Supplier;

/**
 * How a client reaches the service, and what holds for all its calls. Immutable: each {@code with...} gives changed options.
 *
 * @param target the service's address, {@code host:port} or as gRPC understands it, or the addresses of several sidecars, separated by commas,
 *     which take turns when they can't be reached. A change of a namespace that one sidecar leads goes to that one, wherever it is, with the
 *     same TLS and token; reads and watches stay where they are
 * @param tls TLS; empty: in clear, which is meant for this machine only
 * @param token gives the token that each call carries (read anew for every call, so that it may change); empty: none
 * @param actor who asks for the changes; it is written into the log beside them. Empty: nobody says
 * @param timeout how long a call may take in all, its repeats included
 * @param retries whether calls that found no service, or nobody who writes the namespace, are repeated until their time is over; changes carry a
 *     request id, so they are safe
 * @param executor where answers and watches are told; empty: gRPC's own
 */
public record ClientOptions(String target, Optional<Tls> tls, Optional<Supplier<String>> token, String actor, Duration timeout,
                            boolean retries, Optional<Executor> executor) {
    /** Where the service listens unless it was told otherwise. */
    public static final String DEFAULT_TARGET = "localhost:6680";

    /** Checks what cannot be right. */
    public ClientOptions {
        Objects.requireNonNull(target);
        if (timeout.isNegative() || timeout.isZero()) {
            throw new IllegalArgumentException("the timeout must be positive");
        }
        if (!actor.equals(actor.strip()) || !actor.chars().allMatch(each -> each >= ' ' && each < 127)) {
            throw new IllegalArgumentException("the actor is sent as metadata: printable ASCII, without blanks around it");
        }
    }

    /** The defaults, for an address: in clear, 30 s a call, with retries. */
    public static ClientOptions of(String target) {
        return new ClientOptions(target, Optional.empty(), Optional.empty(), "", Duration.ofSeconds(30), true, Optional.empty());
    }

    /** With TLS. */
    public ClientOptions withTls(Tls value) {
        return new ClientOptions(target, Optional.of(value), token, actor, timeout, retries, executor);
    }

    /** With a token in each call, sent as {@code authorization: Bearer}. */
    public ClientOptions withToken(Supplier<String> value) {
        return new ClientOptions(target, tls, Optional.of(value), actor, timeout, retries, executor);
    }

    /** With a name of who asks. */
    public ClientOptions withActor(String value) {
        return new ClientOptions(target, tls, token, value, timeout, retries, executor);
    }

    /** With another time for each call. */
    public ClientOptions withTimeout(Duration value) {
        return new ClientOptions(target, tls, token, actor, value, retries, executor);
    }

    /** With every call made once. */
    public ClientOptions withoutRetries() {
        return new ClientOptions(target, tls, token, actor, timeout, false, executor);
    }

    /** With answers and watches told on an executor. */
    public ClientOptions withExecutor(Executor value) {
        return new ClientOptions(target, tls, token, actor, timeout, retries, Optional.of(value));
    }

    /** Everything but the token. */
    @Override
    public String toString() {
        return "ClientOptions[" + target + (tls.isPresent() ? ", TLS" : "") + (token.isPresent() ? ", token" : "") + "]";
    }
}
