package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import topicpolicies.v1.BacklogQuota;
import topicpolicies.v1.BacklogQuotaPolicy;
import topicpolicies.v1.DispatchRate;
import topicpolicies.v1.RetentionPolicies;
import topicpolicies.v1.SubscriptionPolicies;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.UpdateOutcome;

@Timeout(60)
final class AgainstTheServerTest {
    @TempDir
    static Path directory;
    private static RunningServer server;
    private static TopicPoliciesClient client;

    private final String namespace = "public/java-" + UUID.randomUUID();
    private final String topic = "persistent://" + namespace + "/orders";

    @BeforeAll
    static void start() throws Exception {
        server = new RunningServer(directory);
        server.start();
        client = TopicPoliciesClient.open(ClientOptions.of(server.target()).withActor("java tests"));
    }

    @AfterAll
    static void stop() throws Exception {
        client.close();
        server.close();
    }

    private static TopicPolicies producers(int count) {
        return TopicPolicies.newBuilder().setMaxProducerPerTopic(count).build();
    }

    private static void soon(BooleanSupplier condition, String what) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() < deadline, what);
            TimeUnit.MILLISECONDS.sleep(20);
        }
    }

    @Test
    void anUpdateChangesWhatItsMaskNamesAndClearsWhatIsNotSet() {
        TopicPolicies both = producers(5).toBuilder().setMessageTtlInSeconds(60).build();
        UpdateResult first = client.update(topic, both, "max_producer_per_topic", "message_ttl_in_seconds");
        assertEquals(UpdateOutcome.UPDATE_OUTCOME_APPLIED, first.outcome());
        UpdateResult second = client.update(topic, producers(6), "max_producer_per_topic", "message_ttl_in_seconds");
        assertEquals(first.document().version(), second.previousVersion());
        assertEquals(Optional.of(producers(6)), client.get(topic, Scope.LOCAL).policies());
        assertFalse(client.get(topic, Scope.GLOBAL).exists());
        assertThrows(IllegalArgumentException.class, () -> client.update(topic, both), "an explicit mask is asked for");
    }

    @Test
    void entriesOfMapsAreSetAndRemovedOneByOne() {
        DispatchRate rate = DispatchRate.newBuilder().setDispatchThrottlingRateInMsg(10).build();
        TopicPolicies two = TopicPolicies.newBuilder()
                .putSubscriptionPolicies("my-sub", SubscriptionPolicies.newBuilder().setDispatchRate(rate).build())
                .putSubscriptionPolicies("a.b`c", SubscriptionPolicies.newBuilder().setDispatchRate(rate).build()).build();
        client.update(topic, two, FieldPaths.format("subscription_policies", "my-sub"), FieldPaths.format("subscription_policies", "a.b`c"));
        client.edit(topic, policies -> policies.removeSubscriptionPolicies("my-sub"));
        TopicPolicies left = client.get(topic, Scope.LOCAL).policiesOrDefault();
        assertEquals(List.of("a.b`c"), List.copyOf(left.getSubscriptionPoliciesMap().keySet()));
        assertEquals(10, left.getSubscriptionPoliciesOrThrow("a.b`c").getDispatchRate().getDispatchThrottlingRateInMsg());
    }

    @Test
    void anEtagThatIsNotTheVersionIsAConflict() {
        String version = client.update(topic, producers(1), "max_producer_per_topic").document().version();
        String newer = client.update(topic, producers(2), "max_producer_per_topic").document().version();
        ConflictException conflict = assertThrows(ConflictException.class,
                () -> client.update(Update.of(topic, producers(3), "max_producer_per_topic").ifVersion(version)));
        assertEquals(newer, conflict.version());
        assertEquals(Status.Code.ABORTED, conflict.code());
    }

    @Test
    void anEditIsTriedAgainOnWhatSomebodyElseWrote() {
        client.update(topic, producers(10), "max_producer_per_topic");
        AtomicInteger calls = new AtomicInteger();
        UpdateResult result = client.edit(topic, policies -> {
            if (calls.getAndIncrement() < 2) {
                client.update(topic, producers(policies.getMaxProducerPerTopic() + 100), "max_producer_per_topic");
            }
            policies.setMaxProducerPerTopic(policies.getMaxProducerPerTopic() + 1);
        });
        assertEquals(3, calls.get());
        assertEquals(3, result.attempts());
        assertEquals(211, client.get(topic, Scope.LOCAL).policiesOrDefault().getMaxProducerPerTopic());
    }

    @Test
    void anInsistentEditGetsThroughWhereAStrictOneDoesNotAndUndoesNothing() {
        AtomicInteger others = new AtomicInteger();
        Runnable other = () -> client.update(topic, TopicPolicies.newBuilder().setMessageTtlInSeconds(others.incrementAndGet()).build(),
                "message_ttl_in_seconds");
        other.run();
        Edit strict = Edit.of(topic, policies -> {
            other.run();
            policies.setMaxProducerPerTopic(7);
        });
        assertThrows(ConflictException.class, () -> client.edit(strict));
        assertEquals(1 + Edit.ATTEMPTS, others.get());
        assertEquals(Edit.SAME, client.edit(strict.insistently()).attempts());
        TopicPolicies now = client.get(topic, Scope.LOCAL).policiesOrDefault();
        assertEquals(7, now.getMaxProducerPerTopic());
        assertEquals(others.get(), now.getMessageTtlInSeconds(), "the other's last change is there");
        AtomicInteger counted = new AtomicInteger();
        assertThrows(ConflictException.class, () -> client.edit(Edit.of(topic, policies -> {
            client.update(topic, producers(policies.getMaxProducerPerTopic() + 1), "max_producer_per_topic");
            counted.incrementAndGet();
            policies.setMaxProducerPerTopic(policies.getMaxProducerPerTopic() + 1000);
        }).insistently()), "a change that depends on what others change keeps its etag");
        assertEquals(Edit.ATTEMPTS, counted.get());
    }

    @Test
    void anEditThatChangesNothingSendsNothingAndOneThatThrowsFailsWithThat() {
        UpdateResult nothing = client.edit(topic, policies -> { });
        assertEquals(UpdateOutcome.UPDATE_OUTCOME_UNCHANGED, nothing.outcome());
        assertFalse(client.get(topic, Scope.LOCAL).exists());
        assertEquals(UpdateOutcome.UPDATE_OUTCOME_SKIPPED,
                client.edit(Edit.of(topic, policies -> policies.setMaxProducerPerTopic(1)).ifPresent()).outcome());
        assertThrows(UnsupportedOperationException.class, () -> client.edit(topic, policies -> {
            throw new UnsupportedOperationException("not today");
        }));
    }

    @Test
    void everythingThatIsWrongIsSaidAtOnce() {
        TopicPoliciesException error =
                assertThrows(TopicPoliciesException.class, () -> client.update(topic, producers(1), "no_such_field", "retention_policies.x"));
        assertEquals(Status.Code.INVALID_ARGUMENT, error.code());
        assertEquals(2, error.violations().size());
        assertTrue(error.fromService());
    }

    @Test
    void aRepeatedRequestIsAppliedOnce() {
        Update update = Update.of(topic, producers(1), "max_producer_per_topic");
        UpdateResult first = client.update(update);
        client.update(topic, producers(2), "max_producer_per_topic");
        UpdateResult again = client.update(update);
        assertTrue(again.repeated());
        assertEquals(first.document().version(), again.document().version());
        assertEquals(2, client.get(topic, Scope.LOCAL).policiesOrDefault().getMaxProducerPerTopic());
    }

    @Test
    void documentsAreListedAndDeletedByScope() {
        client.update(topic, producers(1), "max_producer_per_topic");
        client.update(Update.of(topic, producers(2), "max_producer_per_topic").in(Scope.GLOBAL));
        List<Document> listed = new ArrayList<>();
        client.list(namespace).forEach(listed::add);
        assertEquals(List.of(Scope.LOCAL, Scope.GLOBAL), listed.stream().map(Document::scope).toList());
        List<DeleteResult> results = client.delete(topic, List.of(Scope.LOCAL));
        assertTrue(results.stream().allMatch(result -> result.error().isEmpty()));
        assertFalse(client.get(topic, Scope.LOCAL).exists());
        assertTrue(client.get(topic, Scope.GLOBAL).exists());
    }

    @Test
    void aCacheIsCurrentTellsItsListenersAndTakesWhatIsOffered() throws Exception {
        client.update(topic, producers(1), "max_producer_per_topic");
        BlockingQueue<Document> told = new LinkedBlockingQueue<>();
        try (PolicyCache cache = client.cache(Selection.ofNamespaces(namespace).withBookmarks(Duration.ofSeconds(1)))) {
            cache.whenSynced().get(20, TimeUnit.SECONDS);
            assertTrue(cache.synced() && cache.connected());
            assertEquals(Optional.of(producers(1)), cache.get(topic, Scope.LOCAL).flatMap(Document::policies));
            cache.addListener(told::add);
            assertEquals(1, told.poll(20, TimeUnit.SECONDS).policiesOrDefault().getMaxProducerPerTopic());
            UpdateResult updated = client.update(topic, producers(2), "max_producer_per_topic");
            cache.offer(updated.document());
            assertEquals(2, cache.get(topic, Scope.LOCAL).orElseThrow().policiesOrDefault().getMaxProducerPerTopic(), "its own write, at once");
            assertEquals(2, told.poll(20, TimeUnit.SECONDS).policiesOrDefault().getMaxProducerPerTopic());
            client.delete(topic, List.of(Scope.LOCAL));
            assertFalse(told.poll(20, TimeUnit.SECONDS).exists());
            assertTrue(cache.documents().isEmpty());
            soon(() -> cache.staleness().toMillis() > 600, "the copy has become older");
            soon(() -> cache.staleness().toMillis() < 500, "a bookmark has confirmed it");
            assertTrue(told.isEmpty(), "nothing is told twice");
        }
    }

    @Test
    void watchAndCacheSurviveARestartOfTheServerWithoutALossOrARepeat() throws Exception {
        Map<String, List<String>> versions = new HashMap<>();
        BlockingQueue<WatchEvent> events = new LinkedBlockingQueue<>();
        Watch watch = client.watch(Selection.ofNamespaces(namespace).withEveryChange(), events::add);
        try (watch; PolicyCache cache = client.cache(Selection.ofNamespaces(namespace))) {
            cache.whenSynced().get(20, TimeUnit.SECONDS);
            List<String> written = new ArrayList<>();
            for (int number = 1; number <= 10; number++) {
                written.add(client.update(topic, producers(number), "max_producer_per_topic").document().version());
            }
            soon(() -> cache.get(topic, Scope.LOCAL).map(Document::version).equals(Optional.of(written.get(9))), "the cache follows");
            server.kill();
            soon(() -> !cache.connected(), "the cache notices");
            assertEquals(10, cache.get(topic, Scope.LOCAL).orElseThrow().policiesOrDefault().getMaxProducerPerTopic(), "it keeps what it knows");
            CompletableFuture<UpdateResult> waiting = client.updateAsync(Update.of(topic, producers(11), "max_producer_per_topic"));
            server.start();
            written.add(waiting.get(30, TimeUnit.SECONDS).document().version());
            soon(() -> cache.get(topic, Scope.LOCAL).map(Document::version).equals(Optional.of(written.get(10))), "the cache catches up");
            assertTrue(cache.lastError().isPresent());
            int interruptions = 0;
            int restarts = 0;
            for (String last = ""; !last.equals(written.get(10));) {
                WatchEvent event = events.poll(20, TimeUnit.SECONDS);
                interruptions += event instanceof WatchEvent.Interrupted ? 1 : 0;
                restarts += event instanceof WatchEvent.Restarted ? 1 : 0;
                if (event instanceof WatchEvent.Changed changed) {
                    last = changed.document().version();
                    versions.computeIfAbsent(changed.document().topic(), name -> new ArrayList<>()).add(last);
                }
            }
            assertEquals(Map.of(topic, written), versions);
            assertTrue(interruptions > 0);
            assertEquals(0, restarts, "it was resumed");
        }
    }

    @Test
    void whatIsRefusedByTheRulesNamesThem() {
        client.edit(topic, policies -> policies.setRetentionPolicies(
                RetentionPolicies.newBuilder().setRetentionSizeInMb(10).setRetentionTimeInMinutes(10)));
        BacklogQuota quota = BacklogQuota.newBuilder().setLimitSize(1L << 40).setLimitTime(-1)
                .setPolicy(BacklogQuotaPolicy.BACKLOG_QUOTA_POLICY_PRODUCER_EXCEPTION).build();
        TopicPoliciesException error = assertThrows(TopicPoliciesException.class,
                () -> client.edit(topic, policies -> policies.putBackLogQuotaMap("destination_storage", quota)));
        assertTrue(error.code() == Status.Code.INVALID_ARGUMENT || error.code() == Status.Code.FAILED_PRECONDITION, error.getMessage());
        assertFalse(error.violations().isEmpty());
    }

    @Test
    void withoutAServiceACallFailsInItsTimeAndAChangeWasCertainlyNotMade() {
        ClientOptions nobody = ClientOptions.of("127.0.0.1:9").withTimeout(Duration.ofMillis(500));
        try (TopicPoliciesClient alone = TopicPoliciesClient.open(nobody)) {
            assertEquals(Status.Code.DEADLINE_EXCEEDED,
                    assertThrows(TopicPoliciesException.class, () -> alone.get(topic, Scope.LOCAL)).code());
            Update update = Update.of(topic, producers(1), "max_producer_per_topic");
            TopicPoliciesException error = assertThrows(TopicPoliciesException.class, () -> alone.update(update));
            assertEquals(Status.Code.UNAVAILABLE, error.code());
            assertEquals(TopicPoliciesException.class, error.getClass());
        }
        try (TopicPoliciesClient once = TopicPoliciesClient.open(nobody.withoutRetries())) {
            assertEquals(Status.Code.UNAVAILABLE,
                    assertThrows(TopicPoliciesException.class, () -> once.get(topic, Scope.LOCAL)).code(), "not repeated");
        }
    }
}
