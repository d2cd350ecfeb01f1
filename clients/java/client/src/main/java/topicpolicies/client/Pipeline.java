package topicpolicies.client;

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
 * Many changes, without I/O: which of them wait, which are on their way where, and what becomes of them. Not thread-safe.
 *
 * <p>The changes of one namespace go one way together: to the address where it is written. When one of them is to be repeated, no others of
 * the namespace follow until all that are on their way have come back; then those to be repeated go first, in their order, with the same
 * request ids. When a stream breaks, all that were on their way over it are to be repeated, and so is what another sidecar has to take.
 * What fails otherwise has failed: later changes of its document may have been made.
 */
final class Pipeline {
    /** Changes of one batch, at most. */
    static final int BATCH_CHANGES = 1000;
    /** Bytes of one batch, at most, unless a single change has more. */
    static final int BATCH_BYTES = 1 << 20;

    private final Routes routes;
    private final RetryPolicy retries;
    private final Duration timeout;
    /** By namespace; those that have nothing to do are not kept. */
    private final Map<String, Lane> lanes = new LinkedHashMap<>();
    private final Map<Long, One> underWay = new TreeMap<>();

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
        private int underWay;
        /** Where those under way went. */
        private String address = "";
        /** Whether one is to be repeated. */
        private boolean failing;
        private long notBeforeNanos = System.nanoTime();

        Lane(String namespace) {
            this.namespace = namespace;
        }
    }

    /** {@code timeout}: of a change that has none of its own. */
    Pipeline(Routes routes, RetryPolicy retries, Duration timeout) {
        this.routes = routes;
        this.retries = retries;
        this.timeout = timeout;
    }

    /** Takes a change; {@code message} has its index as the sequence. */
    void add(Change change, PolicyChangeRequest message) {
        Lane lane = lanes.computeIfAbsent(TopicNames.namespaceOf(change.topic()), Lane::new);
        Tries tries = new Tries(retries, change.requestId(), System.nanoTime() + change.timeout().orElse(timeout).toNanos());
        lane.waiting.put(message.getSequence(), new One(message.getSequence(), change, message, lane, tries));
    }

    /** Whether nothing waits and nothing is on its way. */
    boolean isIdle() {
        return lanes.isEmpty();
    }

    /** Whether something is on its way over a stream to an address. */
    boolean isUnderWay(String address) {
        return lanes.values().stream().anyMatch(lane -> lane.underWay > 0 && lane.address.equals(address));
    }

    /** The addresses to which something can be sent now. */
    Collection<String> ready(long nowNanos) {
        return lanes.values().stream().filter(lane -> isReady(lane, nowNanos)).map(this::addressOf).distinct().toList();
    }

    /** How long until something can be sent that can't be now; empty if nothing waits for its time. */
    Optional<Duration> pause(long nowNanos) {
        return lanes.values().stream().filter(lane -> !lane.waiting.isEmpty() && lane.notBeforeNanos - nowNanos > 0)
                .map(lane -> Duration.ofNanos(lane.notBeforeNanos - nowNanos)).min(Comparator.naturalOrder());
    }

    /** The next batch for an address: what can be sent there now, which from here on is on its way. */
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
                underWay.put(one.index, one);
                lane.underWay++;
            }
        }
        return batch.build();
    }

    /** A result has come from an address: what became of the change; empty if it is repeated, or is none of those under way. */
    Optional<ChangeResult> settle(String address, PolicyChangeResult result) {
        One one = underWay.get(result.getSequence());
        if (one == null || !one.lane.address.equals(address)) {
            return Optional.empty();
        }
        return switch (result.getResultCase()) {
            case UPDATED -> one.change instanceof Update update
                    ? Optional.of(done(one, new ChangeResult.Updated(one.index, update, UpdateResult.of(result.getUpdated()))))
                    : Optional.empty();
            case DELETED -> one.change instanceof Delete deletion
                    ? Optional.of(done(one, new ChangeResult.Deleted(one.index, deletion, DeleteResult.of(result.getDeleted()))))
                    : Optional.empty();
            case ERROR -> refused(one, address, TopicPoliciesException.of(result.getError()));
            case RESULT_NOT_SET -> Optional.empty(); // a newer service's
        };
    }

    /** The stream to an address has ended: what fails for good by it. {@code sent}: whether there was a connection that took it. */
    List<ChangeResult> broke(String address, TopicPoliciesException error, boolean sent) {
        List<ChangeResult> results = new ArrayList<>();
        for (One one : List.copyOf(underWay.values())) {
            if (one.lane.address.equals(address)) {
                failed(one, address, error, sent).ifPresent(results::add);
            }
        }
        return results;
    }

    private static boolean isReady(Lane lane, long nowNanos) {
        return !lane.waiting.isEmpty() && (!lane.failing || lane.underWay == 0) && lane.notBeforeNanos - nowNanos <= 0;
    }

    /** Where a namespace's changes go; as long as some are on their way, not elsewhere. */
    private String addressOf(Lane lane) {
        return lane.underWay > 0 ? lane.address : routes.writer(lane.namespace);
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
        underWay.remove(one.index);
        lane.underWay--;
        lane.waiting.put(one.index, one);
        lane.failing = true;
        long again = System.nanoTime() + pause.get().toNanos();
        lane.notBeforeNanos = again - lane.notBeforeNanos > 0 ? again : lane.notBeforeNanos;
        return Optional.empty();
    }

    private ChangeResult done(One one, ChangeResult result) {
        underWay.remove(one.index);
        one.lane.underWay--;
        if (one.lane.underWay == 0 && one.lane.waiting.isEmpty()) {
            lanes.remove(one.lane.namespace);
        }
        return result;
    }
}
