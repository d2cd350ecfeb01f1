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
 * Where the calls of one client go, without I/O. Thread-safe.
 *
 * <p>Sidecars may share the namespaces of a cluster so that each is written by one of them, its leader. The others serve reads and watches;
 * a change they refuse with the reason NOT_LEADER, and name the leader's address. It is remembered by namespace, and forgotten when it
 * fails. Everything else goes to one of the addresses that the client was given, and on to the next one when that can't be reached.
 */
final class Routes {
    /** Namespaces whose leaders are remembered. */
    static final int MOST_LEADERS = 10_000;
    private static final String NOT_LEADER = "NOT_LEADER";
    private static final List<String> SCHEMES = List.of("ipv4:", "ipv6:", "unix:", "unix-abstract:", "dns:", "vsock:", "xds:");
    /** How calls fail that another sidecar may answer. */
    private static final Set<Status.Code> ELSEWHERE = EnumSet.of(Status.Code.UNAVAILABLE, Status.Code.DEADLINE_EXCEEDED,
            Status.Code.CANCELLED, Status.Code.INTERNAL, Status.Code.UNKNOWN);

    private final List<String> addresses;
    private final boolean follows;
    private int turn;
    /** Where the changes of a namespace go, if not to the address whose turn it is; the oldest first. */
    private final Map<String, String> writers = new LinkedHashMap<>();

    /** {@code addresses} are those that the client was given; {@code follows}: whether it goes anywhere else. */
    Routes(List<String> addresses, boolean follows) {
        this.addresses = List.copyOf(addresses);
        this.follows = follows;
    }

    /** The addresses that the client was given. */
    List<String> addresses() {
        return addresses;
    }

    /** Where to read and to watch. */
    synchronized String address() {
        return addresses.get(turn);
    }

    /** Where to change something of a namespace. */
    synchronized String writer(String namespace) {
        return writers.getOrDefault(namespace, addresses.get(turn));
    }

    /** Takes note that a read or a watch has failed. */
    synchronized void failed(String address, TopicPoliciesException error) {
        if (ELSEWHERE.contains(error.code())) {
            leave(address);
        }
    }

    /** The next address has its turn, if this one has it. */
    synchronized void leave(String address) {
        if (address.equals(addresses.get(turn))) {
            turn = (turn + 1) % addresses.size();
        }
    }

    /**
     * Takes note that a change has failed; gives whether the error named another address, so that there is no need to wait before that is
     * tried.
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

    /** The other address that an error names, if the client goes there. */
    Optional<String> leader(String address, TopicPoliciesException error) {
        boolean elsewhere = follows && refusedByFollower(error) && !named(error).isEmpty() && !named(error).equals(address);
        return elsewhere ? Optional.of(named(error)) : Optional.empty();
    }

    /** Forgets that a namespace is written at an address. */
    synchronized void forget(String address, String namespace) {
        writers.remove(namespace, address);
    }

    /** Whom to ask next for the leader; reads do not move. */
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

    /** Whether a change was refused, and certainly not made, because another sidecar writes the namespace. */
    static boolean refusedByFollower(TopicPoliciesException error) {
        return error.fromService() && error.reason().equals(NOT_LEADER);
    }

    /** The addresses in a target: several are separated by commas. What has a scheme is one, and gRPC's own business. */
    static List<String> addressesOf(String target) {
        if (target.contains("://") || SCHEMES.stream().anyMatch(target::startsWith)) {
            return List.of(target);
        }
        List<String> found = Stream.of(target.split(",")).map(String::strip).filter(address -> !address.isEmpty()).toList();
        return found.isEmpty() ? List.of(target) : found;
    }
}
