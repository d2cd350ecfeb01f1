package topicpolicies.client;

import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.ThreadLocalRandom;
import topicpolicies.v1.PolicyChangeRequest;
import topicpolicies.v1.PolicyChangeResult;
import topicpolicies.v1.UpdatePoliciesRequest;

/**
 * Many changes, without I/O: which of them wait, which are in flight to which address, and what happens to them. Not thread-safe.
 *
 * <p>The changes of one namespace go together to the address where it is written. If one of them has to be repeated, no others of the
 * namespace are sent until all in flight have returned; then the changes to repeat go first, in their order, with the same request ids. If
 * a stream breaks, all changes in flight on it are to be repeated, and so is a change that another sidecar has to make. A change that fails
 * otherwise has failed: later changes of its document may have been made.
 */
final class Pipeline {
    /** The maximum number of changes of one batch. */
    static final int BATCH_CHANGES = 1000;
    /** The maximum size of one batch in bytes; only a single change may be larger. */
    static final int BATCH_BYTES = 1 << 20;
    private static final String OTHER_KIND = "The service gave the result of another kind of change.";
    private static final String UNKNOWN_KIND = "The service gave a result that this client does not know.";

    private final Routes routes;
    private final RetryPolicy retries;
    private final Duration timeout;
    /** The lanes by namespace; lanes without changes are removed. */
    private final Map<String, Lane> lanes = new LinkedHashMap<>();
    private final Map<Long, One> inFlight = new TreeMap<>();

    private static final class One {
        private final long index;
        private final Change change;
        private final PolicyChangeRequest message;
        private final Lane lane;
        private final Tries tries;

        One(long index, Change change, PolicyChangeRequest message, Lane lane, Tries tries) {
            this.index = index;
            this.change = change;
            this.message = message;
            this.lane = lane;
            this.tries = tries;
        }
    }

    private static final class Lane {
        private final String namespace;
        private final TreeMap<Long, One> waiting = new TreeMap<>();
        private int inFlight;
        /** The address to which the changes in flight went. */
        private String address = "";
        /** Whether a change is to be repeated. */
        private boolean failing;
        private long notBeforeNanos = System.nanoTime();

        Lane(String namespace) {
            this.namespace = namespace;
        }
    }

    /** {@code timeout} is the timeout of changes that have none of their own. */
    Pipeline(Routes routes, RetryPolicy retries, Duration timeout) {
        this.routes = routes;
        this.retries = retries;
        this.timeout = timeout;
    }

    /** Adds a change; {@code message} has the index of the change as its sequence. */
    void add(Change change, PolicyChangeRequest message) {
        Lane lane = lanes.computeIfAbsent(TopicNames.namespaceOf(change.topic()), Lane::new);
        Tries tries = new Tries(retries, change.requestId(), System.nanoTime() + change.timeout().orElse(timeout).toNanos());
        lane.waiting.put(message.getSequence(), new One(message.getSequence(), change, message, lane, tries));
    }

    /** Whether no change is waiting or in flight. */
    boolean isIdle() {
        return lanes.isEmpty();
    }

    /** Whether changes are in flight on a stream to an address. */
    boolean isUnderWay(String address) {
        return lanes.values().stream().anyMatch(lane -> lane.inFlight > 0 && lane.address.equals(address));
    }

    /** Whether the time of a change is over that is in flight to an address. */
    boolean isOverdue(String address) {
        return inFlight.values().stream().anyMatch(one -> one.lane.address.equals(address) && one.tries.leftNanos() == 0);
    }

    /** The addresses to which changes can be sent now. */
    Collection<String> ready(long nowNanos) {
        return lanes.values().stream().filter(lane -> isReady(lane, nowNanos)).map(this::addressOf).distinct().toList();
    }

    /** How long until a change can be sent that can't be sent now; empty if no change is pausing. */
    Optional<Duration> pause(long nowNanos) {
        return lanes.values().stream().filter(lane -> !lane.waiting.isEmpty() && lane.notBeforeNanos - nowNanos > 0)
                .map(lane -> Duration.ofNanos(lane.notBeforeNanos - nowNanos)).min(Comparator.naturalOrder());
    }

    /** Returns the next batch for an address: the changes that can be sent there now, which are in flight from here on. */
    UpdatePoliciesRequest batch(String address, long nowNanos) {
        UpdatePoliciesRequest.Builder batch = UpdatePoliciesRequest.newBuilder();
        int bytes = 0;
        for (Lane lane : lanes.values()) {
            if (!isReady(lane, nowNanos) || !addressOf(lane).equals(address)) {
                continue;
            }
            lane.address = address;
            lane.failing = false;
            for (Iterator<One> waiting = lane.waiting.values().iterator(); waiting.hasNext();) {
                One one = waiting.next();
                bytes += one.message.getSerializedSize();
                if (batch.getChangesCount() == BATCH_CHANGES || batch.getChangesCount() > 0 && bytes > BATCH_BYTES) {
                    return batch.build();
                }
                batch.addChanges(one.message);
                waiting.remove();
                inFlight.put(one.index, one);
                lane.inFlight++;
            }
        }
        return batch.build();
    }

    /** Takes a result from an address. Returns the result of the change; empty if the change is repeated, or is not in flight. */
    Optional<ChangeResult> settle(String address, PolicyChangeResult result) {
        One one = inFlight.get(result.getSequence());
        if (one == null || !one.lane.address.equals(address)) {
            return Optional.empty();
        }
        return switch (result.getResultCase()) {
            case UPDATED -> one.change instanceof Update update
                    ? Optional.of(done(one, new ChangeResult.Updated(one.index, update, UpdateResult.of(result.getUpdated()))))
                    : refused(one, address, TopicPoliciesException.unexpected(OTHER_KIND));
            case DELETED -> one.change instanceof Delete deletion
                    ? Optional.of(done(one, new ChangeResult.Deleted(one.index, deletion, DeleteResult.of(result.getDeleted()))))
                    : refused(one, address, TopicPoliciesException.unexpected(OTHER_KIND));
            case ERROR -> refused(one, address, TopicPoliciesException.of(result.getError()));
            case RESULT_NOT_SET -> refused(one, address, new TopicPoliciesException(Status.Code.UNKNOWN, UNKNOWN_KIND, null));
        };
    }

    /**
     * The stream to an address has ended. Returns the results of the changes that are not repeated. {@code sent} says whether there was a
     * connection that took the stream.
     */
    List<ChangeResult> broke(String address, TopicPoliciesException error, boolean sent) {
        List<ChangeResult> results = new ArrayList<>();
        for (One one : List.copyOf(inFlight.values())) {
            if (one.lane.address.equals(address)) {
                failed(one, address, error, sent).ifPresent(results::add);
            }
        }
        return results;
    }

    private static boolean isReady(Lane lane, long nowNanos) {
        return !lane.waiting.isEmpty() && (!lane.failing || lane.inFlight == 0) && lane.notBeforeNanos - nowNanos <= 0;
    }

    /** The address for a namespace's changes; while some are in flight, it stays the same. */
    private String addressOf(Lane lane) {
        return lane.inFlight > 0 ? lane.address : routes.writer(lane.namespace);
    }

    private Optional<ChangeResult> refused(One one, String address, TopicPoliciesException error) {
        if (Routes.refusedByFollower(error)) {
            return failed(one, address, error, true);
        }
        one.tries.failed(error, true, false, 0);
        return Optional.of(done(one, new ChangeResult.Failed(one.index, one.change, one.tries.verdict(error, true))));
    }

    private Optional<ChangeResult> failed(One one, String address, TopicPoliciesException error, boolean sent) {
        Lane lane = one.lane;
        boolean redirected = routes.failed(address, lane.namespace, error);
        Optional<Duration> pause = one.tries.failed(error, sent, redirected, ThreadLocalRandom.current().nextDouble());
        if (pause.isEmpty()) {
            return Optional.of(done(one, new ChangeResult.Failed(one.index, one.change, one.tries.verdict(error, sent))));
        }
        inFlight.remove(one.index);
        lane.inFlight--;
        lane.waiting.put(one.index, one);
        lane.failing = true;
        long again = System.nanoTime() + pause.get().toNanos();
        lane.notBeforeNanos = again - lane.notBeforeNanos > 0 ? again : lane.notBeforeNanos;
        return Optional.empty();
    }

    private ChangeResult done(One one, ChangeResult result) {
        inFlight.remove(one.index);
        one.lane.inFlight--;
        if (one.lane.inFlight == 0 && one.lane.waiting.isEmpty()) {
            lanes.remove(one.lane.namespace);
        }
        return result;
    }
}
