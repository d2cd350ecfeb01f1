package topicpolicies.client;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import topicpolicies.v1.GetPolicyRequest;

/** A read of the documents of one topic: now, not before a version, or as they were. Immutable. */
public final class Read {
    private final GetPolicyRequest message;
    private final Optional<Scope> scope;
    private final Optional<Duration> timeout;

    private Read(Builder builder) {
        this.message = builder.message.build();
        this.scope = builder.scope;
        this.timeout = builder.timeout;
    }

    /** A read of a topic, now. */
    public static Builder of(String topic) {
        return new Builder(topic);
    }

    Optional<Scope> scope() {
        return scope;
    }

    Optional<Duration> timeout() {
        return timeout;
    }

    GetPolicyRequest message(List<Scope> scopes) {
        return message.toBuilder().addAllScopes(Scope.messages(scopes)).build();
    }

    /** What a read is made of. */
    public static final class Builder {
        private final GetPolicyRequest.Builder message = GetPolicyRequest.newBuilder();
        private Optional<Scope> scope = Optional.empty();
        private Optional<Duration> timeout = Optional.empty();

        private Builder(String topic) {
            message.setTopic(topic);
        }

        /** Of one scope; {@code get} reads LOCAL without it, and {@code getBoth} takes none. */
        public Builder scope(Scope value) {
            scope = Optional.of(value);
            return this;
        }

        /** The answer must have reached this version, such as an update returned it. Of one scope only. */
        public Builder atLeastVersion(String version) {
            message.setAtLeastVersion(version);
            return this;
        }

        /** As it was at a time that is over, by the history. */
        public Builder asOfTime(Instant time) {
            message.setAsOfTime(Times.message(time));
            return this;
        }

        /** As it was at this version, by the history. Of one scope only. */
        public Builder asOfVersion(String version) {
            message.setAsOfVersion(version);
            return this;
        }

        /** How long it may take in all. */
        public Builder timeout(Duration value) {
            timeout = Optional.of(ClientOptions.positive(value));
            return this;
        }

        /** The read. */
        public Read build() {
            return new Read(this);
        }
    }
}
