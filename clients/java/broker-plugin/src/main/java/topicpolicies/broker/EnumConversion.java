package topicpolicies.broker;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.apache.pulsar.common.api.proto.CommandSubscribe.SubType;
import org.apache.pulsar.common.policies.data.BacklogQuota.RetentionPolicy;
import topicpolicies.v1.BacklogQuotaPolicy;
import topicpolicies.v1.InactiveTopicDeleteMode;
import topicpolicies.v1.SchemaCompatibilityStrategy;
import topicpolicies.v1.SubscriptionType;

/**
 * Converts between Pulsar's enums and those of the messages. UNSPECIFIED, Pulsar's UNDEFINED, and values that only a newer broker knows are
 * converted to null.
 */
final class EnumConversion {
    private EnumConversion() {
    }

    static RetentionPolicy toPulsar(BacklogQuotaPolicy from) {
        return switch (from) {
            case BACKLOG_QUOTA_POLICY_PRODUCER_REQUEST_HOLD -> RetentionPolicy.producer_request_hold;
            case BACKLOG_QUOTA_POLICY_PRODUCER_EXCEPTION -> RetentionPolicy.producer_exception;
            case BACKLOG_QUOTA_POLICY_CONSUMER_BACKLOG_EVICTION -> RetentionPolicy.consumer_backlog_eviction;
            case BACKLOG_QUOTA_POLICY_UNSPECIFIED, UNRECOGNIZED -> null;
        };
    }

    static BacklogQuotaPolicy fromPulsar(RetentionPolicy from) {
        return switch (from) {
            case producer_request_hold -> BacklogQuotaPolicy.BACKLOG_QUOTA_POLICY_PRODUCER_REQUEST_HOLD;
            case producer_exception -> BacklogQuotaPolicy.BACKLOG_QUOTA_POLICY_PRODUCER_EXCEPTION;
            case consumer_backlog_eviction -> BacklogQuotaPolicy.BACKLOG_QUOTA_POLICY_CONSUMER_BACKLOG_EVICTION;
        };
    }

    static org.apache.pulsar.common.policies.data.InactiveTopicDeleteMode toPulsar(InactiveTopicDeleteMode from) {
        return switch (from) {
            case INACTIVE_TOPIC_DELETE_MODE_DELETE_WHEN_NO_SUBSCRIPTIONS ->
                    org.apache.pulsar.common.policies.data.InactiveTopicDeleteMode.delete_when_no_subscriptions;
            case INACTIVE_TOPIC_DELETE_MODE_DELETE_WHEN_SUBSCRIPTIONS_CAUGHT_UP ->
                    org.apache.pulsar.common.policies.data.InactiveTopicDeleteMode.delete_when_subscriptions_caught_up;
            case INACTIVE_TOPIC_DELETE_MODE_UNSPECIFIED, UNRECOGNIZED -> null;
        };
    }

    static InactiveTopicDeleteMode fromPulsar(org.apache.pulsar.common.policies.data.InactiveTopicDeleteMode from) {
        return switch (from) {
            case delete_when_no_subscriptions -> InactiveTopicDeleteMode.INACTIVE_TOPIC_DELETE_MODE_DELETE_WHEN_NO_SUBSCRIPTIONS;
            case delete_when_subscriptions_caught_up ->
                    InactiveTopicDeleteMode.INACTIVE_TOPIC_DELETE_MODE_DELETE_WHEN_SUBSCRIPTIONS_CAUGHT_UP;
        };
    }

    static org.apache.pulsar.common.policies.data.SchemaCompatibilityStrategy toPulsar(SchemaCompatibilityStrategy from) {
        return switch (from) {
            case SCHEMA_COMPATIBILITY_STRATEGY_ALWAYS_INCOMPATIBLE ->
                    org.apache.pulsar.common.policies.data.SchemaCompatibilityStrategy.ALWAYS_INCOMPATIBLE;
            case SCHEMA_COMPATIBILITY_STRATEGY_ALWAYS_COMPATIBLE ->
                    org.apache.pulsar.common.policies.data.SchemaCompatibilityStrategy.ALWAYS_COMPATIBLE;
            case SCHEMA_COMPATIBILITY_STRATEGY_BACKWARD -> org.apache.pulsar.common.policies.data.SchemaCompatibilityStrategy.BACKWARD;
            case SCHEMA_COMPATIBILITY_STRATEGY_FORWARD -> org.apache.pulsar.common.policies.data.SchemaCompatibilityStrategy.FORWARD;
            case SCHEMA_COMPATIBILITY_STRATEGY_FULL -> org.apache.pulsar.common.policies.data.SchemaCompatibilityStrategy.FULL;
            case SCHEMA_COMPATIBILITY_STRATEGY_BACKWARD_TRANSITIVE ->
                    org.apache.pulsar.common.policies.data.SchemaCompatibilityStrategy.BACKWARD_TRANSITIVE;
            case SCHEMA_COMPATIBILITY_STRATEGY_FORWARD_TRANSITIVE ->
                    org.apache.pulsar.common.policies.data.SchemaCompatibilityStrategy.FORWARD_TRANSITIVE;
            case SCHEMA_COMPATIBILITY_STRATEGY_FULL_TRANSITIVE ->
                    org.apache.pulsar.common.policies.data.SchemaCompatibilityStrategy.FULL_TRANSITIVE;
            case SCHEMA_COMPATIBILITY_STRATEGY_UNSPECIFIED, UNRECOGNIZED -> null;
        };
    }

    static SchemaCompatibilityStrategy fromPulsar(org.apache.pulsar.common.policies.data.SchemaCompatibilityStrategy from) {
        if (from == null) {
            return null;
        }
        return switch (from) {
            case UNDEFINED -> null;
            case ALWAYS_INCOMPATIBLE -> SchemaCompatibilityStrategy.SCHEMA_COMPATIBILITY_STRATEGY_ALWAYS_INCOMPATIBLE;
            case ALWAYS_COMPATIBLE -> SchemaCompatibilityStrategy.SCHEMA_COMPATIBILITY_STRATEGY_ALWAYS_COMPATIBLE;
            case BACKWARD -> SchemaCompatibilityStrategy.SCHEMA_COMPATIBILITY_STRATEGY_BACKWARD;
            case FORWARD -> SchemaCompatibilityStrategy.SCHEMA_COMPATIBILITY_STRATEGY_FORWARD;
            case FULL -> SchemaCompatibilityStrategy.SCHEMA_COMPATIBILITY_STRATEGY_FULL;
            case BACKWARD_TRANSITIVE -> SchemaCompatibilityStrategy.SCHEMA_COMPATIBILITY_STRATEGY_BACKWARD_TRANSITIVE;
            case FORWARD_TRANSITIVE -> SchemaCompatibilityStrategy.SCHEMA_COMPATIBILITY_STRATEGY_FORWARD_TRANSITIVE;
            case FULL_TRANSITIVE -> SchemaCompatibilityStrategy.SCHEMA_COMPATIBILITY_STRATEGY_FULL_TRANSITIVE;
        };
    }

    static List<SubType> toPulsar(List<SubscriptionType> from) {
        List<SubType> types = new ArrayList<>();
        from.stream().map(EnumConversion::toPulsar).filter(Objects::nonNull).forEach(types::add);
        return types;
    }

    private static SubType toPulsar(SubscriptionType from) {
        return switch (from) {
            case SUBSCRIPTION_TYPE_EXCLUSIVE -> SubType.Exclusive;
            case SUBSCRIPTION_TYPE_SHARED -> SubType.Shared;
            case SUBSCRIPTION_TYPE_FAILOVER -> SubType.Failover;
            case SUBSCRIPTION_TYPE_KEY_SHARED -> SubType.Key_Shared;
            case SUBSCRIPTION_TYPE_UNSPECIFIED, UNRECOGNIZED -> null;
        };
    }

    static SubscriptionType fromPulsar(SubType from) {
        return switch (from) {
            case Exclusive -> SubscriptionType.SUBSCRIPTION_TYPE_EXCLUSIVE;
            case Shared -> SubscriptionType.SUBSCRIPTION_TYPE_SHARED;
            case Failover -> SubscriptionType.SUBSCRIPTION_TYPE_FAILOVER;
            case Key_Shared -> SubscriptionType.SUBSCRIPTION_TYPE_KEY_SHARED;
        };
    }
}
