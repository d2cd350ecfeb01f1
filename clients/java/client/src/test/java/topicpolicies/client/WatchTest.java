package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import topicpolicies.v1.PolicyDocument;
import topicpolicies.v1.Scope;
import topicpolicies.v1.WatchEvent;
import topicpolicies.v1.WatchPoliciesRequest;

/** Watches and caches of a service whose streams break as the tests want. */
@Timeout(600)
final class WatchTest {
    private static final WatchPoliciesRequest REQUEST = WatchPoliciesRequest.newBuilder().addNamespaces("t/n").build();

    private FakeService service;
    private TopicPoliciesClient client;
    private final BlockingQueue<WatchEvent> received = new LinkedBlockingQueue<>();

    @BeforeEach
    void start() throws Exception {
        service = new FakeService();
        client = service.client().build();
    }

    @AfterEach
    void stop() {
        client.close();
        service.close();
    }

    private FakeService.Watching opened() throws InterruptedException {
        return service.watches.poll(120, TimeUnit.SECONDS);
    }

    private WatchEvent next() throws InterruptedException {
        return received.poll(120, TimeUnit.SECONDS);
    }

    private static Throwable failure(Watch<?> watch) {
        return assertThrows(ExecutionException.class, () -> watch.whenEnded().get(120, TimeUnit.SECONDS)).getCause();
    }

    @Test
    void aWatchResumesFromItsLastToken() throws Exception {
        try (Watch<WatchEvent> watch = client.watch(REQUEST, received::add)) {
            FakeService.Watching first = opened();
            assertEquals(Map.of(), first.request().getResumeTokensMap());
            first.send(FakeService.change("v1", ""), FakeService.synced("k1"));
            first.send(FakeService.change("v2", "k2"));
            for (int event = 0; event < 3; event++) {
                next();
            }
            assertEquals(Map.of("t/n", "k2"), watch.resumeTokens());
            first.answer().onError(FakeService.failure(Status.Code.UNAVAILABLE, "SHUTTING_DOWN"));
            assertEquals(Map.of("t/n", "k2"), opened().request().getResumeTokensMap());
        }
        try (Watch<WatchEvent> later = client.watch(REQUEST.toBuilder().putResumeTokens("t/n", "saved").build(), received::add)) {
            assertEquals(Map.of("t/n", "saved"), opened().request().getResumeTokensMap());
            assertEquals(Map.of("t/n", "saved"), later.resumeTokens());
        }
    }

    @Test
    void aStreamThatBreaksWithinASnapshotBeginsAgainWithAReset() throws Exception {
        try (Watch<WatchEvent> watch = client.watch(REQUEST, received::add)) {
            FakeService.Watching first = opened();
            first.send(FakeService.change("v1", ""));
            assertTrue(next().hasChange());
            first.answer().onCompleted();
            assertTrue(next().hasReset());
            FakeService.Watching second = opened();
            assertEquals(Map.of(), second.request().getResumeTokensMap());
            second.send(FakeService.change("v1", ""), FakeService.synced("k1"));
            assertTrue(next().hasChange());
            assertTrue(next().hasBookmark());
            assertFalse(watch.whenEnded().isDone());
        }
    }

    @Test
    void aWatchEndsWithAPermanentErrorUnlessItsListenerGoesOn() throws Exception {
        service.failures.add(FakeService.failure(Status.Code.PERMISSION_DENIED, "PERMISSION_DENIED"));
        TopicPoliciesException error = assertInstanceOf(TopicPoliciesException.class, failure(client.watch(REQUEST, received::add)));
        assertEquals("PERMISSION_DENIED", error.reason());
        service.failures.add(FakeService.failure(Status.Code.PERMISSION_DENIED, "PERMISSION_DENIED"));
        try (PolicyCache relentless = client.cache(REQUEST, true)) {
            opened().send(FakeService.synced("k1"));
            relentless.awaitSynced(Duration.ofSeconds(120));
            assertEquals("PERMISSION_DENIED", relentless.lastError().orElseThrow().reason());
        }
    }

    @Test
    void aListenerThatThrowsEndsItsWatch() throws Exception {
        IllegalStateException thrown = new IllegalStateException("not today");
        Watch<WatchEvent> watch = client.watch(REQUEST, event -> {
            throw thrown;
        });
        opened().send(FakeService.change("v1", ""));
        assertEquals(thrown, failure(watch));
    }

    @Test
    void closingTheClientEndsWatchesAndCaches() throws Exception {
        Watch<WatchEvent> watch = client.watch(REQUEST, received::add);
        PolicyCache cache = client.cache("t/n");
        opened();
        opened();
        client.close();
        watch.whenEnded().get(120, TimeUnit.SECONDS);
        assertTrue(cache.isEnded());
        assertThrows(ExecutionException.class, () -> cache.whenSynced().get(120, TimeUnit.SECONDS));
        assertThrows(TopicPoliciesException.class, () -> client.get("t/n/a"));
    }

    @Test
    void aCacheHasWhatIsOfferedUntilTheWatchHasSomethingNewer() throws Exception {
        PolicyCache cache = new PolicyCache(List.of("t/n"), System::nanoTime);
        cache.take(FakeService.change("v1", ""));
        cache.take(FakeService.synced("k1"));
        cache.offer(FakeService.document("v3", 3));
        cache.take(FakeService.change("v2", "k2"));
        assertEquals("v3", cache.get("t/n/a-partition-1").orElseThrow().getVersion(), "the offered document is newer");
        cache.offer(FakeService.document("v2", 2));
        assertEquals("v3", cache.get("t/n/a").orElseThrow().getVersion());
        cache.take(FakeService.change("v4", "k4"));
        cache.offer(PolicyDocument.newBuilder().setTopic("persistent://t/n/a").setScope(Scope.SCOPE_LOCAL).setVersion("v5").build());
        assertTrue(cache.get("t/n/a").isEmpty());
        cache.offer(FakeService.document("v4", 4));
        assertTrue(cache.get("t/n/a").isEmpty(), "an older document does not come back");
        cache.take(WatchEvent.newBuilder(FakeService.change("v1", "")).build().toBuilder().clearChange()
                .setReset(Watch.POLICIES.again().apply("t/n").getReset()).build());
        cache.take(FakeService.change("a1", ""));
        assertEquals("a1", cache.get("t/n/a").orElseThrow().getVersion(), "another log has other versions");
    }

    @Test
    void aListenerOfACacheGetsTheDocumentsAndThenEveryChangeAndMayThrow() throws Exception {
        PolicyCache cache = new PolicyCache(List.of("t/n"), System::nanoTime);
        cache.take(FakeService.change("v1", ""));
        BlockingQueue<PolicyCache.Change> changes = new LinkedBlockingQueue<>();
        Thread.currentThread().setUncaughtExceptionHandler((thread, error) -> { });
        cache.listen(change -> {
            throw new IllegalStateException("not today");
        });
        PolicyCache.Registration registration = cache.listen(changes::add);
        cache.take(FakeService.change("v2", ""));
        cache.remove("t/n/a");
        registration.close();
        cache.take(FakeService.change("v3", ""));
        assertEquals(List.of("-v1", "v1v2", "v2-"), changes.stream().map(change -> change.before().map(PolicyDocument::getVersion).orElse("-")
                + change.after().map(PolicyDocument::getVersion).orElse("-")).toList());
    }
}
