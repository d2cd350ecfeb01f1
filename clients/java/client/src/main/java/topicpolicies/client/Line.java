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

/** Provides the channels of a client, one to each address in use, which the first call to it opens. */
final class Line implements AutoCloseable {
    /** How long a connection may take to be established when there is another address to try. */
    static final Duration CONNECTING = Duration.ofSeconds(5);
    /** The maximum number of open channels besides those to the addresses that the client was given. */
    private static final int MOST_CHANNELS = 64;
    /** The minimum interval between two requests to gRPC to connect at once. */
    private static final long NUDGE_NANOS = TimeUnit.MILLISECONDS.toNanos(200);
    private static final Pattern LOCAL = Pattern.compile("(unix(-abstract)?:.*)|(.*/)?(localhost|127(\\.\\d+){3}|\\[::1])(:\\d+)?");

    private final ClientOptions options;
    /** How gRPC retries reads, where it does. */
    private final RetryPolicy reads;
    private final Channel given;
    private final Routes routes;
    /** The open channels by address, in the order in which they were created. */
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

        /** Makes gRPC connect at once: it waits up to two minutes between attempts, but a call needs the service now. */
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

    /** A line to the addresses of the options, and to the leaders that their sidecars name. */
    static Line to(ClientOptions options, RetryPolicy retries) {
        Line line = new Line(options, retries, null, new Routes(Routes.addressesOf(options.target()), true));
        line.routes.addresses().forEach(address -> line.open(address, new ArrayList<>())); // wrong options are reported at once
        return line;
    }

    /** A line on an open channel, which stays open and keeps its service config. It follows no leaders. */
    static Line on(Channel channel, ClientOptions options) {
        return new Line(options, RetryPolicy.NONE, channel, new Routes(List.of("the channel"), false));
    }

    Routes routes() {
        return routes;
    }

    /** Whether there is no address to try other than this one. */
    private boolean alone(String address) {
        return routes.addresses().size() == 1 && routes.addresses().contains(address);
    }

    /** Whether connecting to an address is limited to {@link #CONNECTING}: there is no connection yet, and another address to try. */
    boolean hurries(String address) {
        return !alone(address) && !connected(address);
    }

    /** Whether there is a connection to an address. */
    private synchronized boolean connected(String address) {
        Open open = opened.get(address);
        return open != null && open.channel.getState(false) == ConnectivityState.READY;
    }

    /** Whether calls wait for a connection to an address: only if there is no other one to try. */
    boolean waits(String address) {
        return given == null && options.retries() && alone(address);
    }

    /** Whether gRPC itself retries reads at an address. If there are others it does not, because it would stay at the one that fails. */
    boolean repeatsReads(String address) {
        return reads.repeats() && alone(address);
    }

    /** Returns the stub for an address; throws if the client was closed, or the address can't be used. */
    TopicPoliciesServiceStub stub(String address) {
        List<ManagedChannel> evicted = new ArrayList<>();
        try {
            return stub(address, evicted);
        } finally {
            // Callbacks may run meanwhile, in this thread. Calls in flight on the channel are completed.
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
                throw unusable(address, "a token is not sent in the clear to another machine than those of the given addresses", null);
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
        left.forEach(open -> open.channel.shutdownNow()); // may run callbacks of calls, in this thread
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
