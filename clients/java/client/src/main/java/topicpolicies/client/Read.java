package topicpolicies.client;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import topicpolicies.v1.GetPolicyRequest;

/** A read of the documents of one topic: as they are now, at least at a version, or as they were. Immutable. */
public final class Read {
    private final GetPolicyRequest message;
    private final Optional<Scope> scope;
    private final Optional<Duration> timeout;

    private Read(Builder builder) {
        this.message = builder.message.build();
        this.scope = builder.scope;
        this.timeout = builder.timeout;
    }

    /** A read of a topic's documents as they are now. */
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

    /** Builds a read. */
    public static final class Builder {
        private final GetPolicyRequest.Builder message = GetPolicyRequest.newBuilder();
        private Optional<Scope> scope = Optional.empty();
        private Optional<Duration> timeout = Optional.empty();

        private Builder(String topic) {
            message.setTopic(topic);
        }

        /** Sets the scope; {@code get} reads LOCAL by default, and {@code getBoth} accepts no scope. */
        public Builder scope(Scope value) {
            scope = Optional.of(value);
            return this;
        }

        /** Sets a version that the answer must have reached, such as the one that an update returned. For one scope only. */
        public Builder atLeastVersion(String version) {
            message.setAtLeastVersion(version);
            return this;
        }

        /** Reads the document as it was at a time in the past, from the history. */
        public Builder asOfTime(Instant time) {
            message.setAsOfTime(Times.message(time));
            return this;
        }

        /** Reads the document of this version, from the history. For one scope only. */
        public Builder asOfVersion(String version) {
            message.setAsOfVersion(version);
            return this;
        }

        /** Sets how long the call may take in all, retries included. */
        public Builder timeout(Duration value) {
            timeout = Optional.of(ClientOptions.positive(value));
            return this;
        }

        /** Builds the read. */
        public Read build() {
            return new Read(this);
        }
    }
}
