package topicpolicies.client;

import java.time.Duration;
import java.util.Optional;
import topicpolicies.v1.EffectiveView;
import topicpolicies.v1.GetEffectivePolicyRequest;

/** A read of what holds for one topic. Immutable. */
public final class EffectiveRead {
    private final GetEffectivePolicyRequest message;
    private final Optional<Duration> timeout;

    private EffectiveRead(Builder builder) {
        this.message = builder.message.build();
        this.timeout = builder.timeout;
    }

    /** What brokers enforce for a topic. */
    public static Builder of(String topic) {
        return new Builder(topic);
    }

    GetEffectivePolicyRequest message() {
        return message;
    }

    Optional<Duration> timeout() {
        return timeout;
    }

    /** What such a read is made of. */
    public static final class Builder {
        private final GetEffectivePolicyRequest.Builder message = GetEffectivePolicyRequest.newBuilder();
        private Optional<Duration> timeout = Optional.empty();

        private Builder(String topic) {
            message.setTopic(topic);
        }

        /** Whose reading: what brokers enforce, or what their admin API answers with {@code applied=true}. */
        public Builder view(EffectiveView value) {
            message.setView(value);
            return this;
        }

        /** A version that the document of a scope must have reached. */
        public Builder atLeastVersion(Scope scope, String version) {
            if (scope == Scope.LOCAL) {
                message.setAtLeastLocalVersion(version);
            } else {
                message.setAtLeastGlobalVersion(version);
            }
            return this;
        }

        /** How long it may take in all. */
        public Builder timeout(Duration value) {
            timeout = Optional.of(ClientOptions.positive(value));
            return this;
        }

        /** The read. */
        public EffectiveRead build() {
            return new EffectiveRead(this);
        }
    }
}
