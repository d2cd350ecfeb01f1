package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import topicpolicies.v1.TopicPolicies;

/** A cache whose sidecar has an empty namespace; {@link WatchVectorsTest} tests how a cache follows a watch. */
@Timeout(60)
final class PolicyCacheTest extends ClosedAfterwards {
    /** The tasks that the client's executor has not run yet. */
    private final Queue<Runnable> tasks = new ArrayDeque<>();
    private final List<PolicyCache.Change> received = new ArrayList<>();
    private PolicyCache cache;

    @BeforeEach
    void open() throws Exception {
        Member member = member(Member.LEADING);
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(member.address()));
        cache = closing(new PolicyCache(client, Selection.ofNamespaces("t/n").build(), tasks::add));
        cache.whenSynced().get(20, TimeUnit.SECONDS);
    }

    private static Document document(String topic, int number) {
        TopicPolicies policies = TopicPolicies.newBuilder().setMaxProducerPerTopic(number).build();
        return new Document(topic, Scope.LOCAL, Optional.of(policies), "v" + number, false);
    }

    private void runAll() {
        for (Runnable task = tasks.poll(); task != null; task = tasks.poll()) {
            task.run();
        }
    }

    @Test
    void aTopicIsFoundByItsShortNameAndByThatOfAPartition() {
        Document document = document(TOPIC, 1);
        cache.offer(document);
        for (String name : List.of(TOPIC, "t/n/x", "t/n/x-partition-3", TOPIC + "-partition-0")) {
            assertEquals(Optional.of(document), cache.get(name, Scope.LOCAL), name);
        }
        for (String other : List.of("t/n/x-partition-03", "non-persistent://t/n/x", "t/n/x-partition-99999999999")) {
            assertTrue(cache.get(other, Scope.LOCAL).isEmpty(), other);
        }
        cache.gone("t/n/x");
        assertTrue(cache.get(TOPIC, Scope.LOCAL).isEmpty());
    }

    @Test
    void aListenerReceivesTheExistingDocumentsAndThenEveryChangeWithBeforeAndAfter() {
        Document first = document(TOPIC, 1);
        Document second = document(TOPIC, 2);
        cache.offer(first);
        cache.listen(received::add);
        runAll();
        cache.offer(second);
        runAll();
        cache.gone(TOPIC);
        runAll();
        assertEquals(List.of(new PolicyCache.Change(TOPIC, Scope.LOCAL, Optional.empty(), Optional.of(first)),
                new PolicyCache.Change(TOPIC, Scope.LOCAL, Optional.of(first), Optional.of(second)),
                new PolicyCache.Change(TOPIC, Scope.LOCAL, Optional.of(second), Optional.empty())), received);
    }

    @Test
    void aSlowListenerReceivesOnlyTheNewestStateOfEachDocumentAndItsQueueStaysShort() {
        cache.listen(received::add);
        for (int number = 1; number <= 1000; number++) {
            cache.offer(document(TOPIC, 1000 + number));
        }
        cache.offer(document(TOPIC + "2", 1));
        cache.gone(TOPIC + "2");
        assertEquals(1, tasks.size());
        runAll();
        assertEquals(List.of(new PolicyCache.Change(TOPIC, Scope.LOCAL, Optional.empty(), Optional.of(document(TOPIC, 2000)))), received);
    }

    @Test
    void afterClosingNoListenerIsCalled() {
        PolicyCache.Listening listening = cache.listen(received::add);
        List<PolicyCache.Change> others = new ArrayList<>();
        cache.listen(others::add);
        cache.offer(document(TOPIC, 1));
        listening.close();
        runAll();
        assertEquals(List.of(0, 1), List.of(received.size(), others.size()));
        cache.offer(document(TOPIC, 2));
        cache.close();
        runAll();
        assertEquals(1, others.size(), "a queued change was delivered after the cache was closed");
        cache.listen(received::add);
        runAll();
        assertTrue(received.isEmpty());
        assertTrue(cache.get(TOPIC, Scope.LOCAL).isPresent(), "the documents do not stay readable");
    }

    @Test
    void aListenerThatThrowsStillReceivesTheOtherChanges() {
        List<String> seen = new ArrayList<>();
        Thread.UncaughtExceptionHandler before = Thread.currentThread().getUncaughtExceptionHandler();
        List<Throwable> thrown = new ArrayList<>();
        Thread.currentThread().setUncaughtExceptionHandler((thread, error) -> thrown.add(error));
        try {
            cache.listen(change -> {
                seen.add(change.topic());
                throw new IllegalStateException("not that");
            });
            cache.offer(document(TOPIC, 1));
            cache.offer(document(TOPIC + "2", 1));
            runAll();
        } finally {
            Thread.currentThread().setUncaughtExceptionHandler(before);
        }
        assertEquals(List.of(List.of(TOPIC, TOPIC + "2"), 2), List.of(seen, thrown.size()));
    }

    @Test
    void stalenessHasAValueOnceTheCopyIsComplete() {
        assertTrue(cache.staleness().orElseThrow().toSeconds() < 30);
        assertTrue(cache.staleness("t/n").isPresent());
        assertTrue(cache.staleness("t/other").isEmpty());
        assertEquals(topicpolicies.v1.NamespaceState.NAMESPACE_STATE_READY, cache.status("t/n").state());
        assertFalse(cache.ended());
    }
}
