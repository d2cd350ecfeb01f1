package topicpolicies.example;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import topicpolicies.client.Change;
import topicpolicies.client.ChangeResult;
import topicpolicies.client.ClientOptions;
import topicpolicies.client.Delete;
import topicpolicies.client.Document;
import topicpolicies.client.EffectivePolicies;
import topicpolicies.client.ListOperation;
import topicpolicies.client.PolicyCache;
import topicpolicies.client.Read;
import topicpolicies.client.Scope;
import topicpolicies.client.ScopedDocuments;
import topicpolicies.client.Selection;
import topicpolicies.client.TopicPoliciesClient;
import topicpolicies.client.TopicPoliciesException;
import topicpolicies.client.TopicPoliciesException.Violation;
import topicpolicies.client.Update;
import topicpolicies.client.UpdateResult;
import topicpolicies.client.Watch;
import topicpolicies.client.WatchEvent;
import topicpolicies.client.WatchMode;
import topicpolicies.v1.DeleteOutcome;
import topicpolicies.v1.RetentionPolicies;
import topicpolicies.v1.SubscriptionType;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.UpdateOutcome;

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
        ClientOptions options = ClientOptions.of(arguments[0]).timeout(Duration.ofSeconds(30)).build();
        try (TopicPoliciesClient client = TopicPoliciesClient.open(options)) {
            Twenty twenty = new Twenty(client, arguments[1]);
            twenty.updates();
            twenty.conditions();
            twenty.edits();
            twenty.reads();
            twenty.follows();
        }
    }

    private void updates() {
        Update first = Update.of(a).policies(field(5)).mask(FIELD).requestId("0123456789abcdef0123456789abcdef")
                .actor("tour").reason("first").build();
        UpdateResult updated = client.update(first);
        firstVersion = updated.version();
        print("01 update", name(updated.outcome()), replayed(updated));
        UpdateResult repeated = client.update(first);
        print("02 repeat", name(repeated.outcome()), replayed(repeated),
                repeated.version().equals(firstVersion) ? "same version" : "other version");
        print("03 unchanged", name(client.update(a, field(5), FIELD).outcome()));
        UpdateResult dry = client.update(Update.of(a).policies(field(6)).mask(FIELD).validateOnly().build());
        print("04 dry run", name(dry.outcome()), field(dry.document()), field(client.get(a)));
        RetentionPolicies retention = RetentionPolicies.newBuilder().setRetentionTimeInMinutes(10).setRetentionSizeInMb(100).build();
        client.update(a, TopicPolicies.newBuilder().setRetentionPolicies(retention).build());
        client.update(a, field(7));
        TopicPolicies now = client.get(a).policiesOrDefault();
        print("05 no mask", now.getMaxProducerPerTopic(), now.getRetentionPolicies().getRetentionTimeInMinutes());
        client.update(a, TopicPolicies.getDefaultInstance(),
                "retention_policies.retention_time_in_minutes", "retention_policies.retention_size_in_mb");
        print("06 clear", client.get(a).policiesOrDefault().hasRetentionPolicies() ? "set" : "unset");
        types(ListOperation.REPLACE, SubscriptionType.SUBSCRIPTION_TYPE_SHARED);
        String union = types(ListOperation.UNION, SubscriptionType.SUBSCRIPTION_TYPE_FAILOVER, SubscriptionType.SUBSCRIPTION_TYPE_SHARED);
        types(ListOperation.SUBTRACT, SubscriptionType.SUBSCRIPTION_TYPE_SHARED);
        print("07 list", union, types(client.get(a)));
    }

    private void conditions() {
        TopicPoliciesException etag = refusal(() -> client.update(Update.of(a).policies(field(8)).mask(FIELD).etag(olderVersion).build()));
        print("08 etag", etag.reason(), etag.code());
        TopicPoliciesException exists = refusal(() -> client.update(Update.of(a).policies(field(8)).mask(FIELD).mustNotExist().build()));
        print("09 must not exist", exists.reason(), exists.code());
        print("10 skip", name(client.update(Update.of(b).policies(field(1)).mask(FIELD).skipIfAbsent().build()).outcome()));
        TopicPoliciesException wrong = refusal(() -> client.update(Update.of(a).mask("nope", "also.nope").build()));
        print("11 violations", wrong.code(), wrong.violations().stream().map(Violation::field).collect(Collectors.joining(",")),
                wrong.violations().stream().map(Violation::reason).collect(Collectors.joining(",")));
    }

    private void edits() {
        UpdateResult edited = client.edit(a, policies -> policies.setMaxProducerPerTopic(policies.getMaxProducerPerTopic() + 1));
        UpdateResult nothing = client.edit(a, policies -> { });
        print("12 edit", name(edited.outcome()), field(edited.document()), name(nothing.outcome()));
        List<Change> changes = new ArrayList<>();
        for (int number = 0; number < 200; number++) {
            changes.add(Update.of(topic("m" + number % 10)).policies(field(number)).mask(FIELD).build());
        }
        changes.add(Update.of(topic("m0")).mask("nope").build());
        List<ChangeResult> results = client.updateMany(changes);
        List<ChangeResult.Failed> failed = results.stream().filter(ChangeResult.Failed.class::isInstance)
                .map(ChangeResult.Failed.class::cast).toList();
        long applied = results.stream().filter(result -> result instanceof ChangeResult.Updated updated
                && updated.result().outcome() == UpdateOutcome.UPDATE_OUTCOME_APPLIED).count();
        print("13 many", applied, failed.size(), failed.get(0).error().reason(), field(client.get(topic("m0"))));
    }

    private void reads() {
        client.update(Update.of(c).scope(Scope.GLOBAL).policies(field(3)).mask(FIELD).build());
        ScopedDocuments both = client.getBoth(c);
        print("14 scopes", scoped(both.local()), scoped(both.global()));
        print("15 as of", field(client.get(Read.of(a).asOfVersion(firstVersion).build())));
        EffectivePolicies effective = client.effective(c);
        print("16 effective", effective.policies().getMaxProducerPerTopic(),
                effective.sources().get(FIELD).name().replace("POLICY_SOURCE_", ""));
        print("17 list documents", StreamSupport.stream(client.list(namespace).spliterator(), false)
                .map(document -> document.topic().substring(document.topic().lastIndexOf('/') + 1) + " " + document.scope())
                .collect(Collectors.joining(",")));
        String wrong = client.get(a).version();
        TopicPoliciesException refused = refusal(() -> client.delete(Delete.of(c).scope(Scope.GLOBAL).etag(wrong).build()));
        String right = client.get(c, Scope.GLOBAL).version();
        DeleteOutcome deleted = client.delete(Delete.of(c).scope(Scope.GLOBAL).etag(right).build()).outcome();
        print("18 delete", refused.reason(), name(deleted), name(client.delete(c, Scope.GLOBAL).outcome()));
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
            cache.whenSynced().get(30, TimeUnit.SECONDS);
            BlockingQueue<PolicyCache.Change> received = new LinkedBlockingQueue<>();
            cache.listen(received::add);
            changeOfA(received); // the existing document
            client.update(a, field(40), FIELD);
            PolicyCache.Change change = changeOfA(received);
            boolean fresh = cache.staleness().filter(age -> age.toSeconds() < 60).isPresent();
            print("19 watch and cache", field(change.before()), field(change.after()),
                    field(cache.get(namespace + "/a", Scope.LOCAL)), fresh ? "fresh" : "stale");
        }
        List<WatchEvent.Changed> changes = new ArrayList<>();
        Selection every = Selection.ofTopics(a).mode(WatchMode.EVERY).fromBeginning().endWhenSynced().build();
        try (Watch watch = client.watch(every, event -> {
            if (event instanceof WatchEvent.Changed changed) {
                changes.add(changed);
            }
        })) {
            watch.whenEnded().get(30, TimeUnit.SECONDS);
        }
        boolean chained = true;
        for (int at = 1; at < changes.size(); at++) {
            chained &= changes.get(at).previousVersion().equals(changes.get(at - 1).document().version());
        }
        print("20 every change", changes.size(), chained ? "chained" : "broken", changes.get(0).origin().getActor(),
                changes.get(0).origin().getReason(), client.serverInfo().getLog().name().replace("LOG_KIND_", ""));
    }

    private String topic(String local) {
        return "persistent://" + namespace + "/" + local;
    }

    /** Changes the list of {@code a}; returns the list after the change. */
    private String types(ListOperation operation, SubscriptionType... types) {
        TopicPolicies policies = TopicPolicies.newBuilder().addAllSubscriptionTypesEnabled(List.of(types)).build();
        olderVersion = client.update(Update.of(a).policies(policies).mask("subscription_types_enabled")
                .listOperation("subscription_types_enabled", operation).build()).previousVersion();
        return types(client.get(a));
    }

    private static String types(Document document) {
        return document.policiesOrDefault().getSubscriptionTypesEnabledList().stream()
                .map(type -> type.name().replace("SUBSCRIPTION_TYPE_", "")).collect(Collectors.joining(","));
    }

    private static TopicPolicies field(int value) {
        return TopicPolicies.newBuilder().setMaxProducerPerTopic(value).build();
    }

    private static int field(Document document) {
        return document.policiesOrDefault().getMaxProducerPerTopic();
    }

    private static int field(Optional<Document> document) {
        return document.map(Twenty::field).orElse(0);
    }

    private static String scoped(Document document) {
        return document.scope() + " " + (document.exists() ? String.valueOf(field(document)) : "absent");
    }

    private static String replayed(UpdateResult result) {
        return result.replayed() ? "replayed" : "new";
    }

    private static String name(UpdateOutcome outcome) {
        return outcome.name().replace("UPDATE_OUTCOME_", "");
    }

    private static String name(DeleteOutcome outcome) {
        return outcome.name().replace("DELETE_OUTCOME_", "");
    }

    private static TopicPoliciesException refusal(Supplier<?> call) {
        try {
            call.get();
        } catch (TopicPoliciesException refused) {
            return refused;
        }
        throw new IllegalStateException("the call was not refused");
    }

    private static void print(String what, Object... results) {
        System.out.println(what + ": " + List.of(results).stream().map(String::valueOf).collect(Collectors.joining(", ")));
    }
}
