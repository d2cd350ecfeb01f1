package topicpolicies.broker;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.MapEntry;
import com.google.protobuf.Message;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.pulsar.common.policies.data.EntryFilters;
import org.apache.pulsar.common.policies.data.InactiveTopicPolicies;
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
import topicpolicies.v1.DispatchRate;
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
        policies.setCompactionThreshold(from.hasCompactionThreshold() ? from.getCompactionThreshold() : null);
        policies.setDeduplicationEnabled(from.hasDeduplicationEnabled() ? from.getDeduplicationEnabled() : null);
        policies.setDeduplicationSnapshotIntervalSeconds(from.hasDeduplicationSnapshotIntervalSeconds() ? from.getDeduplicationSnapshotIntervalSeconds() : null);
        policies.setDelayedDeliveryEnabled(from.hasDelayedDeliveryEnabled() ? from.getDelayedDeliveryEnabled() : null);
        policies.setDelayedDeliveryMaxDelayInMillis(from.hasDelayedDeliveryMaxDelayInMillis() ? from.getDelayedDeliveryMaxDelayInMillis() : null);
        policies.setDelayedDeliveryTickTimeMillis(from.hasDelayedDeliveryTickTimeMillis() ? from.getDelayedDeliveryTickTimeMillis() : null);
        policies.setDispatcherPauseOnAckStatePersistentEnabled(from.hasDispatcherPauseOnAckStatePersistentEnabled() ? from.getDispatcherPauseOnAckStatePersistentEnabled() : null);
        policies.setMaxConsumerPerTopic(from.hasMaxConsumerPerTopic() ? from.getMaxConsumerPerTopic() : null);
        policies.setMaxConsumersPerSubscription(from.hasMaxConsumersPerSubscription() ? from.getMaxConsumersPerSubscription() : null);
        policies.setMaxMessageSize(from.hasMaxMessageSize() ? from.getMaxMessageSize() : null);
        policies.setMaxProducerPerTopic(from.hasMaxProducerPerTopic() ? from.getMaxProducerPerTopic() : null);
        policies.setMaxSubscriptionsPerTopic(from.hasMaxSubscriptionsPerTopic() ? from.getMaxSubscriptionsPerTopic() : null);
        policies.setMaxUnackedMessagesOnConsumer(from.hasMaxUnackedMessagesOnConsumer() ? from.getMaxUnackedMessagesOnConsumer() : null);
        policies.setMaxUnackedMessagesOnSubscription(from.hasMaxUnackedMessagesOnSubscription() ? from.getMaxUnackedMessagesOnSubscription() : null);
        policies.setMessageTTLInSeconds(from.hasMessageTtlInSeconds() ? from.getMessageTtlInSeconds() : null);
        policies.setSchemaValidationEnforced(from.hasSchemaValidationEnforced() ? from.getSchemaValidationEnforced() : null);
        policies.setSubscriptionExpirationTimeInMinutes(from.hasSubscriptionExpirationTimeInMinutes() ? from.getSubscriptionExpirationTimeInMinutes() : null);
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
            policies.setInactiveTopicPolicies(new InactiveTopicPolicies(EnumConversion.toPulsar(inactive.getInactiveTopicDeleteMode()),
                    inactive.getMaxInactiveDurationSeconds(), inactive.getDeleteWhileInactive()));
        }
        policies.setOffloadPolicies(from.hasOffloadPolicies() ? OffloadConversion.toPulsar(from.getOffloadPolicies()) : null);
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
        policies.setSchemaCompatibilityStrategy(EnumConversion.toPulsar(from.getSchemaCompatibilityStrategy()));
        policies.setShadowTopics(from.getShadowTopicsCount() == 0 ? null : new ArrayList<>(from.getShadowTopicsList()));
        if (from.hasSubscribeRate()) {
            topicpolicies.v1.SubscribeRate rate = from.getSubscribeRate();
            policies.setSubscribeRate(new SubscribeRate(rate.getSubscribeThrottlingRatePerConsumer(), rate.getRatePeriodInSecond()));
        }
        Map<String, SubscriptionPolicies> subscriptions = new HashMap<>();
        from.getSubscriptionPoliciesMap().forEach((name, each) -> subscriptions.put(name,
                new SubscriptionPolicies(each.hasDispatchRate() ? toPulsar(each.getDispatchRate()) : null)));
        policies.setSubscriptionPolicies(subscriptions);
        policies.setSubscriptionTypesEnabled(EnumConversion.toPulsar(from.getSubscriptionTypesEnabledList()));
        return policies;
    }

    /** Converts an object of Pulsar's class to a message. */
    static topicpolicies.v1.TopicPolicies fromPulsar(TopicPolicies from) {
        topicpolicies.v1.TopicPolicies.Builder to = topicpolicies.v1.TopicPolicies.newBuilder();
        set(from.getCompactionThreshold(), to::setCompactionThreshold);
        set(from.getDeduplicationEnabled(), to::setDeduplicationEnabled);
        set(from.getDeduplicationSnapshotIntervalSeconds(), to::setDeduplicationSnapshotIntervalSeconds);
        set(from.getDelayedDeliveryEnabled(), to::setDelayedDeliveryEnabled);
        set(from.getDelayedDeliveryMaxDelayInMillis(), to::setDelayedDeliveryMaxDelayInMillis);
        set(from.getDelayedDeliveryTickTimeMillis(), to::setDelayedDeliveryTickTimeMillis);
        set(from.getDispatcherPauseOnAckStatePersistentEnabled(), to::setDispatcherPauseOnAckStatePersistentEnabled);
        set(from.getMaxConsumerPerTopic(), to::setMaxConsumerPerTopic);
        set(from.getMaxConsumersPerSubscription(), to::setMaxConsumersPerSubscription);
        set(from.getMaxMessageSize(), to::setMaxMessageSize);
        set(from.getMaxProducerPerTopic(), to::setMaxProducerPerTopic);
        set(from.getMaxSubscriptionsPerTopic(), to::setMaxSubscriptionsPerTopic);
        set(from.getMaxUnackedMessagesOnConsumer(), to::setMaxUnackedMessagesOnConsumer);
        set(from.getMaxUnackedMessagesOnSubscription(), to::setMaxUnackedMessagesOnSubscription);
        set(from.getMessageTTLInSeconds(), to::setMessageTtlInSeconds);
        set(from.getSchemaValidationEnforced(), to::setSchemaValidationEnforced);
        set(from.getSubscriptionExpirationTimeInMinutes(), to::setSubscriptionExpirationTimeInMinutes);
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
                    to.getInactiveTopicPoliciesBuilder().setInactiveTopicDeleteMode(EnumConversion.fromPulsar(mode)));
        });
        set(from.getOffloadPolicies(), value -> to.setOffloadPolicies(OffloadConversion.fromPulsar(value)));
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
        set(EnumConversion.fromPulsar(from.getSchemaCompatibilityStrategy()), to::setSchemaCompatibilityStrategy);
        set(from.getShadowTopics(), to::addAllShadowTopics);
        set(from.getSubscribeRate(), value -> to.getSubscribeRateBuilder().setRatePeriodInSecond(value.ratePeriodInSecond)
                .setSubscribeThrottlingRatePerConsumer(value.subscribeThrottlingRatePerConsumer));
        each(from.getSubscriptionPolicies(), (name, value) -> {
            topicpolicies.v1.SubscriptionPolicies.Builder subscription = topicpolicies.v1.SubscriptionPolicies.newBuilder();
            set(value.getDispatchRate(), rate -> subscription.setDispatchRate(fromPulsar(rate)));
            to.putSubscriptionPolicies(name, subscription.build());
        });
        set(from.getSubscriptionTypesEnabled(), types -> types.forEach(type -> to.addSubscriptionTypesEnabled(EnumConversion.fromPulsar(type))));
        return to.build();
    }

    /**
     * Copies what differs between two messages into a document, field by field and map entry by map entry. Everything else in the document
     * stays as it is, such as fields of a newer broker that Pulsar's classes of this version can't hold.
     */
    static void replaceDifferences(topicpolicies.v1.TopicPolicies.Builder document, topicpolicies.v1.TopicPolicies before,
                                   topicpolicies.v1.TopicPolicies after) {
        for (FieldDescriptor field : before.getDescriptorForType().getFields()) {
            if (before.getField(field).equals(after.getField(field)) && (field.isRepeated() || before.hasField(field) == after.hasField(field))) {
                continue;
            }
            if (field.isMapField()) {
                document.setField(field, merged(document.getField(field), before.getField(field), after.getField(field)));
            } else if (field.isRepeated() || after.hasField(field)) {
                document.setField(field, after.getField(field));
            } else {
                document.clearField(field);
            }
        }
    }

    private static List<Message> merged(Object document, Object before, Object after) {
        Map<Object, Message> merged = entries(document);
        Map<Object, Message> old = entries(before);
        Map<Object, Message> changed = entries(after);
        old.keySet().stream().filter(key -> !changed.containsKey(key)).forEach(merged::remove);
        changed.forEach((key, entry) -> {
            if (!entry.equals(old.get(key))) {
                merged.put(key, entry);
            }
        });
        return new ArrayList<>(merged.values());
    }

    private static Map<Object, Message> entries(Object field) {
        Map<Object, Message> entries = new LinkedHashMap<>();
        for (Object each : (List<?>) field) {
            MapEntry<?, ?> entry = (MapEntry<?, ?>) each;
            entries.put(entry.getKey(), entry);
        }
        return entries;
    }

    private static BacklogQuotaImpl toPulsar(BacklogQuota from) {
        BacklogQuotaImpl quota = new BacklogQuotaImpl();
        quota.setLimitSize(from.hasLimitSize() ? from.getLimitSize() : -1);
        quota.setLimitTime(from.hasLimitTime() ? from.getLimitTime() : -1);
        quota.setPolicy(EnumConversion.toPulsar(from.getPolicy()));
        return quota;
    }

    private static BacklogQuota fromPulsar(BacklogQuotaImpl from) {
        BacklogQuota.Builder quota = BacklogQuota.newBuilder().setLimitSize(from.getLimitSize())
                .setLimitTime(from.getLimitTime());
        set(from.getPolicy(), policy -> quota.setPolicy(EnumConversion.fromPulsar(policy)));
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
