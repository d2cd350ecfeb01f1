package topicpolicies.broker;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.function.Consumer;
import org.apache.pulsar.common.api.proto.CommandSubscribe.SubType;
import org.apache.pulsar.common.policies.data.BacklogQuota.RetentionPolicy;
import org.apache.pulsar.common.policies.data.EntryFilters;
import org.apache.pulsar.common.policies.data.InactiveTopicDeleteMode;
import org.apache.pulsar.common.policies.data.InactiveTopicPolicies;
import org.apache.pulsar.common.policies.data.OffloadPoliciesImpl;
import org.apache.pulsar.common.policies.data.PersistencePolicies;
import org.apache.pulsar.common.policies.data.PublishRate;
import org.apache.pulsar.common.policies.data.RetentionPolicies;
import org.apache.pulsar.common.policies.data.SubscribeRate;
import org.apache.pulsar.common.policies.data.SubscriptionPolicies;
import org.apache.pulsar.common.policies.data.TopicPolicies;
import org.apache.pulsar.common.policies.data.impl.AutoSubscriptionCreationOverrideImpl;
import org.apache.pulsar.common.policies.data.impl.BacklogQuotaImpl;
import org.apache.pulsar.common.policies.data.impl.DispatchRateImpl;
import topicpolicies.v1.AutoSubscriptionCreationOverride;
import topicpolicies.v1.BacklogQuota;
import topicpolicies.v1.BacklogQuotaPolicy;
import topicpolicies.v1.DispatchRate;
import topicpolicies.v1.OffloadPolicies;
import topicpolicies.v1.SubscriptionType;
import topicpolicies.v1.TopicPoliciesOrBuilder;

/**
 * Converts a document between Pulsar's class and the message. Every field of Pulsar 4.2.4 is converted both ways without loss; an empty
 * list or map is the same as an unset one. Pulsar's own {@code TopicPolicies.clone()} is not used: it fills unset offload policies with
 * defaults.
 */
final class PolicyConversion {
    private PolicyConversion() {
    }

    /** Converts a message to a new object of Pulsar's class, which shares nothing with the message. */
    static TopicPolicies toPulsar(TopicPoliciesOrBuilder from, boolean global) {
        TopicPolicies policies = new TopicPolicies();
        policies.setIsGlobal(global);
        Leaves.toPulsar(from, policies);
        if (from.hasAutoSubscriptionCreationOverride()) {
            policies.setAutoSubscriptionCreationOverride(
                    new AutoSubscriptionCreationOverrideImpl(from.getAutoSubscriptionCreationOverride().getAllowAutoSubscriptionCreation()));
        }
        Map<String, BacklogQuotaImpl> quotas = new HashMap<>();
        from.getBackLogQuotaMapMap().forEach((kind, quota) -> quotas.put(kind, toPulsar(quota)));
        policies.setBackLogQuotaMap(quotas);
        policies.setDispatchRate(from.hasDispatchRate() ? toPulsar(from.getDispatchRate()) : null);
        policies.setSubscriptionDispatchRate(from.hasSubscriptionDispatchRate() ? toPulsar(from.getSubscriptionDispatchRate()) : null);
        policies.setReplicatorDispatchRate(from.hasReplicatorDispatchRate() ? toPulsar(from.getReplicatorDispatchRate()) : null);
        if (from.hasEntryFilters()) {
            topicpolicies.v1.EntryFilters filters = from.getEntryFilters();
            policies.setEntryFilters(new EntryFilters(filters.hasEntryFilterNames() ? filters.getEntryFilterNames() : null));
        }
        if (from.hasInactiveTopicPolicies()) {
            topicpolicies.v1.InactiveTopicPolicies inactive = from.getInactiveTopicPolicies();
            policies.setInactiveTopicPolicies(new InactiveTopicPolicies(Leaves.toPulsar(inactive.getInactiveTopicDeleteMode(), InactiveTopicDeleteMode.class),
                    inactive.getMaxInactiveDurationSeconds(), inactive.getDeleteWhileInactive()));
        }
        policies.setOffloadPolicies(from.hasOffloadPolicies() ? toPulsar(from.getOffloadPolicies()) : null);
        if (from.hasPersistence()) {
            topicpolicies.v1.PersistencePolicies persistence = from.getPersistence();
            policies.setPersistence(new PersistencePolicies(persistence.getBookkeeperEnsemble(), persistence.getBookkeeperWriteQuorum(),
                    persistence.getBookkeeperAckQuorum(), persistence.getManagedLedgerMaxMarkDeleteRate(),
                    persistence.hasManagedLedgerStorageClassName() ? persistence.getManagedLedgerStorageClassName() : null));
        }
        if (from.hasPublishRate()) {
            topicpolicies.v1.PublishRate rate = from.getPublishRate();
            policies.setPublishRate(new PublishRate(rate.getPublishThrottlingRateInMsg(), rate.getPublishThrottlingRateInByte()));
        }
        policies.setReplicationClusters(from.getReplicationClustersCount() == 0 ? null : new ArrayList<>(from.getReplicationClustersList()));
        if (from.hasRetentionPolicies()) {
            topicpolicies.v1.RetentionPolicies retention = from.getRetentionPolicies();
            policies.setRetentionPolicies(new RetentionPolicies(retention.getRetentionTimeInMinutes(), retention.getRetentionSizeInMb()));
        }
        policies.setShadowTopics(from.getShadowTopicsCount() == 0 ? null : new ArrayList<>(from.getShadowTopicsList()));
        if (from.hasSubscribeRate()) {
            topicpolicies.v1.SubscribeRate rate = from.getSubscribeRate();
            policies.setSubscribeRate(new SubscribeRate(rate.getSubscribeThrottlingRatePerConsumer(), rate.getRatePeriodInSecond()));
        }
        Map<String, SubscriptionPolicies> subscriptions = new HashMap<>();
        from.getSubscriptionPoliciesMap().forEach((name, each) -> subscriptions.put(name,
                new SubscriptionPolicies(each.hasDispatchRate() ? toPulsar(each.getDispatchRate()) : null)));
        policies.setSubscriptionPolicies(subscriptions);
        policies.setSubscriptionTypesEnabled(new ArrayList<>());
        from.getSubscriptionTypesEnabledList().stream().map(type -> Leaves.toPulsar(type, SubType.class)).filter(Objects::nonNull)
                .forEach(policies.getSubscriptionTypesEnabled()::add);
        return policies;
    }

    /** Converts an object of Pulsar's class to a message. */
    static topicpolicies.v1.TopicPolicies fromPulsar(TopicPolicies from) {
        topicpolicies.v1.TopicPolicies.Builder to = topicpolicies.v1.TopicPolicies.newBuilder();
        Leaves.fromPulsar(from, to);
        set(from.getAutoSubscriptionCreationOverride(), value -> to.setAutoSubscriptionCreationOverride(
                AutoSubscriptionCreationOverride.newBuilder().setAllowAutoSubscriptionCreation(value.isAllowAutoSubscriptionCreation())));
        each(from.getBackLogQuotaMap(), (kind, quota) -> to.putBackLogQuotaMap(kind, fromPulsar(quota)));
        set(from.getDispatchRate(), value -> to.setDispatchRate(fromPulsar(value)));
        set(from.getSubscriptionDispatchRate(), value -> to.setSubscriptionDispatchRate(fromPulsar(value)));
        set(from.getReplicatorDispatchRate(), value -> to.setReplicatorDispatchRate(fromPulsar(value)));
        set(from.getEntryFilters(), value -> set(value.getEntryFilterNames(), to.getEntryFiltersBuilder()::setEntryFilterNames));
        set(from.getInactiveTopicPolicies(), value -> {
            to.getInactiveTopicPoliciesBuilder().setMaxInactiveDurationSeconds(value.getMaxInactiveDurationSeconds())
                    .setDeleteWhileInactive(value.isDeleteWhileInactive());
            set(value.getInactiveTopicDeleteMode(), mode ->
                    to.getInactiveTopicPoliciesBuilder().setInactiveTopicDeleteMode(Leaves.fromPulsar(mode, topicpolicies.v1.InactiveTopicDeleteMode.class)));
        });
        set(from.getOffloadPolicies(), value -> to.setOffloadPolicies(fromPulsar(value)));
        set(from.getPersistence(), value -> {
            to.getPersistenceBuilder().setBookkeeperEnsemble(value.getBookkeeperEnsemble())
                    .setBookkeeperWriteQuorum(value.getBookkeeperWriteQuorum()).setBookkeeperAckQuorum(value.getBookkeeperAckQuorum())
                    .setManagedLedgerMaxMarkDeleteRate(value.getManagedLedgerMaxMarkDeleteRate());
            set(value.getManagedLedgerStorageClassName(), to.getPersistenceBuilder()::setManagedLedgerStorageClassName);
        });
        set(from.getPublishRate(), value -> to.getPublishRateBuilder().setPublishThrottlingRateInMsg(value.publishThrottlingRateInMsg)
                .setPublishThrottlingRateInByte(value.publishThrottlingRateInByte));
        set(from.getReplicationClusters(), to::addAllReplicationClusters);
        set(from.getRetentionPolicies(), value -> to.getRetentionPoliciesBuilder()
                .setRetentionTimeInMinutes(value.getRetentionTimeInMinutes()).setRetentionSizeInMb(value.getRetentionSizeInMB()));
        set(from.getShadowTopics(), to::addAllShadowTopics);
        set(from.getSubscribeRate(), value -> to.getSubscribeRateBuilder().setRatePeriodInSecond(value.ratePeriodInSecond)
                .setSubscribeThrottlingRatePerConsumer(value.subscribeThrottlingRatePerConsumer));
        each(from.getSubscriptionPolicies(), (name, value) -> {
            topicpolicies.v1.SubscriptionPolicies.Builder subscription = topicpolicies.v1.SubscriptionPolicies.newBuilder();
            set(value.getDispatchRate(), rate -> subscription.setDispatchRate(fromPulsar(rate)));
            to.putSubscriptionPolicies(name, subscription.build());
        });
        set(from.getSubscriptionTypesEnabled(), types -> types.forEach(type ->
                to.addSubscriptionTypesEnabled(Leaves.fromPulsar(type, SubscriptionType.class))));
        return to.build();
    }

    private static OffloadPoliciesImpl toPulsar(OffloadPolicies from) {
        OffloadPoliciesImpl policies = new OffloadPoliciesImpl();
        Leaves.toPulsar(from, policies);
        policies.setManagedLedgerExtraConfigurations(new HashMap<>(from.getManagedLedgerExtraConfigurationsMap()));
        return policies;
    }

    private static OffloadPolicies fromPulsar(OffloadPoliciesImpl from) {
        OffloadPolicies.Builder to = OffloadPolicies.newBuilder();
        Leaves.fromPulsar(from, to);
        set(from.getManagedLedgerExtraConfigurations(), to::putAllManagedLedgerExtraConfigurations);
        return to.build();
    }

    private static BacklogQuotaImpl toPulsar(BacklogQuota from) {
        BacklogQuotaImpl quota = new BacklogQuotaImpl();
        quota.setLimitSize(from.hasLimitSize() ? from.getLimitSize() : -1);
        quota.setLimitTime(from.hasLimitTime() ? from.getLimitTime() : -1);
        quota.setPolicy(Leaves.toPulsar(from.getPolicy(), RetentionPolicy.class));
        return quota;
    }

    private static BacklogQuota fromPulsar(BacklogQuotaImpl from) {
        BacklogQuota.Builder quota = BacklogQuota.newBuilder().setLimitSize(from.getLimitSize())
                .setLimitTime(from.getLimitTime());
        set(from.getPolicy(), policy -> quota.setPolicy(Leaves.fromPulsar(policy, BacklogQuotaPolicy.class)));
        return quota.build();
    }

    private static DispatchRateImpl toPulsar(DispatchRate from) {
        return new DispatchRateImpl(from.getDispatchThrottlingRateInMsg(), from.getDispatchThrottlingRateInByte(),
                from.getRelativeToPublishRate(), from.getRatePeriodInSecond());
    }

    private static DispatchRate fromPulsar(DispatchRateImpl from) {
        return DispatchRate.newBuilder().setDispatchThrottlingRateInMsg(from.getDispatchThrottlingRateInMsg())
                .setDispatchThrottlingRateInByte(from.getDispatchThrottlingRateInByte())
                .setRelativeToPublishRate(from.isRelativeToPublishRate()).setRatePeriodInSecond(from.getRatePeriodInSecond()).build();
    }

    private static <T> void set(T value, Consumer<T> setter) {
        if (value != null) {
            setter.accept(value);
        }
    }

    private static <T> void each(Map<String, T> values, java.util.function.BiConsumer<String, T> setter) {
        if (values != null) {
            values.forEach((key, value) -> {
                if (value != null) {
                    setter.accept(key, value);
                }
            });
        }
    }
}
