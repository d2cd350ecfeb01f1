package topicpolicies.client;

import java.time.Duration;
import java.util.Optional;
import topicpolicies.v1.EffectiveView;
import topicpolicies.v1.GetEffectivePolicyRequest;

/** A read of the effective policies of one topic. Immutable. */
public final class EffectiveRead {
    private final GetEffectivePolicyRequest message;
    private final Optional<Duration> timeout;

    private EffectiveRead(Builder builder) {
        this.message = builder.message.build();
        this.timeout = builder.timeout;
    }

    /** A read of what brokers enforce for a topic. */
    public static Builder of(String topic) {
        return new Builder(topic);
    }

    GetEffectivePolicyRequest message() {
        return message;
    }

    Optional<Duration> timeout() {
        return timeout;
    }

    /** Builds such a read. */
    public static final class Builder {
        private final GetEffectivePolicyRequest.Builder message = GetEffectivePolicyRequest.newBuilder();
        private Optional<Duration> timeout = Optional.empty();

        private Builder(String topic) {
            message.setTopic(topic);
        }

        /** Sets whose view is read: what brokers enforce, or what their admin API returns with {@code applied=true}. */
        public Builder view(EffectiveView value) {
            message.setView(value);
            return this;
        }

        /** Sets a version that the document of a scope must have reached. */
        public Builder atLeastVersion(Scope scope, String version) {
            if (scope == Scope.LOCAL) {
                message.setAtLeastLocalVersion(version);
            } else {
                message.setAtLeastGlobalVersion(version);
            }
            return this;
        }

        /** Sets how long the call may take in all, retries included. */
        public Builder timeout(Duration value) {
            timeout = Optional.of(ClientOptions.positive(value));
            return this;
        }

        /** Builds the read. */
        public EffectiveRead build() {
            return new EffectiveRead(this);
        }
    }
}
