package topicpolicies.broker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

import io.grpc.Status;
import io.prometheus.client.CollectorRegistry;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.resources.NamespaceResources;
import org.apache.pulsar.broker.resources.PulsarResources;
import org.apache.pulsar.broker.service.BrokerService;
import org.apache.pulsar.broker.service.TopicPoliciesService.GetType;
import org.apache.pulsar.broker.web.RestException;
import org.apache.pulsar.common.naming.TopicName;
import org.apache.pulsar.common.policies.data.Policies;
import org.apache.pulsar.common.policies.data.TopicPolicies;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import topicpolicies.v1.DeletePolicyRequest;
import topicpolicies.v1.ErrorReason;
import topicpolicies.v1.NamespaceState;
import topicpolicies.v1.NamespaceStatus;
import topicpolicies.v1.Scope;
import topicpolicies.v1.UpdatePolicyRequest;
import topicpolicies.v1.WatchEvent;
import topicpolicies.v1.WatchReset;

/** The plug-in's own rules, beside a sidecar that does what the test wants; tests/promises/plugin has the real ones. */
@Timeout(600)
final class SidecarTopicPoliciesServiceTest {
    private static final int PATIENCE = 120; // seconds; no test needs them, on a machine where nothing else runs
    private static final int BRIEF_SECONDS = 8;
    /** The tag of tests in which the time of a request passes: it is {@value #BRIEF_SECONDS} seconds. */
    private static final String BRIEF = "brief";
    private static final TopicName TOPIC = TopicName.get("persistent://public/default/orders");

    private final ScheduledExecutorService brokers = Executors.newSingleThreadScheduledExecutor(task -> new Thread(task, "the-broker"));
    private final ExecutorService notifying = Executors.newSingleThreadExecutor(task -> new Thread(task, "notify"));
    private final Policies namespace = new Policies();
    private final SidecarTopicPoliciesService service = new SidecarTopicPoliciesService();
    private FakeSidecar sidecar;

    @BeforeEach
    void start(TestInfo test) throws Exception {
        sidecar = new FakeSidecar();
        PulsarService pulsar = mock(PulsarService.class);
        ServiceConfiguration configuration = new ServiceConfiguration();
        configuration.getProperties().setProperty("topicPoliciesSidecarAddress", sidecar.target());
        configuration.getProperties().setProperty("topicPoliciesSidecarRequestTimeoutSeconds",
                String.valueOf(test.getTags().contains(BRIEF) ? BRIEF_SECONDS : PATIENCE));
        configuration.getProperties().setProperty("topicPoliciesSidecarLoadTimeoutSeconds", String.valueOf(PATIENCE));
        when(pulsar.getConfiguration()).thenReturn(configuration);
        when(pulsar.getAdvertisedAddress()).thenReturn("here");
        when(pulsar.getExecutor()).thenReturn(brokers);
        BrokerService broker = mock(BrokerService.class);
        when(broker.getTopicPoliciesNotifyThread(any())).thenReturn(notifying);
        when(pulsar.getBrokerService()).thenReturn(broker);
        NamespaceResources namespaces = mock(NamespaceResources.class);
        NamespaceResources.PartitionedTopicResources partitioned = mock(NamespaceResources.PartitionedTopicResources.class);
        when(partitioned.getPartitionedTopicMetadataAsync(any())).thenReturn(CompletableFuture.completedFuture(Optional.empty()));
        when(namespaces.getPartitionedTopicResources()).thenReturn(partitioned);
        when(namespaces.getPoliciesAsync(any())).thenAnswer(call -> CompletableFuture.completedFuture(Optional.of(namespace)));
        PulsarResources resources = mock(PulsarResources.class);
        when(resources.getNamespaceResources()).thenReturn(namespaces);
        when(pulsar.getPulsarResources()).thenReturn(resources);
        service.start(pulsar);
    }

    @AfterEach
    void stop() {
        service.close();
        sidecar.close();
        brokers.shutdownNow();
        notifying.shutdownNow();
    }

    private CompletableFuture<Void> update(java.util.function.Consumer<TopicPolicies> closure) {
        return service.updateTopicPoliciesAsync(TOPIC, false, false, closure);
    }

    private static Throwable failure(CompletableFuture<?> future) {
        return assertThrows(ExecutionException.class, () -> future.get(PATIENCE, TimeUnit.SECONDS)).getCause();
    }

    private Optional<TopicPolicies> read() throws Exception {
        return service.getTopicPoliciesAsync(TOPIC, GetType.LOCAL_ONLY).get(PATIENCE, TimeUnit.SECONDS);
    }

    @Test
    void waitingUpdatesShareOneRequestAndAClosureThatThrowsFailsAlone() throws Exception {
        assertTrue(read().isEmpty());
        sidecar.updatesAllowed.drainPermits();
        CompletableFuture<Void> first = update(policies -> policies.setMaxProducerPerTopic(1));
        while (sidecar.updates.isEmpty()) {
            TimeUnit.MILLISECONDS.sleep(5);
        }
        CompletableFuture<Void> second = update(policies -> policies.setMaxConsumerPerTopic(2));
        CompletableFuture<Void> thrown = update(policies -> {
            policies.setMaxConsumerPerTopic(99);
            throw new IllegalStateException("no");
        });
        CompletableFuture<Void> third = update(policies -> policies.setMessageTTLInSeconds(policies.getMaxConsumerPerTopic() + 1));
        sidecar.updatesAllowed.release(1000);
        for (CompletableFuture<Void> good : List.of(first, second, third)) {
            good.get(PATIENCE, TimeUnit.SECONDS);
        }
        assertInstanceOf(IllegalStateException.class, failure(thrown));
        assertEquals(2, sidecar.updates.size(), "not one request for the first update and one for all that waited");
        assertEquals(List.of("max_consumer_per_topic", "message_ttl_in_seconds"), sidecar.updates.get(1).getUpdateMask().getPathsList());
        assertFalse(sidecar.updates.get(1).getPrecondition().getVersion().isEmpty());
        TopicPolicies now = read().orElseThrow();
        assertEquals(List.of(1, 2, 3), List.of(now.getMaxProducerPerTopic(), now.getMaxConsumerPerTopic(), now.getMessageTTLInSeconds()));
    }

    @Test
    void aRefusedUpdateFailsAlone() throws Exception {
        assertTrue(read().isEmpty());
        sidecar.updatesAllowed.drainPermits();
        CompletableFuture<Void> first = update(policies -> policies.setMaxProducerPerTopic(1));
        while (sidecar.updates.isEmpty()) {
            TimeUnit.MILLISECONDS.sleep(5);
        }
        CompletableFuture<Void> good = update(policies -> policies.setMaxConsumerPerTopic(2));
        CompletableFuture<Void> refused = update(policies -> policies.setMaxMessageSize(FakeSidecar.REFUSED));
        CompletableFuture<Void> after = update(policies -> policies.setMessageTTLInSeconds(3));
        sidecar.updatesAllowed.release(1000);
        for (CompletableFuture<Void> each : List.of(first, good, after)) {
            each.get(PATIENCE, TimeUnit.SECONDS);
        }
        assertEquals(412, assertInstanceOf(RestException.class, failure(refused)).getResponse().getStatus());
        TopicPolicies now = read().orElseThrow();
        assertEquals(List.of(1, 2, 3), List.of(now.getMaxProducerPerTopic(), now.getMaxConsumerPerTopic(), now.getMessageTTLInSeconds()));
        assertTrue(now.getMaxMessageSize() == null);
    }

    @Test
    void theFutureOfAnUpdateCompletesOnTheBrokersExecutor() throws Exception {
        CompletableFuture<String> where = new CompletableFuture<>();
        sidecar.updatesAllowed.drainPermits();
        update(policies -> policies.setMaxProducerPerTopic(1)).whenComplete((nothing, error) -> where.complete(Thread.currentThread().getName()));
        sidecar.updatesAllowed.release(1000);
        assertEquals("the-broker", where.get(PATIENCE, TimeUnit.SECONDS));
    }

    @Test
    void aDeletionKeepsTheGlobalPoliciesIfRequested() throws Exception {
        service.deleteTopicPoliciesAsync(TOPIC.getPartition(3), true).get(PATIENCE, TimeUnit.SECONDS);
        service.deleteTopicPoliciesAsync(TOPIC).get(PATIENCE, TimeUnit.SECONDS);
        assertEquals(Scope.SCOPE_LOCAL, sidecar.deletes.get(0).getScope());
        assertEquals(Set.of(Scope.SCOPE_LOCAL, Scope.SCOPE_GLOBAL),
                Set.of(sidecar.deletes.get(1).getScope(), sidecar.deletes.get(2).getScope()));
        assertEquals(TOPIC.toString(), sidecar.deletes.get(0).getTopic(), "the deletion names the partition");
        assertTrue(read().isEmpty());
        service.deleteTopicPoliciesAsync(TOPIC).get(PATIENCE, TimeUnit.SECONDS);
        assertEquals(3, sidecar.deletes.size(), "a deletion was sent although no document is known");
    }

    private void deletesFail(Status.Code code) {
        sidecar.deletesFail.put(Scope.SCOPE_LOCAL, code);
        sidecar.deletesFail.put(Scope.SCOPE_GLOBAL, code);
    }

    @Test
    void deletingPoliciesOfADeletedNamespaceSucceedsAndRemovesThemFromTheCopy() throws Exception {
        BlockingQueue<Integer> received = new LinkedBlockingQueue<>();
        service.registerListenerAsync(TOPIC, policies -> received.add(Optional.ofNullable(policies.getMaxProducerPerTopic()).orElse(0))).get();
        assertTrue(read().isEmpty());
        update(policies -> policies.setMaxProducerPerTopic(7)).get(PATIENCE, TimeUnit.SECONDS);
        assertEquals(7, received.poll(PATIENCE, TimeUnit.SECONDS));
        assertEquals(7, read().orElseThrow().getMaxProducerPerTopic());
        namespace.deleted = true;
        deletesFail(Status.Code.NOT_FOUND);
        service.deleteTopicPoliciesAsync(TOPIC.getPartition(1)).get(PATIENCE, TimeUnit.SECONDS);
        assertEquals(2, sidecar.deletes.size(), "the deletion was sent in both scopes");
        assertEquals(0, received.poll(PATIENCE, TimeUnit.SECONDS), "the listener receives a document with nothing set");
        assertTrue(read().isEmpty(), "a topic of the namespace that was created again does not have the old policies");
        namespace.deleted = false;
        sidecar.change("public/default", TOPIC.toString(), topicpolicies.v1.TopicPolicies.newBuilder().setMaxProducerPerTopic(8).build());
        assertEquals(8, received.poll(PATIENCE, TimeUnit.SECONDS), "the namespace that was created again is followed");
    }

    @ParameterizedTest
    @EnumSource(value = Status.Code.class, names = {"OK", "NOT_FOUND"})
    void aDeletionIsRepeatedWhileTheLogIsBeingDeletedUntilItSucceedsOrTheNamespaceIsGone(Status.Code end) throws Exception {
        assertTrue(read().isEmpty());
        update(policies -> policies.setMaxProducerPerTopic(7)).get(PATIENCE, TimeUnit.SECONDS);
        sidecar.deletesFail.put(Scope.SCOPE_LOCAL, Status.Code.RESOURCE_EXHAUSTED);
        sidecar.deletesFailLater.addAll(List.of(Status.Code.RESOURCE_EXHAUSTED, end));
        service.deleteTopicPoliciesAsync(TOPIC, true).get(PATIENCE, TimeUnit.SECONDS);
        assertEquals(3, sidecar.deletes.size());
        assertEquals(1, sidecar.deletes.stream().map(DeletePolicyRequest::getRequestId).distinct().count(), "a repeat has the same id");
        assertTrue(read().isEmpty());
    }

    @Test
    void aChangeThatDoesNotDependOnWhatOthersChangeSucceedsBesideAWriterThatNeverPauses() throws Exception {
        assertTrue(read().isEmpty());
        sidecar.contended = true;
        update(policies -> policies.setMaxProducerPerTopic(7)).get(PATIENCE, TimeUnit.SECONDS);
        assertEquals(List.of(true, true, true, false), sidecar.updates.stream().map(UpdatePolicyRequest::hasPrecondition).toList());
    }

    @Test
    @Tag(BRIEF)
    void aChangeThatDependsOnWhatAWriterThatNeverPausesChangesIsRefusedAsAConflict() throws Exception {
        assertTrue(read().isEmpty());
        sidecar.contended = true;
        sidecar.contendedField = "max_producer_per_topic";
        int status = 503;
        for (int tries = 0; status == 503 && tries < 10; tries++) { // the end of its time may also cut off a call, on a busy machine
            Throwable error = failure(update(policies -> policies.setMaxProducerPerTopic(
                    Optional.ofNullable(policies.getMaxProducerPerTopic()).orElse(0) + 1)));
            status = assertInstanceOf(RestException.class, error).getResponse().getStatus();
        }
        assertEquals(409, status);
        assertTrue(sidecar.updates.stream().allMatch(UpdatePolicyRequest::hasPrecondition), "it depends on the other's value");
    }

    @Test
    void anUpdateAfterADeletionReadsTheVersionBecauseTheNamespaceMayHaveBeenCreatedAgain() throws Exception {
        assertTrue(read().isEmpty());
        update(policies -> policies.setMaxProducerPerTopic(7)).get(PATIENCE, TimeUnit.SECONDS);
        service.deleteTopicPoliciesAsync(TOPIC).get(PATIENCE, TimeUnit.SECONDS);
        update(policies -> policies.setMaxProducerPerTopic(8)).get(PATIENCE, TimeUnit.SECONDS);
        assertEquals("101", sidecar.updates.get(1).getPrecondition().getVersion(), "the precondition is the version that was read, not that of the deletion");
    }

    @Test
    @Tag(BRIEF)
    void aDeletionIsRepeatedOnlyWithinTheTimeOfARequest() throws Exception {
        assertTrue(read().isEmpty());
        update(policies -> policies.setMaxProducerPerTopic(7)).get(PATIENCE, TimeUnit.SECONDS);
        deletesFail(Status.Code.RESOURCE_EXHAUSTED);
        long began = System.nanoTime();
        Throwable error = failure(service.deleteTopicPoliciesAsync(TOPIC));
        assertEquals(503, assertInstanceOf(RestException.class, error).getResponse().getStatus());
        assertTrue(System.nanoTime() - began > TimeUnit.SECONDS.toNanos(BRIEF_SECONDS - 2), "the deletion failed before its time was over");
        assertTrue(sidecar.deletes.size() > 4 && sidecar.deletes.size() < 4 * BRIEF_SECONDS, sidecar.deletes.size() + " times");
    }

    @Test
    @Tag(BRIEF) // a deletion of which a call is in flight at the close fails after twice the time of a request
    void closingTheServiceEndsADeletionThatIsBeingRepeated() throws Exception {
        assertTrue(read().isEmpty());
        update(policies -> policies.setMaxProducerPerTopic(7)).get(PATIENCE, TimeUnit.SECONDS);
        deletesFail(Status.Code.RESOURCE_EXHAUSTED);
        CompletableFuture<Void> deletion = service.deleteTopicPoliciesAsync(TOPIC);
        while (sidecar.deletes.size() < 2) {
            TimeUnit.MILLISECONDS.sleep(5);
        }
        service.close();
        assertInstanceOf(RestException.class, failure(deletion));
    }

    @ParameterizedTest
    @EnumSource(value = Scope.class, names = {"SCOPE_LOCAL", "SCOPE_GLOBAL"})
    void aDeletionFailsIfItFailsPermanentlyInOneScope(Scope scope) throws Exception {
        assertTrue(read().isEmpty());
        update(policies -> policies.setMaxProducerPerTopic(7)).get(PATIENCE, TimeUnit.SECONDS);
        namespace.deleted = true;
        sidecar.deletesFail.put(scope, Status.Code.FAILED_PRECONDITION);
        Throwable error = failure(service.deleteTopicPoliciesAsync(TOPIC));
        assertEquals(412, assertInstanceOf(RestException.class, error).getResponse().getStatus());
        assertEquals(scope == Scope.SCOPE_LOCAL, read().isPresent(), "the documents that may still exist are kept");
    }

    @Test
    void listenersAreCalledInOrderOnTheNotifyThreadAndWithTheKnownPoliciesAtRegistration() throws Exception {
        BlockingQueue<String> received = new LinkedBlockingQueue<>();
        assertTrue(service.registerListenerAsync(TOPIC.getPartition(1),
                policies -> received.add(Thread.currentThread().getName() + policies.getMaxProducerPerTopic())).get());
        assertTrue(read().isEmpty());
        for (int value = 1; value <= 20; value++) {
            sidecar.change("public/default", TOPIC.toString(), topicpolicies.v1.TopicPolicies.newBuilder().setMaxProducerPerTopic(value).build());
            assertEquals("notify" + value, received.poll(PATIENCE, TimeUnit.SECONDS));
        }
        BlockingQueue<Integer> later = new LinkedBlockingQueue<>();
        service.registerListenerAsync(TOPIC, policies -> later.add(policies.getMaxProducerPerTopic())).get();
        assertEquals(20, later.poll(PATIENCE, TimeUnit.SECONDS));
    }

    @Test
    void systemTopicsAndDisabledTopicsHaveNoPoliciesAndDoNotUseTheSidecar() throws Exception {
        TopicName system = TopicName.get("persistent://public/default/__change_events-partition-0");
        assertFalse(service.registerListenerAsync(system, policies -> { }).get());
        assertTrue(service.getTopicPoliciesAsync(system, GetType.LOCAL_ONLY).isDone());
        namespace.properties.put("__topic_policies_disabled", "true");
        assertFalse(service.registerListenerAsync(TOPIC, policies -> { }).get());
        assertTrue(read().isEmpty());
        assertEquals(405, assertInstanceOf(RestException.class, failure(update(policies -> { }))).getResponse().getStatus());
        namespace.properties.put("__topic_policies_disabled", "perhaps");
        assertTrue(service.registerListenerAsync(TOPIC, policies -> { }).get());
    }

    @Test
    void updatesInANamespaceThatIsBeingDeletedSucceedWithoutAnEffect() throws Exception {
        namespace.deleted = true;
        update(policies -> policies.setMaxProducerPerTopic(1)).get(PATIENCE, TimeUnit.SECONDS);
        assertTrue(sidecar.updates.isEmpty());
    }

    @Test
    void afterAResetANamespaceIsReadAsItWasUntilItsSnapshotIsComplete() throws Exception {
        BlockingQueue<Integer> received = new LinkedBlockingQueue<>();
        service.registerListenerAsync(TOPIC, policies -> received.add(Optional.ofNullable(policies.getMaxProducerPerTopic()).orElse(0))).get();
        assertTrue(read().isEmpty());
        TopicName other = TopicName.get("persistent://public/default/other");
        sidecar.change("public/default", TOPIC.toString(), topicpolicies.v1.TopicPolicies.newBuilder().setMaxProducerPerTopic(7).build());
        assertEquals(7, received.poll(PATIENCE, TimeUnit.SECONDS));
        sidecar.send(WatchEvent.newBuilder().setNamespace("public/default").setReset(WatchReset.newBuilder()
                .setReason(ErrorReason.ERROR_REASON_LOG_REPLACED)));
        sidecar.send(sidecar.changed("public/default", other.toString(), topicpolicies.v1.TopicPolicies.newBuilder().setMaxProducerPerTopic(8).build()));
        while (service.getTopicPoliciesAsync(other, GetType.LOCAL_ONLY).get(PATIENCE, TimeUnit.SECONDS).isEmpty()) {
            TimeUnit.MILLISECONDS.sleep(5);
        }
        assertEquals(7, read().orElseThrow().getMaxProducerPerTopic());
        sidecar.send(FakeSidecar.synced("public/default"));
        assertEquals(0, received.poll(PATIENCE, TimeUnit.SECONDS), "the document was removed");
        assertTrue(read().isEmpty());
    }

    @Test
    void theStalenessMetricIsThatOfTheStalestNamespaceWhateverEventsOthersHave() throws Exception {
        assertTrue(read().isEmpty());
        assertTrue(staleness() < 30, "the staleness of a complete copy");
        TopicName lost = TopicName.get("persistent://public/lost/orders");
        sidecar.silent.add("public/lost");
        CompletableFuture<Optional<TopicPolicies>> waiting = service.getTopicPoliciesAsync(lost, GetType.LOCAL_ONLY);
        assertEquals(Double.POSITIVE_INFINITY, staleness(), "the staleness of a copy that was never complete");
        while (!sidecar.isWatched("public/lost")) {
            TimeUnit.MILLISECONDS.sleep(5);
        }
        sidecar.send(FakeSidecar.synced("public/lost"));
        waiting.get(PATIENCE, TimeUnit.SECONDS);
        sidecar.change("public/lost", lost.toString(), topicpolicies.v1.TopicPolicies.newBuilder().setMaxProducerPerTopic(7).build());
        sidecar.send(WatchEvent.newBuilder().setNamespace("public/lost").setStatus(NamespaceStatus.newBuilder()
                .setState(NamespaceState.NAMESPACE_STATE_FAILED).setReason(ErrorReason.ERROR_REASON_LOG_UNAVAILABLE)));
        TimeUnit.MILLISECONDS.sleep(300);
        sidecar.send(FakeSidecar.synced("public/default"));
        assertTrue(staleness() >= 0.3, "neither changes, nor states, nor other namespaces make it fresher");
    }

    private static double staleness() {
        return CollectorRegistry.defaultRegistry.getSampleValue("topicpolicies_sidecar_staleness_seconds");
    }
}
