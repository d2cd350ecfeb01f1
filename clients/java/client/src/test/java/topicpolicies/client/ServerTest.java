package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Context;
import io.grpc.Status;
import io.grpc.TlsChannelCredentials;
import java.io.File;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import topicpolicies.v1.ChangeOutcome;
import topicpolicies.v1.ChangeResult;
import topicpolicies.v1.DeletePolicyRequest;
import topicpolicies.v1.DispatchRate;
import topicpolicies.v1.GetPolicyAsOfRequest;
import topicpolicies.v1.GetPolicyRequest;
import topicpolicies.v1.HistoryEntry;
import topicpolicies.v1.ListHistoryRequest;
import topicpolicies.v1.ListPoliciesRequest;
import topicpolicies.v1.LogKind;
import topicpolicies.v1.PolicyChangeRequest;
import topicpolicies.v1.PolicyChangeResult;
import topicpolicies.v1.PolicyDocument;
import topicpolicies.v1.Precondition;
import topicpolicies.v1.Scope;
import topicpolicies.v1.SubscriptionPolicies;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.UpdatePolicyRequest;
import topicpolicies.v1.WatchEvent;
import topicpolicies.v1.WatchHistoryRequest;
import topicpolicies.v1.WatchPoliciesRequest;

/** The client against a server. */
@Timeout(600)
final class ServerTest extends WithAServer {
    private UpdatePolicyRequest.Builder update(int producers) {
        return UpdatePolicyRequest.newBuilder().setTopic(topic).setPolicies(producers(producers));
    }

    @Test
    void anUpdateChangesTheMaskedFieldsAndClearsThoseThatAreNotSet() {
        TopicPolicies both = producers(5).toBuilder().setMessageTtlInSeconds(60).build();
        ChangeResult first = client.update(topic, both, "max_producer_per_topic", "message_ttl_in_seconds");
        assertEquals(ChangeOutcome.CHANGE_OUTCOME_APPLIED, first.getOutcome());
        ChangeResult second = client.update(topic, producers(6), "max_producer_per_topic", "message_ttl_in_seconds");
        assertEquals(first.getVersion(), second.getPreviousVersion());
        assertEquals(producers(6), client.get(topic).getPolicies());
        assertFalse(client.get(topic, Scope.SCOPE_GLOBAL).hasPolicies());
    }

    @Test
    void entriesOfMapsAreSetAndRemovedOneByOne() {
        SubscriptionPolicies slow = SubscriptionPolicies.newBuilder()
                .setDispatchRate(DispatchRate.newBuilder().setDispatchThrottlingRateInMsg(10)).build();
        TopicPolicies two = TopicPolicies.newBuilder().putSubscriptionPolicies("my-sub", slow).putSubscriptionPolicies("a.b`c", slow).build();
        client.update(topic, two, Masks.path("subscription_policies", "my-sub"), Masks.path("subscription_policies", "a.b`c"));
        client.edit(topic, policies -> policies.removeSubscriptionPolicies("my-sub"));
        assertEquals(Set.of("a.b`c"), client.get(topic).getPolicies().getSubscriptionPoliciesMap().keySet());
    }

    @Test
    void aPreconditionThatDoesNotHoldIsItsOwnError() {
        String version = client.update(update(1).build()).getVersion();
        String newer = client.update(update(2).build()).getVersion();
        UpdatePolicyRequest late = update(3).setPrecondition(Precondition.newBuilder().setVersion(version)).build();
        PreconditionFailedException error = assertThrows(PreconditionFailedException.class, () -> client.update(late));
        assertEquals(List.of(Status.Code.ABORTED, newer), List.of(error.code(), error.version()));
        DeletePolicyRequest.Builder delete = DeletePolicyRequest.newBuilder().setTopic(topic);
        assertThrows(PreconditionFailedException.class,
                () -> client.delete(delete.setPrecondition(Precondition.newBuilder().setExists(false)).build()));
        delete.setPrecondition(Precondition.newBuilder().setVersion(newer));
        assertEquals(ChangeOutcome.CHANGE_OUTCOME_APPLIED, client.delete(delete.build()).getOutcome());
        assertEquals(ChangeOutcome.CHANGE_OUTCOME_UNCHANGED, client.delete(topic).getOutcome());
    }

    @Test
    void aRepeatedRequestIsMadeOnce() {
        UpdatePolicyRequest request = update(1).setRequestId("0123456789abcdef0123456789abcdef").build();
        ChangeResult first = client.update(request);
        client.update(update(2).build());
        ChangeResult again = client.update(request);
        assertEquals(List.of(false, true), List.of(first.getReplayed(), again.getReplayed()));
        assertEquals(first.getVersion(), again.getVersion());
        assertEquals(2, client.get(topic).getPolicies().getMaxProducerPerTopic());
    }

    @Test
    void anEditThatNeverWinsFailsAndWhatItsFunctionThrowsIsThrown() {
        AtomicInteger runs = new AtomicInteger();
        assertThrows(PreconditionFailedException.class, () -> client.edit(topic, policies -> {
            client.update(topic, producers(runs.incrementAndGet()));
            policies.setMessageTtlInSeconds(60);
        }));
        assertEquals(16, runs.get());
        assertThrows(UnsupportedOperationException.class, () -> client.edit(topic, policies -> {
            throw new UnsupportedOperationException("not today");
        }));
    }

    @Test
    void allMistakesAreReportedAtOnce() {
        TopicPoliciesException error = assertThrows(TopicPoliciesException.class, () -> client.update(topic, producers(1), "no_such", "retention_policies.x"));
        assertEquals(List.of(Status.Code.INVALID_ARGUMENT, "INVALID_REQUEST", 2), List.of(error.code(), error.reason(), error.violations().size()));
    }

    @Test
    void aBatchHasAResultForEachChange() {
        List<PolicyChangeRequest> changes = new ArrayList<>(IntStream.range(0, 1200).mapToObj(number -> PolicyChangeRequest.newBuilder()
                .setUpdate(update(number).setTopic(namespace + "/m" + number % 7)).build()).toList());
        changes.add(PolicyChangeRequest.newBuilder().setUpdate(update(1).setUpdateMask(Masks.of("nope"))).build());
        changes.add(PolicyChangeRequest.newBuilder().setDelete(DeletePolicyRequest.newBuilder().setTopic(namespace + "/m0")).build());
        List<PolicyChangeResult> results = client.batch(changes);
        assertEquals(1202, results.size());
        assertEquals("INVALID_REQUEST", TopicPoliciesException.of(results.get(1200).getError()).reason());
        assertEquals(1201, results.stream().filter(PolicyChangeResult::hasSuccess).count());
        assertEquals(6, client.list(namespace).stream().count());
        assertEquals(1199, client.get(namespace + "/m2").getPolicies().getMaxProducerPerTopic());
    }

    @Test
    void listsAndHistoriesComePageByPage() {
        for (int number = 1; number <= 5; number++) {
            client.update(namespace + "/t" + number, producers(number));
            client.update(topic, producers(number));
        }
        var list = client.list(ListPoliciesRequest.newBuilder().setNamespace(namespace).setPageSize(2).build());
        assertEquals(6, list.stream().count());
        List<Integer> sizes = new ArrayList<>();
        list.pages().forEach(page -> sizes.add(page.getDocumentsCount()));
        assertEquals(List.of(2, 2, 2), sizes);
        ListHistoryRequest request = ListHistoryRequest.newBuilder().setTopic(topic).setOldestFirst(true).setPageSize(2).build();
        List<HistoryEntry> entries = client.history(request).stream().toList();
        assertEquals(List.of(1, 2, 3, 4, 5), entries.stream().map(entry -> entry.getDocument().getPolicies().getMaxProducerPerTopic()).toList());
        assertEquals("java tests", entries.get(0).getOrigin().getActor());
        String version = entries.get(1).getDocument().getVersion();
        assertEquals(producers(2), client.asOf(GetPolicyAsOfRequest.newBuilder().setTopic(topic).setVersion(version).build()).getPolicies());
        assertEquals(LogKind.LOG_KIND_EMBEDDED, client.serverInfo().getLog());
    }

    @Test
    void aWatchThatResumesFromAListMissesNothing() throws Exception {
        client.update(topic, producers(1));
        String token = client.list(namespace).pages().iterator().next().getResumeToken();
        String version = client.update(topic, producers(2)).getVersion();
        BlockingQueue<WatchEvent> events = new LinkedBlockingQueue<>();
        WatchPoliciesRequest request = WatchPoliciesRequest.newBuilder().addNamespaces(namespace).putResumeTokens(namespace, token).build();
        try (Watch<WatchEvent> watch = client.watch(request, events::add)) {
            assertEquals(version, events.poll(120, TimeUnit.SECONDS).getChange().getDocument().getVersion());
            assertFalse(watch.whenEnded().isDone());
        }
    }

    @Test
    void aWatchOfTheHistoryHasEveryEntry() throws Exception {
        client.update(topic, producers(1));
        client.delete(topic);
        List<HistoryEntry> entries = new CopyOnWriteArrayList<>();
        CompletableFuture<Void> synced = new CompletableFuture<>();
        try (var watch = client.watchHistory(WatchHistoryRequest.newBuilder().addNamespaces(namespace).build(), event -> {
            if (event.hasEntry()) {
                entries.add(event.getEntry());
            } else if (event.getBookmark().getSynced()) {
                synced.complete(null);
            }
        })) {
            synced.get(120, TimeUnit.SECONDS);
            assertEquals(Set.of(namespace), watch.resumeTokens().keySet());
        }
        assertEquals(List.of(true, false), entries.stream().limit(2).map(entry -> entry.getDocument().hasPolicies()).toList());
    }

    @Test
    void aCacheFollowsTheServerAcrossItsRestart(@TempDir Path own) throws Exception {
        try (RunningServer restarting = new RunningServer(own)) {
            restarting.start();
            try (TopicPoliciesClient other = TopicPoliciesClient.builder(restarting.target()).build(); PolicyCache cache = other.cache(namespace)) {
                cache.awaitSynced(Duration.ofSeconds(120));
                BlockingQueue<PolicyCache.Change> changes = new LinkedBlockingQueue<>();
                cache.listen(changes::add);
                PolicyDocument written = other.update(topic, producers(1)).getDocument();
                cache.offer(written);
                assertEquals(written, cache.get(topic).orElseThrow());
                restarting.kill();
                assertThrows(OutcomeUnknownException.class, () -> other.update(topic, producers(2)));
                assertEquals(List.of(written), cache.documents());
                restarting.start();
                other.update(topic, producers(3));
                changes.poll(120, TimeUnit.SECONDS);
                assertEquals(producers(3), changes.poll(120, TimeUnit.SECONDS).after().orElseThrow().getPolicies());
                assertTrue(cache.age().orElseThrow().toSeconds() < 20);
            }
        }
    }

    @Test
    void theDeadlineOfTheContextCounts() throws Exception {
        GetPolicyRequest never = GetPolicyRequest.newBuilder().setTopic(topic).setAtLeastVersion("~").build();
        var scheduler = Executors.newSingleThreadScheduledExecutor();
        try (Context.CancellableContext soon = Context.current().withDeadlineAfter(300, TimeUnit.MILLISECONDS, scheduler)) {
            soon.run(() -> assertThrows(TopicPoliciesException.class, () -> client.get(never)));
        } finally {
            scheduler.shutdown();
        }
    }

    @Test
    void theServerAndTheClientShowEachOtherTheirCertificates(@TempDir Path own) throws Exception {
        File authority = certificate("authority.pem");
        try (RunningServer secure = new RunningServer(own, "--tls-certificate", certificate("server.pem").toString(), "--tls-key",
                certificate("server-key.pem").toString(), "--tls-client-ca", authority.toString())) {
            secure.start();
            var mutual = TlsChannelCredentials.newBuilder().trustManager(authority)
                    .keyManager(certificate("client.pem"), certificate("client-key.pem")).build();
            TopicPoliciesClient.Builder builder = TopicPoliciesClient.builder(secure.target());
            try (TopicPoliciesClient right = builder.credentials(mutual).build()) {
                assertFalse(right.get(topic).hasPolicies());
            }
            var anonymous = TlsChannelCredentials.newBuilder().trustManager(authority).build();
            try (TopicPoliciesClient wrong = builder.timeout(Duration.ofSeconds(5)).credentials(anonymous).build()) {
                assertThrows(TopicPoliciesException.class, () -> wrong.get(topic));
            }
            try (TopicPoliciesClient elsewhere = builder.credentials(mutual).overrideAuthority("elsewhere").build()) {
                assertThrows(TopicPoliciesException.class, () -> elsewhere.get(topic));
            }
        }
    }

    private static File certificate(String name) {
        return Path.of(System.getenv().getOrDefault("JAVA_TESTS_CERTIFICATES", "."), name).toFile();
    }
}
