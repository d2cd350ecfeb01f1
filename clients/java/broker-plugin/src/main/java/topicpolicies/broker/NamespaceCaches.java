package topicpolicies.broker;

import java.time.Duration;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.Predicate;
import topicpolicies.client.PolicyCache;
import topicpolicies.client.TopicPoliciesClient;
import topicpolicies.v1.WatchPoliciesRequest;

/**
 * The copies of the namespaces that this broker needs. A copy is opened when it is first requested, and dropped when it was not needed for
 * a while.
 */
final class NamespaceCaches {
    private static final class Used {
        private final PolicyCache cache;
        private volatile long atNanos = System.nanoTime();

        Used(PolicyCache cache) {
            this.cache = cache;
        }
    }

    private final TopicPoliciesClient client;
    private final Consumer<PolicyCache.Change> listener;
    private final ConcurrentHashMap<String, Used> open = new ConcurrentHashMap<>();

    /** {@code listener} is called with every document and every change of it, in order. */
    NamespaceCaches(TopicPoliciesClient client, Consumer<PolicyCache.Change> listener) {
        this.client = client;
        this.listener = listener;
    }

    /** The copy of a namespace, {@code tenant/namespace}. It may not be complete yet. One whose watch has ended is replaced. */
    PolicyCache of(String namespace) {
        return open.compute(namespace, (name, known) -> {
            Used used = known == null || known.cache.isEnded() ? new Used(opened(name)) : known;
            used.atNanos = System.nanoTime();
            return used;
        }).cache;
    }

    /** The copy of a namespace if it is open; otherwise null. */
    PolicyCache ifOpen(String namespace) {
        Used used = open.get(namespace);
        return used == null ? null : used.cache;
    }

    /** Drops the copies that were not requested within {@code idle} and that are not {@code needed} otherwise. */
    void dropIdle(Duration idle, Predicate<String> needed) {
        for (String namespace : open.keySet()) {
            open.computeIfPresent(namespace, (name, used) -> {
                if (System.nanoTime() - used.atNanos < idle.toNanos() || needed.test(name)) {
                    return used;
                }
                used.cache.close();
                return null;
            });
        }
    }

    int count() {
        return open.size();
    }

    /** The age of the oldest copy, in seconds; infinite if one is not known, as before its first snapshot, and 0 if there are no copies. */
    double staleness() {
        return open.values().stream().mapToDouble(used -> used.cache.age()
                .map(age -> age.toNanos() / 1e9).orElse(Double.POSITIVE_INFINITY)).max().orElse(0);
    }

    private PolicyCache opened(String namespace) {
        PolicyCache cache = client.cache(WatchPoliciesRequest.newBuilder().addNamespaces(namespace).build(), true);
        cache.listen(listener);
        return cache;
    }
}
