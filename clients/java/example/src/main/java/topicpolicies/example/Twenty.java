package topicpolicies.example;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import topicpolicies.client.Masks;
import topicpolicies.client.PolicyCache;
import topicpolicies.client.TopicPoliciesClient;
import topicpolicies.client.TopicPoliciesException;
import topicpolicies.client.Watch;
import topicpolicies.v1.ChangeOutcome;
import topicpolicies.v1.ChangeResult;
import topicpolicies.v1.DeletePolicyRequest;
import topicpolicies.v1.EffectivePolicy;
import topicpolicies.v1.FieldSource;
import topicpolicies.v1.GetEffectivePolicyRequest;
import topicpolicies.v1.GetPolicyAsOfRequest;
import topicpolicies.v1.HistoryEntry;
import topicpolicies.v1.ListOperation;
import topicpolicies.v1.PolicyChangeRequest;
import topicpolicies.v1.PolicyChangeResult;
import topicpolicies.v1.PolicyDocument;
import topicpolicies.v1.Precondition;
import topicpolicies.v1.RetentionPolicies;
import topicpolicies.v1.Scope;
import topicpolicies.v1.SubscriptionType;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.UpdatePolicyRequest;
import topicpolicies.v1.WatchHistoryEvent;
import topicpolicies.v1.WatchHistoryRequest;

/**
 * The twenty tasks that every client does alike (tests/clients/twenty.md). The arguments are an address and an empty
 * namespace.
 */
public final class Twenty {
    private static final String FIELD = "max_producer_per_topic";

    private final TopicPoliciesClient client;
    private final String namespace;
    private final String a;
    private final String b;
    private final String c;
    private String firstVersion = "";
    /** The version that the last change of {@code a} was applied to. */
    private String olderVersion = "";

    private Twenty(TopicPoliciesClient client, String namespace) {
        this.client = client;
        this.namespace = namespace;
        this.a = topic("a");
        this.b = topic("b");
        this.c = topic("c");
    }

    /** Runs the tasks and prints one line for each. */
    public static void main(String[] arguments) throws Exception {
        try (TopicPoliciesClient client = TopicPoliciesClient.builder(arguments[0]).timeout(Duration.ofSeconds(30)).build()) {
            Twenty twenty = new Twenty(client, arguments[1]);
            twenty.updates();
            twenty.conditions();
            twenty.edits();
            twenty.reads();
            twenty.follows();
        }
    }

    private static UpdatePolicyRequest.Builder set(String topic, int value) {
        return UpdatePolicyRequest.newBuilder().setTopic(topic).setPolicies(field(value)).setUpdateMask(Masks.of(FIELD));
    }

    private void updates() {
        UpdatePolicyRequest first = set(a, 5).setRequestId("0123456789abcdef0123456789abcdef").setActor("tour").setReason("first").build();
        ChangeResult updated = client.update(first);
        firstVersion = updated.getVersion();
        print("01 update", name(updated), replayed(updated));
        ChangeResult repeated = client.update(first);
        print("02 repeat", name(repeated), replayed(repeated), repeated.getVersion().equals(firstVersion) ? "same version" : "other version");
        print("03 unchanged", name(client.update(set(a, 5).build())));
        ChangeResult dry = client.update(set(a, 6).setValidateOnly(true).build());
        print("04 dry run", name(dry), field(dry.getDocument()), field(client.get(a)));
        RetentionPolicies retention = RetentionPolicies.newBuilder().setRetentionTimeInMinutes(10).setRetentionSizeInMb(100).build();
        client.update(a, TopicPolicies.newBuilder().setRetentionPolicies(retention).build());
        client.update(a, field(7));
        TopicPolicies now = client.get(a).getPolicies();
        print("05 no mask", now.getMaxProducerPerTopic(), now.getRetentionPolicies().getRetentionTimeInMinutes());
        client.update(a, TopicPolicies.getDefaultInstance(),
                "retention_policies.retention_time_in_minutes", "retention_policies.retention_size_in_mb");
        print("06 clear", client.get(a).getPolicies().hasRetentionPolicies() ? "set" : "unset");
        types(ListOperation.LIST_OPERATION_REPLACE, SubscriptionType.SUBSCRIPTION_TYPE_SHARED);
        String union = types(ListOperation.LIST_OPERATION_UNION,
                SubscriptionType.SUBSCRIPTION_TYPE_FAILOVER, SubscriptionType.SUBSCRIPTION_TYPE_SHARED);
        print("07 list", union, types(ListOperation.LIST_OPERATION_SUBTRACT, SubscriptionType.SUBSCRIPTION_TYPE_SHARED));
    }

    private void conditions() {
        Precondition older = Precondition.newBuilder().setVersion(olderVersion).build();
        TopicPoliciesException version = refusal(() -> client.update(set(a, 8).setPrecondition(older).build()));
        print("08 version", version.reason(), version.code());
        Precondition none = Precondition.newBuilder().setExists(false).build();
        TopicPoliciesException absent = refusal(() -> client.update(set(a, 8).setPrecondition(none).build()));
        print("09 absent", absent.reason(), absent.code());
        print("10 skip", name(client.update(set(b, 1).setSkipIfAbsent(true).build())));
        TopicPoliciesException wrong = refusal(() -> client.update(a, TopicPolicies.getDefaultInstance(), "nope", "also.nope"));
        print("11 violations", wrong.code(), wrong.violations().stream().map(each -> each.getField()).collect(Collectors.joining(",")),
                wrong.violations().stream().map(each -> each.getReason()).collect(Collectors.joining(",")));
    }

    private void edits() {
        ChangeResult edited = client.edit(a, policies -> policies.setMaxProducerPerTopic(policies.getMaxProducerPerTopic() + 1));
        ChangeResult nothing = client.edit(a, policies -> { });
        print("12 edit", name(edited), field(edited.getDocument()), name(nothing));
        List<PolicyChangeRequest> changes = new ArrayList<>();
        for (int number = 0; number < 200; number++) {
            changes.add(PolicyChangeRequest.newBuilder().setUpdate(set(topic("m" + number % 10), number)).build());
        }
        changes.add(PolicyChangeRequest.newBuilder().setUpdate(
                UpdatePolicyRequest.newBuilder().setTopic(topic("m0")).setUpdateMask(Masks.of("nope"))).build());
        List<PolicyChangeResult> results = client.batch(changes);
        List<PolicyChangeResult> failed = results.stream().filter(PolicyChangeResult::hasError).toList();
        long applied = results.stream().filter(result -> result.getSuccess().getOutcome() == ChangeOutcome.CHANGE_OUTCOME_APPLIED).count();
        print("13 batch", applied, failed.size(), TopicPoliciesException.of(failed.get(0).getError()).reason(), field(client.get(topic("m0"))));
    }

    private void reads() {
        client.update(set(c, 3).setScope(Scope.SCOPE_GLOBAL).build());
        print("14 scopes", scoped(client.get(c)), scoped(client.get(c, Scope.SCOPE_GLOBAL)));
        print("15 as of", field(client.asOf(GetPolicyAsOfRequest.newBuilder().setTopic(a).setVersion(firstVersion).build())));
        EffectivePolicy effective = client.effective(GetEffectivePolicyRequest.newBuilder().setTopic(c).build());
        FieldSource source = effective.getSourcesList().stream().filter(each -> each.getPath().equals(FIELD)).findFirst().orElseThrow();
        print("16 effective", effective.getPolicies().getMaxProducerPerTopic(), source.getSource().name().replace("POLICY_SOURCE_", ""));
        print("17 list documents", client.list(namespace).stream()
                .map(document -> document.getTopic().substring(document.getTopic().lastIndexOf('/') + 1) + " " + scope(document))
                .collect(Collectors.joining(",")));
        DeletePolicyRequest.Builder delete = DeletePolicyRequest.newBuilder().setTopic(c).setScope(Scope.SCOPE_GLOBAL);
        delete.getPreconditionBuilder().setVersion(client.get(a).getVersion());
        TopicPoliciesException refused = refusal(() -> client.delete(delete.build()));
        delete.getPreconditionBuilder().setVersion(client.get(c, Scope.SCOPE_GLOBAL).getVersion());
        ChangeResult deleted = client.delete(delete.build());
        print("18 delete", refused.reason(), name(deleted), name(client.delete(delete.clearPrecondition().build())));
    }

    /** Waits for the next change of topic a. */
    private PolicyCache.Change changeOfA(BlockingQueue<PolicyCache.Change> received) throws InterruptedException {
        PolicyCache.Change change;
        do {
            change = received.poll(30, TimeUnit.SECONDS);
            if (change == null) {
                throw new IllegalStateException("the listener received no change of a");
            }
        } while (!change.topic().equals(a));
        return change;
    }

    private void follows() throws Exception {
        try (PolicyCache cache = client.cache(namespace)) {
            cache.awaitSynced(Duration.ofSeconds(30));
            BlockingQueue<PolicyCache.Change> received = new LinkedBlockingQueue<>();
            cache.listen(received::add);
            changeOfA(received); // the existing document
            client.update(set(a, 40).build());
            PolicyCache.Change change = changeOfA(received);
            boolean fresh = cache.age().filter(age -> age.toSeconds() < 60).isPresent();
            print("19 watch and cache", field(change.before()), field(change.after()), field(cache.get(namespace + "/a")), fresh ? "fresh" : "stale");
        }
        List<HistoryEntry> entries = new ArrayList<>();
        CompletableFuture<Void> synced = new CompletableFuture<>();
        WatchHistoryRequest request = WatchHistoryRequest.newBuilder().addNamespaces(namespace).build();
        try (Watch<WatchHistoryEvent> watch = client.watchHistory(request, event -> {
            if (event.getEntry().getDocument().getTopic().equals(a)) {
                entries.add(event.getEntry());
            } else if (event.getBookmark().getSynced()) {
                synced.complete(null);
            }
        })) {
            CompletableFuture.anyOf(synced, watch.whenEnded()).get(30, TimeUnit.SECONDS);
        }
        boolean chained = true;
        for (int at = 1; at < entries.size(); at++) {
            chained &= entries.get(at).getPrevious().getVersion().equals(entries.get(at - 1).getDocument().getVersion());
        }
        print("20 history", entries.size(), chained ? "chained" : "broken", entries.get(0).getOrigin().getActor(),
                entries.get(0).getOrigin().getReason(), client.serverInfo().getLog().name().replace("LOG_KIND_", ""));
    }

    private String topic(String local) {
        return "persistent://" + namespace + "/" + local;
    }

    /** Changes the list of {@code a}; returns the list after the change. */
    private String types(ListOperation operation, SubscriptionType... types) {
        TopicPolicies policies = TopicPolicies.newBuilder().addAllSubscriptionTypesEnabled(List.of(types)).build();
        olderVersion = client.update(UpdatePolicyRequest.newBuilder().setTopic(a).setPolicies(policies)
                .setUpdateMask(Masks.of("subscription_types_enabled")).putListOperations("subscription_types_enabled", operation).build())
                .getPreviousVersion();
        return client.get(a).getPolicies().getSubscriptionTypesEnabledList().stream()
                .map(type -> type.name().replace("SUBSCRIPTION_TYPE_", "")).collect(Collectors.joining(","));
    }

    private static TopicPolicies field(int value) {
        return TopicPolicies.newBuilder().setMaxProducerPerTopic(value).build();
    }

    private static int field(PolicyDocument document) {
        return document.getPolicies().getMaxProducerPerTopic();
    }

    private static int field(Optional<PolicyDocument> document) {
        return document.map(Twenty::field).orElse(0);
    }

    private static String scoped(PolicyDocument document) {
        return scope(document) + " " + (document.hasPolicies() ? String.valueOf(field(document)) : "absent");
    }

    private static String scope(PolicyDocument document) {
        return document.getScope().name().replace("SCOPE_", "");
    }

    private static String replayed(ChangeResult result) {
        return result.getReplayed() ? "replayed" : "new";
    }

    private static String name(ChangeResult result) {
        return result.getOutcome().name().replace("CHANGE_OUTCOME_", "");
    }

    private static TopicPoliciesException refusal(Supplier<?> call) {
        try {
            call.get();
        } catch (TopicPoliciesException refused) {
            return refused;
        }
        throw new IllegalStateException("the call was not refused");
    }

    private static void print(String title, Object... results) {
        System.out.println(title + ": " + Stream.of(results).map(String::valueOf).collect(Collectors.joining(", ")));
    }
}
