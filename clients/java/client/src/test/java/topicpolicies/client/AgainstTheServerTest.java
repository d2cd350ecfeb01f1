package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import topicpolicies.v1.BacklogQuota;
import topicpolicies.v1.BacklogQuotaPolicy;
import topicpolicies.v1.DeleteOutcome;
import topicpolicies.v1.DispatchRate;
import topicpolicies.v1.LogKind;
import topicpolicies.v1.RetentionPolicies;
import topicpolicies.v1.SubscriptionPolicies;
import topicpolicies.v1.SubscriptionType;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.UpdateOutcome;
import topicpolicies.v1.UpdatePolicyResponse;

/** Calls of one document, against a server. */
@Timeout(60)
final class AgainstTheServerTest extends WithAServer {
    @Test
    void anUpdateChangesTheMaskedFieldsAndClearsThoseThatAreNotSet() {
        TopicPolicies both = producers(5).toBuilder().setMessageTtlInSeconds(60).build();
        UpdateResult first = client.update(topic, both, "max_producer_per_topic", "message_ttl_in_seconds");
        assertEquals(UpdateOutcome.UPDATE_OUTCOME_APPLIED, first.outcome());
        UpdateResult second = client.update(topic, producers(6), "max_producer_per_topic", "message_ttl_in_seconds");
        assertEquals(first.version(), second.previousVersion());
        assertEquals(Optional.of(producers(6)), client.get(topic, Scope.LOCAL).policies());
        assertFalse(client.get(topic, Scope.GLOBAL).exists());
    }

    @Test
    void mapEntriesAreSetAndRemovedOneByOne() {
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
    void anEtagOfAnotherVersionIsAConflict() {
        String version = client.update(topic, producers(1), "max_producer_per_topic").version();
        String newer = client.update(topic, producers(2), "max_producer_per_topic").version();
        ConflictException conflict = assertThrows(ConflictException.class,
                () -> client.update(Update.of(topic).policies(producers(3)).etag(version).build()));
        assertEquals(newer, conflict.version());
        assertEquals(Status.Code.ABORTED, conflict.code());
    }

    @Test
    void anEditRunsAgainOnTheDocumentOfAnotherWriter() {
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
    void anInsistentEditSucceedsDespiteAWriterThatNeverPausesAndUndoesNoneOfItsChanges() {
        AtomicInteger others = new AtomicInteger();
        Runnable other = () -> client.update(topic, TopicPolicies.newBuilder().setMessageTtlInSeconds(others.incrementAndGet()).build(),
                "message_ttl_in_seconds");
        other.run();
        Edit.Builder edit = Edit.of(topic, policies -> {
            other.run();
            policies.setMaxProducerPerTopic(7);
        });
        assertThrows(ConflictException.class, () -> client.edit(edit.build()));
        assertEquals(1 + Edit.ATTEMPTS, others.get());
        assertEquals(Edit.SAME, client.edit(edit.insistent().build()).attempts());
        TopicPolicies now = client.get(topic, Scope.LOCAL).policiesOrDefault();
        assertEquals(7, now.getMaxProducerPerTopic());
        assertEquals(others.get(), now.getMessageTtlInSeconds(), "the last change of the other writer is kept");
        AtomicInteger runs = new AtomicInteger();
        assertThrows(ConflictException.class, () -> client.edit(Edit.of(topic, policies -> {
            client.update(topic, producers(policies.getMaxProducerPerTopic() + 1), "max_producer_per_topic");
            runs.incrementAndGet();
            policies.setMaxProducerPerTopic(policies.getMaxProducerPerTopic() + 1000);
        }).insistent().build()), "a change that depends on the changes of other writers keeps its etag");
        assertEquals(Edit.ATTEMPTS, runs.get());
    }

    @Test
    void anEditThatChangesNothingSendsNothingAndAnExceptionOfItsFunctionIsThrown() {
        UpdateResult nothing = client.edit(topic, policies -> { });
        assertEquals(UpdateOutcome.UPDATE_OUTCOME_UNCHANGED, nothing.outcome());
        assertFalse(client.get(topic, Scope.LOCAL).exists());
        assertEquals(UpdateOutcome.UPDATE_OUTCOME_SKIPPED,
                client.edit(Edit.of(topic, policies -> policies.setMaxProducerPerTopic(1)).skipIfAbsent().build()).outcome());
        assertThrows(UnsupportedOperationException.class, () -> client.edit(topic, policies -> {
            throw new UnsupportedOperationException("not today");
        }));
    }

    @Test
    void anEditThatSendsNothingHasThePreviousDocumentIfThatIsRequested() {
        Edit.Builder skipping = Edit.of(topic, policies -> { }).skipIfAbsent().includePrevious();
        Update onlyIfThere = Update.of(topic).policies(producers(1)).skipIfAbsent().includePrevious().build();
        assertEquals(client.update(onlyIfThere).previous(), client.edit(skipping.build()).previous());
        Update.Builder update = Update.of(topic).policies(producers(1)).includePrevious();
        String version = client.update(update.build()).version();
        Optional<Document> answered = client.update(update.requestId("").build()).previous();
        assertEquals(version, answered.orElseThrow().version());
        UpdateResult nothing = client.edit(Edit.of(topic, policies -> { }).includePrevious().build());
        assertEquals(List.of(UpdateOutcome.UPDATE_OUTCOME_UNCHANGED, answered), List.of(nothing.outcome(), nothing.previous()));
        assertTrue(client.edit(topic, policies -> { }).previous().isEmpty());
    }

    @Test
    void allMistakesAreReportedAtOnce() {
        TopicPoliciesException error =
                assertThrows(TopicPoliciesException.class, () -> client.update(topic, producers(1), "no_such_field", "retention_policies.x"));
        assertEquals(Status.Code.INVALID_ARGUMENT, error.code());
        assertEquals(2, error.violations().size());
        assertTrue(error.fromService());
    }

    @Test
    void aRepeatedRequestIsAppliedOnce() {
        Update update = Update.of(topic).policies(producers(1)).build();
        UpdateResult first = client.update(update);
        UpdateResult second = client.update(update);
        assertEquals(List.of(false, true), List.of(first.replayed(), second.replayed()));
        assertEquals(List.of(first.document(), update.requestId()), List.of(second.document(), second.requestId()));
        client.update(topic, producers(2), "max_producer_per_topic");
        UpdateResult again = client.update(update);
        assertTrue(again.replayed());
        assertEquals(List.of(first.version(), first.previousVersion(), UpdateOutcome.UPDATE_OUTCOME_APPLIED),
                List.of(again.version(), again.previousVersion(), again.outcome()));
        assertEquals(2, client.get(topic, Scope.LOCAL).policiesOrDefault().getMaxProducerPerTopic());
    }

    @Test
    void documentsAreListedAndDeletedByScope() {
        client.update(topic, producers(1), "max_producer_per_topic");
        client.update(Update.of(topic).policies(producers(2)).scope(Scope.GLOBAL).build());
        List<Document> listed = new ArrayList<>();
        client.list(namespace).forEach(listed::add);
        assertEquals(List.of(Scope.LOCAL, Scope.GLOBAL), listed.stream().map(Document::scope).toList());
        assertEquals(DeleteOutcome.DELETE_OUTCOME_DELETED, client.delete(topic, Scope.LOCAL).outcome());
        assertFalse(client.get(topic, Scope.LOCAL).exists());
        assertTrue(client.get(topic, Scope.GLOBAL).exists());
    }

    @Test
    void anUpdateThatARuleRefusesHasItsViolations() {
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
    void withoutAServiceCallsFailWithinTheirTimeAndAChangeIsReportedAsNotMade() {
        ClientOptions.Builder unreachable = ClientOptions.of("127.0.0.1:9").timeout(Duration.ofMillis(500));
        try (TopicPoliciesClient alone = TopicPoliciesClient.open(unreachable.build())) {
            assertEquals(Status.Code.UNAVAILABLE,
                    assertThrows(TopicPoliciesException.class, () -> alone.get(topic, Scope.LOCAL)).code());
            Update update = Update.of(topic).policies(producers(1)).build();
            TopicPoliciesException error = assertThrows(TopicPoliciesException.class, () -> alone.update(update));
            assertEquals(Status.Code.UNAVAILABLE, error.code());
            assertEquals(TopicPoliciesException.class, error.getClass());
        }
        try (TopicPoliciesClient once = TopicPoliciesClient.open(unreachable.withoutRetries().build())) {
            assertEquals(Status.Code.UNAVAILABLE,
                    assertThrows(TopicPoliciesException.class, () -> once.get(topic, Scope.LOCAL)).code(), "not repeated");
        }
    }

    @Test
    void withoutAMaskOnlyTheFieldsThatAreSetAreChanged() {
        DispatchRate rate = DispatchRate.newBuilder().setDispatchThrottlingRateInMsg(10).build();
        SubscriptionPolicies entry = SubscriptionPolicies.newBuilder().setDispatchRate(rate).build();
        client.update(topic, producers(5).toBuilder().putSubscriptionPolicies("one", entry).build());
        client.update(topic, TopicPolicies.newBuilder().putSubscriptionPolicies("two", entry).build());
        TopicPolicies now = client.get(topic).policiesOrDefault();
        assertEquals(Set.of("one", "two"), now.getSubscriptionPoliciesMap().keySet());
        assertEquals(5, now.getMaxProducerPerTopic());
        assertEquals("EMPTY_MASK", assertThrows(TopicPoliciesException.class, () -> client.update(topic, TopicPolicies.getDefaultInstance())).reason());
    }

    @Test
    void elementsAreAddedToListsAndRemoved() {
        client.update(topic, TopicPolicies.newBuilder().addSubscriptionTypesEnabled(SubscriptionType.SUBSCRIPTION_TYPE_SHARED).build());
        TopicPolicies more = TopicPolicies.newBuilder().addSubscriptionTypesEnabled(SubscriptionType.SUBSCRIPTION_TYPE_FAILOVER)
                .addSubscriptionTypesEnabled(SubscriptionType.SUBSCRIPTION_TYPE_SHARED).build();
        String path = "subscription_types_enabled";
        client.update(Update.of(topic).policies(more).mask(path).listOperation(path, ListOperation.UNION).build());
        assertEquals(List.of(SubscriptionType.SUBSCRIPTION_TYPE_SHARED, SubscriptionType.SUBSCRIPTION_TYPE_FAILOVER),
                client.get(topic).policiesOrDefault().getSubscriptionTypesEnabledList());
        client.update(Update.of(topic).policies(more).mask(path).listOperation(path, ListOperation.SUBTRACT).build());
        assertEquals(0, client.get(topic).policiesOrDefault().getSubscriptionTypesEnabledCount());
    }

    @Test
    void conditionsOfAnUpdateAreCheckedAndADryRunWritesNothing() {
        assertEquals(UpdateOutcome.UPDATE_OUTCOME_SKIPPED, client.update(Update.of(topic).policies(producers(1)).skipIfAbsent().build()).outcome());
        Update only = Update.of(topic).policies(producers(1)).mustNotExist().actor("me").reason("why").build();
        UpdateResult first = client.update(only);
        Update late = Update.of(topic).policies(producers(2)).mustNotExist().build();
        ConflictException there = assertThrows(ConflictException.class, () -> client.update(late));
        assertEquals(List.of(Status.Code.ALREADY_EXISTS, "DOCUMENT_EXISTS"), List.of(there.code(), there.reason()));
        UpdateResult dry = client.update(Update.of(topic).policies(producers(3)).validateOnly().includePrevious().build());
        assertEquals(List.of(UpdateOutcome.UPDATE_OUTCOME_WOULD_APPLY, 3, 1), List.of(dry.outcome(),
                dry.document().orElseThrow().policiesOrDefault().getMaxProducerPerTopic(),
                dry.previous().orElseThrow().policiesOrDefault().getMaxProducerPerTopic()));
        assertEquals(first.version(), client.get(Read.of(topic).atLeastVersion(first.version()).build()).version());
    }

    @Test
    void aDeletionAppliesToOneScopeAndFailsWithAConflictAtAnotherVersion() {
        String version = client.update(topic, producers(1)).version();
        String newer = client.update(topic, producers(2)).version();
        assertEquals("ETAG_MISMATCH", assertThrows(ConflictException.class, () -> client.delete(Delete.of(topic).etag(version).build())).reason());
        assertEquals(DeleteOutcome.DELETE_OUTCOME_WOULD_DELETE, client.delete(Delete.of(topic).validateOnly().build()).outcome());
        Delete deletion = Delete.of(topic).etag(newer).includePrevious().actor("me").reason("why").build();
        DeleteResult deleted = client.delete(deletion);
        assertEquals(List.of(newer, newer, deletion.requestId()),
                List.of(deleted.previousVersion(), deleted.previous().orElseThrow().version(), deleted.requestId()));
        assertTrue(client.delete(deletion).replayed());
        assertEquals(DeleteOutcome.DELETE_OUTCOME_ABSENT, client.delete(topic, Scope.GLOBAL).outcome());
    }

    @Test
    void aDeletionWithoutADocumentIsAConflictOnlyIfItsEtagDoesNotMatch() {
        String version = client.update(topic, producers(1)).version();
        String deleted = client.delete(topic, Scope.LOCAL).version();
        assertEquals(DeleteOutcome.DELETE_OUTCOME_ABSENT, client.delete(topic, Scope.LOCAL).outcome());
        assertEquals(DeleteOutcome.DELETE_OUTCOME_ABSENT, client.delete(Delete.of(topic).etag(deleted).build()).outcome());
        assertThrows(ConflictException.class, () -> client.delete(Delete.of(topic).etag(version).build()));
    }

    @Test
    void bothScopesAreReadInOneCallAndAsOfATimeOrVersion() {
        String version = client.update(topic, producers(1)).version();
        client.update(topic, producers(2));
        client.update(Update.of(topic).scope(Scope.GLOBAL).policies(producers(3)).build());
        ScopedDocuments both = client.getBoth(topic);
        assertEquals(List.of(2, 3), List.of(both.local().policiesOrDefault().getMaxProducerPerTopic(),
                both.global().policiesOrDefault().getMaxProducerPerTopic()));
        assertEquals(1, client.get(Read.of(topic).asOfVersion(version).build()).policiesOrDefault().getMaxProducerPerTopic());
        ScopedDocuments before = client.getBoth(Read.of(topic).asOfTime(Instant.now().minusSeconds(3600)).build());
        assertFalse(before.local().exists() || before.global().exists());
        assertThrows(IllegalArgumentException.class, () -> client.getBoth(Read.of(topic).scope(Scope.LOCAL).build()));
        assertEquals(LogKind.LOG_KIND_EMBEDDED, client.serverInfo().getLog());
    }

    @Test
    void theStubSendsTheClientsMetadata() throws Exception {
        CompletableFuture<UpdatePolicyResponse> answer = new CompletableFuture<>();
        client.stub().updatePolicy(Update.of(topic).policies(producers(1)).build().message(), new StreamObserver<>() {
            @Override
            public void onNext(UpdatePolicyResponse value) {
                answer.complete(value);
            }

            @Override
            public void onError(Throwable error) {
                answer.completeExceptionally(error);
            }

            @Override
            public void onCompleted() {
                // the answer has already arrived
            }
        });
        answer.get(20, TimeUnit.SECONDS);
        assertEquals("java tests", client.history(HistoryQuery.ofTopic(topic).build()).iterator().next().getOrigin().getActor());
    }
}
