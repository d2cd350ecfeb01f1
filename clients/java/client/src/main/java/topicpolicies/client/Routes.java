package topicpolicies.client;

import io.grpc.Status;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;

/**
 * The addresses to which the calls of one client go, without I/O. Thread-safe.
 *
 * <p>Sidecars may share the namespaces of a cluster, so that each namespace is written by one of them, its leader. The others serve reads
 * and watches; they refuse a change with the reason NOT_LEADER and name the leader's address. The leader is remembered by namespace, and
 * forgotten when a call to it fails. All other calls go to one of the addresses that the client was given, and to the next one when that
 * can't be reached.
 */
final class Routes {
    /** The maximum number of namespaces whose leaders are remembered. */
    static final int MOST_LEADERS = 10_000;
    private static final String NOT_LEADER = "NOT_LEADER";
    private static final List<String> SCHEMES = List.of("ipv4:", "ipv6:", "unix:", "unix-abstract:", "dns:", "vsock:", "xds:");
    /** The status codes of calls that another sidecar may be able to answer. */
    private static final Set<Status.Code> ELSEWHERE = EnumSet.of(Status.Code.UNAVAILABLE, Status.Code.DEADLINE_EXCEEDED,
            Status.Code.CANCELLED, Status.Code.INTERNAL, Status.Code.UNKNOWN);

    private final List<String> addresses;
    private final boolean follows;
    private int turn;
    /** The addresses for changes, by namespace, where they differ from the current address; the oldest entry first. */
    private final Map<String, String> writers = new LinkedHashMap<>();

    /**
     * {@code addresses} are the addresses that the client was given; {@code follows} says whether it follows leaders to other addresses.
     */
    Routes(List<String> addresses, boolean follows) {
        this.addresses = List.copyOf(addresses);
        this.follows = follows;
    }

    /** The addresses that the client was given. */
    List<String> addresses() {
        return addresses;
    }

    /** The current address, for reads and watches. */
    synchronized String address() {
        return addresses.get(turn);
    }

    /** The address for changes of a namespace. */
    synchronized String writer(String namespace) {
        return writers.getOrDefault(namespace, addresses.get(turn));
    }

    /** Records that a read or a watch failed at an address. */
    synchronized void failed(String address, TopicPoliciesException error) {
        if (ELSEWHERE.contains(error.code())) {
            leave(address);
        }
    }

    /** Moves on to the next address, if this one is the current one. */
    synchronized void leave(String address) {
        if (address.equals(addresses.get(turn))) {
            turn = (turn + 1) % addresses.size();
        }
    }

    /**
     * Records that a change failed at an address. Returns whether the error named another address, so that the next attempt needs no
     * pause.
     */
    synchronized boolean failed(String address, String namespace, TopicPoliciesException error) {
        if (!refusedByFollower(error)) {
            if (ELSEWHERE.contains(error.code())) {
                writers.remove(namespace, address);
            }
            failed(address, error);
            return false;
        }
        String leader = named(error);
        if (follows) {
            remember(namespace, leader.isEmpty() ? after(address) : leader);
        }
        return leader(address, error).isPresent();
    }

    /** The other address that an error names, if the client follows it. */
    Optional<String> leader(String address, TopicPoliciesException error) {
        boolean elsewhere = follows && refusedByFollower(error) && !named(error).isEmpty() && !named(error).equals(address);
        return elsewhere ? Optional.of(named(error)) : Optional.empty();
    }

    /** Forgets that a namespace is written at an address. */
    synchronized void forget(String address, String namespace) {
        writers.remove(namespace, address);
    }

    /** The address to try next in search of the leader; the current address does not change. */
    private String after(String address) {
        int at = addresses.indexOf(address);
        return at < 0 ? addresses.get(turn) : addresses.get((at + 1) % addresses.size());
    }

    private void remember(String namespace, String writer) {
        writers.remove(namespace);
        if (writers.size() >= MOST_LEADERS) {
            writers.remove(writers.keySet().iterator().next());
        }
        writers.put(namespace, writer);
    }

    private static String named(TopicPoliciesException error) {
        return error.metadata().getOrDefault("leader", "");
    }

    /** Whether a change was refused because another sidecar writes the namespace. It was certainly not made. */
    static boolean refusedByFollower(TopicPoliciesException error) {
        return error.fromService() && error.reason().equals(NOT_LEADER);
    }

    /** Splits a target into addresses, separated by commas. A target with a scheme is one address, which gRPC resolves. */
    static List<String> addressesOf(String target) {
        if (target.contains("://") || SCHEMES.stream().anyMatch(target::startsWith)) {
            return List.of(target);
        }
        List<String> found = Stream.of(target.split(",")).map(String::strip).filter(address -> !address.isEmpty()).toList();
        return found.isEmpty() ? List.of(target) : found;
    }
}
