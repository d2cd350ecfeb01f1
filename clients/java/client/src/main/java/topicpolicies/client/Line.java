package topicpolicies.client;

import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.stub.MetadataUtils;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import topicpolicies.v1.TopicPoliciesServiceGrpc;
import topicpolicies.v1.TopicPoliciesServiceGrpc.TopicPoliciesServiceStub;

/** What calls are made with: a channel to each address that is in use, opened by the first call to it. */
final class Line implements AutoCloseable {
    /** How long a connection may take to be made where there is another address to try. */
    static final Duration CONNECTING = Duration.ofSeconds(5);
    /** Addresses that a client has channels to at the same time, at most, beside those that it was given. */
    private static final int MOST_CHANNELS = 64;
    /** At most so often is gRPC told to connect now. */
    private static final long NUDGE_NANOS = TimeUnit.MILLISECONDS.toNanos(200);
    private static final Pattern LOCAL = Pattern.compile("(unix:.*)|(.*/)?(localhost|127(\\.\\d+){3}|\\[::1])(:\\d+)?");

    private final ClientOptions options;
    /** How gRPC repeats reads, where it does. */
    private final RetryPolicy reads;
    private final Channel given;
    private final Routes routes;
    /** In the order in which they were made. */
    private final Map<String, Open> opened = new LinkedHashMap<>();
    private boolean closed;

    private static final class Open {
        private final ManagedChannel channel;
        private final TopicPoliciesServiceStub stub;
        private long nudgedNanos = System.nanoTime() - NUDGE_NANOS;

        Open(ManagedChannel channel, TopicPoliciesServiceStub stub) {
            this.channel = channel;
            this.stub = stub;
        }

        /** gRPC waits up to two minutes between attempts to connect; whoever needs the service now wants one now. */
        void nudge() {
            if (channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE && System.nanoTime() - nudgedNanos > NUDGE_NANOS) {
                nudgedNanos = System.nanoTime();
                channel.resetConnectBackoff();
            }
        }
    }

    private Line(ClientOptions options, RetryPolicy reads, Channel given, Routes routes) {
        this.options = options;
        this.reads = reads;
        this.given = given;
        this.routes = routes;
    }

    /** To the addresses of the options, and wherever these send the client. */
    static Line to(ClientOptions options, RetryPolicy retries) {
        Line line = new Line(options, retries, null, new Routes(Routes.addressesOf(options.target()), true));
        line.routes.addresses().forEach(address -> line.open(address, new ArrayList<>())); // what is wrong with the options is said at once
        return line;
    }

    /** On an open channel, which stays open, with the service config that it has. It goes nowhere else. */
    static Line on(Channel channel, ClientOptions options) {
        return new Line(options, RetryPolicy.NONE, channel, new Routes(List.of("the channel"), false));
    }

    Routes routes() {
        return routes;
    }

    /** Whether there is no other address to try than this one. */
    private boolean alone(String address) {
        return routes.addresses().size() == 1 && routes.addresses().contains(address);
    }

    /** Whether a connection to an address may take {@link #CONNECTING} only: there is none yet, and another address to try. */
    boolean hurries(String address) {
        return !alone(address) && !connected(address);
    }

    /** Whether there is a connection to an address. */
    private synchronized boolean connected(String address) {
        Open open = opened.get(address);
        return open != null && open.channel.getState(false) == ConnectivityState.READY;
    }

    /** Whether calls wait for a connection to an address: if there is no other one to try. */
    boolean waits(String address) {
        return given == null && options.retries() && alone(address);
    }

    /** Whether gRPC itself repeats reads at an address: where there is another one it would stay at the one that fails. */
    boolean repeatsReads(String address) {
        return reads.repeats() && alone(address);
    }

    /** The service's methods at an address; fails if the client was closed, or the address can't be used. */
    TopicPoliciesServiceStub stub(String address) {
        List<ManagedChannel> evicted = new ArrayList<>();
        try {
            return stub(address, evicted);
        } finally {
            // Callbacks may run meanwhile, in this thread. What is under way there goes on to its end.
            evicted.forEach(ManagedChannel::shutdown);
        }
    }

    private synchronized TopicPoliciesServiceStub stub(String address, List<ManagedChannel> evicted) {
        if (closed) {
            throw TopicPoliciesException.clientClosed();
        }
        if (given != null) {
            return stubOn(given);
        }
        Open open = opened.get(address);
        if (open == null) {
            boolean astray = options.token().isPresent() && options.tls().isEmpty() && !local(address);
            if (astray && routes.addresses().stream().allMatch(Line::local)) {
                throw unusable(address, "a token is not sent in the clear to another machine than the client was told of", null);
            }
            try {
                open = open(address, evicted);
            } catch (IllegalArgumentException error) {
                throw unusable(address, error.getMessage(), error);
            }
        }
        open.nudge();
        return open.stub;
    }

    synchronized boolean isClosed() {
        return closed;
    }

    @Override
    public void close() {
        List<Open> left;
        synchronized (this) {
            closed = true;
            left = List.copyOf(opened.values());
            opened.clear();
        }
        left.forEach(open -> open.channel.shutdownNow()); // which may run callbacks of calls, in this thread
    }

    private Open open(String address, List<ManagedChannel> evicted) {
        ManagedChannel channel = Connection.open(options, address, repeatsReads(address) ? reads : RetryPolicy.NONE);
        List<String> others = opened.keySet().stream().filter(known -> !routes.addresses().contains(known)).toList();
        if (others.size() >= MOST_CHANNELS) {
            evicted.add(opened.remove(others.get(0)).channel);
        }
        Open open = new Open(channel, stubOn(channel));
        opened.put(address, open);
        return open;
    }

    private TopicPoliciesServiceStub stubOn(Channel channel) {
        Channel passing = ClientInterceptors.interceptForward(channel, options.interceptors());
        TopicPoliciesServiceStub made = TopicPoliciesServiceGrpc.newStub(ClientInterceptors.intercept(passing, new CancelAfterStart()));
        Metadata metadata = new Metadata();
        if (!options.actor().isEmpty()) {
            metadata.put(Connection.ACTOR, options.actor());
        }
        if (!options.reason().isEmpty()) {
            metadata.put(Connection.REASON, options.reason());
        }
        made = made.withInterceptors(MetadataUtils.newAttachHeadersInterceptor(metadata));
        return options.token().isPresent() ? made.withCallCredentials(new Connection.Bearer(options.token().get())) : made;
    }

    private static TopicPoliciesException unusable(String address, String problem, Throwable cause) {
        String message = "The address " + address + " can't be used: " + problem;
        return new TopicPoliciesException(Status.Code.FAILED_PRECONDITION, message, cause);
    }

    /** Whether an address is on this machine: a loopback address, {@code localhost} or a Unix socket. */
    static boolean local(String address) {
        return LOCAL.matcher(address).matches();
    }
}
