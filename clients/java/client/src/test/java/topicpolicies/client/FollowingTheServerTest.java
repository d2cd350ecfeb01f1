package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import topicpolicies.v1.DeleteOutcome;
import topicpolicies.v1.HistoryEntry;
import topicpolicies.v1.HistoryOutcome;

/** Many documents: caches, watches, listings, histories and many changes, against a server. */
@Timeout(60)
final class FollowingTheServerTest extends WithAServer {
    /** Returns a field before and after a change; 0 where there is no document. */
    private static List<Integer> values(PolicyCache.Change change) {
        return Stream.of(change.before(), change.after())
                .map(document -> document.map(each -> each.policiesOrDefault().getMaxProducerPerTopic()).orElse(0)).toList();
    }

    @Test
    void aCacheIsCurrentCallsItsListenersAndStoresOfferedDocuments() throws Exception {
        client.update(topic, producers(1), "max_producer_per_topic");
        BlockingQueue<PolicyCache.Change> received = new LinkedBlockingQueue<>();
        try (PolicyCache cache = client.cache(Selection.ofNamespaces(namespace).bookmarkInterval(Duration.ofSeconds(1)).build())) {
            cache.whenSynced().get(20, TimeUnit.SECONDS);
            assertTrue(cache.synced() && cache.connected());
            assertEquals(Optional.of(producers(1)), cache.get(topic, Scope.LOCAL).flatMap(Document::policies));
            cache.listen(received::add);
            assertEquals(List.of(0, 1), values(received.poll(20, TimeUnit.SECONDS)));
            UpdateResult updated = client.update(topic, producers(2), "max_producer_per_topic");
            cache.offer(updated.document().orElseThrow());
            assertEquals(2, cache.get(topic, Scope.LOCAL).orElseThrow().policiesOrDefault().getMaxProducerPerTopic(), "the client's own write is visible at once");
            assertEquals(List.of(1, 2), values(received.poll(20, TimeUnit.SECONDS)));
            client.delete(topic, Scope.LOCAL);
            assertEquals(List.of(2, 0), values(received.poll(20, TimeUnit.SECONDS)));
            assertTrue(cache.documents().isEmpty());
            soon(() -> cache.staleness().orElseThrow().toMillis() > 600, "the copy has become older");
            soon(() -> cache.staleness().orElseThrow().toMillis() < 500, "a bookmark has confirmed it");
            assertTrue(received.isEmpty(), "a change was delivered twice");
        }
    }

    @Test
    void aWatchAndACacheSurviveARestartOfTheServerWithoutALossOrARepeat() throws Exception {
        Map<String, List<String>> versions = new HashMap<>();
        BlockingQueue<WatchEvent> events = new LinkedBlockingQueue<>();
        Watch watch = client.watch(Selection.ofNamespaces(namespace).mode(WatchMode.EVERY).build(), events::add);
        try (watch; PolicyCache cache = client.cache(namespace)) {
            cache.whenSynced().get(20, TimeUnit.SECONDS);
            List<String> written = new ArrayList<>();
            for (int number = 1; number <= 10; number++) {
                written.add(client.update(topic, producers(number), "max_producer_per_topic").version());
            }
            soon(() -> cache.get(topic, Scope.LOCAL).map(Document::version).equals(Optional.of(written.get(9))), "the cache follows");
            server.kill();
            soon(() -> !cache.connected(), "the cache notices");
            assertEquals(10, cache.get(topic, Scope.LOCAL).orElseThrow().policiesOrDefault().getMaxProducerPerTopic(), "the cache keeps its documents");
            CompletableFuture<UpdateResult> waiting = client.updateAsync(Update.of(topic).policies(producers(11)).build());
            server.start();
            written.add(waiting.get(30, TimeUnit.SECONDS).version());
            soon(() -> cache.get(topic, Scope.LOCAL).map(Document::version).equals(Optional.of(written.get(10))), "the cache catches up");
            assertTrue(cache.lastError().isPresent());
            int interruptions = 0;
            int restarts = 0;
            for (String last = ""; !last.equals(written.get(10));) {
                WatchEvent event = events.poll(20, TimeUnit.SECONDS);
                interruptions += event instanceof WatchEvent.Interrupted ? 1 : 0;
                restarts += event instanceof WatchEvent.Reset ? 1 : 0;
                if (event instanceof WatchEvent.Changed changed) {
                    last = changed.document().version();
                    versions.computeIfAbsent(changed.document().topic(), name -> new ArrayList<>()).add(last);
                }
            }
            assertEquals(Map.of(topic, written), versions);
            assertTrue(interruptions > 0);
            assertEquals(0, restarts, "the watch was not resumed");
        }
    }

    @Test
    void aListReadsAllPagesAndAWatchFromItsTokenMissesNothing() throws Exception {
        for (int number = 1; number <= 7; number++) {
            client.update(topic + number, producers(number));
        }
        DocumentList list = client.list(Listing.of(namespace).pageSize(3).scopes(List.of(Scope.LOCAL)).build());
        List<Document> listed = new ArrayList<>();
        list.forEach(listed::add);
        assertEquals(List.of(1, 2, 3, 4, 5, 6, 7), listed.stream().map(each -> each.policiesOrDefault().getMaxProducerPerTopic()).toList());
        client.update(topic + 7, producers(8));
        List<Integer> received = new ArrayList<>();
        Watch watch = client.watch(Selection.ofNamespaces(namespace).resume(list.token()).endWhenSynced().build(), event -> {
            if (event instanceof WatchEvent.Changed changed) {
                received.add(changed.document().policiesOrDefault().getMaxProducerPerTopic());
            }
        });
        watch.whenEnded().get(20, TimeUnit.SECONDS);
        assertEquals(List.of(8), received);
    }

    @Test
    void theHistoryIsListedAndWatchedFromItsBeginning() throws Exception {
        client.update(Update.of(topic).policies(producers(1)).actor("me").reason("why").build());
        for (int number = 2; number <= 5; number++) {
            client.update(topic, producers(number));
        }
        List<HistoryEntry> entries = new ArrayList<>();
        History history = client.history(HistoryQuery.ofTopic(topic).oldestFirst().pageSize(2).build());
        history.forEach(entries::add);
        assertEquals(List.of(1, 2, 3, 4, 5), entries.stream().map(each -> each.getDocument().getPolicies().getMaxProducerPerTopic()).toList());
        assertEquals(List.of("me", "why"), List.of(entries.get(0).getOrigin().getActor(), entries.get(0).getOrigin().getReason()));
        assertTrue(history.gaps().isEmpty() && history.following());
        List<HistoryEntry> copied = new ArrayList<>();
        List<WatchEvent.Changed> changes = new ArrayList<>();
        Watch.Listener listener = event -> {
            if (event instanceof WatchEvent.Entry entry) {
                copied.add(entry.entry());
            } else if (event instanceof WatchEvent.Changed changed) {
                changes.add(changed);
            }
        };
        client.watch(Selection.ofTopics(topic).mode(WatchMode.ENTRIES).endWhenSynced().build(), listener).whenEnded().get(20, TimeUnit.SECONDS);
        assertEquals(entries, copied);
        client.watch(Selection.ofTopics(topic).mode(WatchMode.EVERY).fromBeginning().includePrevious().endWhenSynced().build(), listener)
                .whenEnded().get(20, TimeUnit.SECONDS);
        assertEquals(5, changes.size());
        for (int at = 1; at < 5; at++) {
            assertEquals(changes.get(at - 1).document(), changes.get(at).previous().orElseThrow());
            assertEquals(changes.get(at - 1).document().version(), changes.get(at).previousVersion());
        }
    }

    @Test
    void manyChangesAreMadeInOrderAndAnInvalidOneFailsAlone() {
        List<Change> changes = new ArrayList<>();
        for (int number = 0; number < 3000; number++) {
            changes.add(Update.of(topic + number % 10).policies(producers(number)).build());
        }
        changes.add(Update.of(topic).mask("nope").build());
        changes.add(Delete.of(topic + 3).build());
        List<ChangeResult> results = client.updateMany(changes);
        Map<String, String> last = new HashMap<>();
        for (ChangeResult result : results.subList(0, 3000)) {
            UpdateResult updated = ((ChangeResult.Updated) result).result();
            String before = last.put(result.change().topic(), updated.version());
            assertTrue(before == null || before.equals(updated.previousVersion()), "the changes were made in another order");
        }
        assertEquals("UNKNOWN_PATH", ((ChangeResult.Failed) results.get(3000)).error().reason());
        assertEquals(DeleteOutcome.DELETE_OUTCOME_DELETED, ((ChangeResult.Deleted) results.get(3001)).result().outcome());
        assertEquals(2999, client.get(topic + 9).policiesOrDefault().getMaxProducerPerTopic());
    }

    @Test
    void manyChangesSurviveARestartOfTheServerAndAreMadeOnce() throws Exception {
        List<ChangeResult> results = new ArrayList<>();
        CountDownLatch some = new CountDownLatch(500);
        CompletableFuture<Void> done = client.updateManyAsync(() -> IntStream.range(0, 5000)
                .<Change>mapToObj(number -> Update.of(topic).policies(producers(number)).build()).iterator(), result -> {
                    results.add(result);
                    some.countDown();
                });
        some.await();
        server.kill();
        server.start();
        done.get(50, TimeUnit.SECONDS);
        String last = null;
        for (ChangeResult result : results) {
            assertTrue(result instanceof ChangeResult.Updated, result.toString());
            UpdateResult updated = ((ChangeResult.Updated) result).result();
            assertTrue(last == null || updated.previousVersion().equals(last), "the changes were made in another order");
            last = updated.version();
        }
        assertEquals(5000, results.size());
        assertEquals(4999, client.get(topic).policiesOrDefault().getMaxProducerPerTopic());
        List<Integer> values = new ArrayList<>();
        client.history(HistoryQuery.ofTopic(topic).oldestFirst().pageSize(1000).build()).forEach(entry -> {
            if (entry.getOutcome() == HistoryOutcome.HISTORY_OUTCOME_APPLIED) {
                values.add(entry.getDocument().getPolicies().getMaxProducerPerTopic());
            }
        });
        assertEquals(IntStream.range(0, 5000).boxed().toList(), values, "each change is made once, in order");
    }
}
