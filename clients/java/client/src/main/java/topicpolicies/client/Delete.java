package topicpolicies.client;

import java.time.Duration;
import java.util.Optional;
import topicpolicies.v1.DeletePolicyRequest;
import topicpolicies.v1.PolicyChangeRequest;

/** A deletion of one document. Immutable. */
public final class Delete implements Change {
    private final DeletePolicyRequest message;
    private final Scope scope;
    private final Optional<Duration> timeout;

    private Delete(Builder builder) {
        DeletePolicyRequest.Builder complete = builder.message.clone().setScope(builder.scope.message());
        if (complete.getRequestId().isEmpty()) {
            complete.setRequestId(Change.newRequestId());
        }
        this.message = complete.build();
        this.scope = builder.scope;
        this.timeout = builder.timeout;
    }

    /** A deletion of a topic's LOCAL document. */
    public static Builder of(String topic) {
        return new Builder(topic);
    }

    @Override
    public String topic() {
        return message.getTopic();
    }

    @Override
    public Scope scope() {
        return scope;
    }

    @Override
    public String requestId() {
        return message.getRequestId();
    }

    @Override
    public Optional<Duration> timeout() {
        return timeout;
    }

    @Override
    public PolicyChangeRequest.Builder inBatch() {
        return PolicyChangeRequest.newBuilder().setDelete(message);
    }

    DeletePolicyRequest message() {
        return message;
    }

    @Override
    public String toString() {
        return "Delete[" + topic() + " " + scope + ", request " + requestId() + "]";
    }

    /** What a deletion is made of. */
    public static final class Builder {
        private final DeletePolicyRequest.Builder message = DeletePolicyRequest.newBuilder();
        private Scope scope = Scope.LOCAL;
        private Optional<Duration> timeout = Optional.empty();

        private Builder(String topic) {
            message.setTopic(topic);
        }

        /** In another scope. */
        public Builder scope(Scope value) {
            scope = value;
            return this;
        }

        /** Only at this version of the document. */
        public Builder etag(String version) {
            message.setEtag(version);
            return this;
        }

        /** Checked only, and answered with what would be. */
        public Builder validateOnly() {
            message.setValidateOnly(true);
            return this;
        }

        /** Answered with the document before, too. */
        public Builder includePrevious() {
            message.setIncludePrevious(true);
            return this;
        }

        /** As a repeat of an earlier request; a UUID. Without it there is a new one. */
        public Builder requestId(String value) {
            message.setRequestId(value);
            return this;
        }

        /** Who asks; kept in the log beside the change. Without it: as the client's options say. */
        public Builder actor(String value) {
            message.setActor(value);
            return this;
        }

        /** Why; kept in the log beside the change. Without it: as the client's options say. */
        public Builder reason(String value) {
            message.setReason(value);
            return this;
        }

        /** How long it may take in all. */
        public Builder timeout(Duration value) {
            timeout = Optional.of(ClientOptions.positive(value));
            return this;
        }

        /** The deletion. Each one that is built without a request id gets one of its own. */
        public Delete build() {
            return new Delete(this);
        }
    }
}
