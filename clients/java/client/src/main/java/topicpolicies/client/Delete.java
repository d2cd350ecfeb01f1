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

    /** Builds a deletion. */
    public static final class Builder {
        private final DeletePolicyRequest.Builder message = DeletePolicyRequest.newBuilder();
        private Scope scope = Scope.LOCAL;
        private Optional<Duration> timeout = Optional.empty();

        private Builder(String topic) {
            message.setTopic(topic);
        }

        /** Sets the scope; by default LOCAL. */
        public Builder scope(Scope value) {
            scope = value;
            return this;
        }

        /** Deletes only this version of the document; if there is none, the etag is compared with the version of the absence. */
        public Builder etag(String version) {
            message.setEtag(version);
            return this;
        }

        /** Checks everything and returns what the result would be, without writing. */
        public Builder validateOnly() {
            message.setValidateOnly(true);
            return this;
        }

        /** Returns the document that was deleted too. */
        public Builder includePrevious() {
            message.setIncludePrevious(true);
            return this;
        }

        /** Sets the request id, a UUID, to repeat an earlier request. By default a new one is used. */
        public Builder requestId(String value) {
            message.setRequestId(value);
            return this;
        }

        /** Sets who makes the change; it is stored in the log with the change. By default the client's actor. */
        public Builder actor(String value) {
            message.setActor(value);
            return this;
        }

        /** Sets why the change is made; it is stored in the log with the change. By default the client's reason. */
        public Builder reason(String value) {
            message.setReason(value);
            return this;
        }

        /** Sets how long the call may take in all, retries included. */
        public Builder timeout(Duration value) {
            timeout = Optional.of(ClientOptions.positive(value));
            return this;
        }

        /** Builds the deletion. If no request id was set, each one built gets its own. */
        public Delete build() {
            return new Delete(this);
        }
    }
}
