package topicpolicies.client;

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import topicpolicies.v1.PolicyChangeRequest;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.UpdatePolicyRequest;

/** A masked change of one document. Immutable. */
public final class Update implements Change {
    private final UpdatePolicyRequest message;
    private final Scope scope;
    private final Optional<Duration> timeout;

    private Update(Builder builder) {
        UpdatePolicyRequest.Builder complete = builder.message.clone().setScope(builder.scope.message());
        if (complete.getRequestId().isEmpty()) {
            complete.setRequestId(Change.newRequestId());
        }
        this.message = complete.build();
        this.scope = builder.scope;
        this.timeout = builder.timeout;
    }

    /** An update of a topic's LOCAL document; the name is {@code persistent://tenant/namespace/topic}, or lacks {@code persistent://}. */
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
        return PolicyChangeRequest.newBuilder().setUpdate(message);
    }

    UpdatePolicyRequest message() {
        return message;
    }

    @Override
    public String toString() {
        return "Update[" + topic() + " " + scope + ", mask " + message.getUpdateMask().getPathsList() + ", request " + requestId() + "]";
    }

    /** Builds an update. */
    public static final class Builder {
        private final UpdatePolicyRequest.Builder message = UpdatePolicyRequest.newBuilder();
        private Scope scope = Scope.LOCAL;
        private Optional<Duration> timeout = Optional.empty();

        private Builder(String topic) {
            message.setTopic(topic);
        }

        /** Sets the new values; a field that the mask names and that is not set here is cleared. */
        public Builder policies(TopicPolicies value) {
            message.setPolicies(value);
            return this;
        }

        /**
         * Sets the paths of the fields to change, see {@link FieldPaths}; {@code *} alone replaces the whole document. Without a mask, the
         * fields and map entries that are set are changed.
         */
        public Builder mask(String... paths) {
            return mask(List.of(paths));
        }

        /** Sets the paths of the fields to change; see {@link #mask(String...)}. */
        public Builder mask(Collection<String> paths) {
            if (paths.isEmpty()) {
                message.clearUpdateMask();
            } else {
                message.getUpdateMaskBuilder().clear().addAllPaths(paths);
            }
            return this;
        }

        /** Sets what happens to a list that the mask names, for example {@code replication_clusters}. */
        public Builder listOperation(String path, ListOperation operation) {
            message.putListOperations(path, operation.message());
            return this;
        }

        /** Sets the scope; by default LOCAL. */
        public Builder scope(Scope value) {
            scope = value;
            return this;
        }

        /** Applies the update only at this version of the document, or of its absence. */
        public Builder etag(String version) {
            message.setEtag(version);
            return this;
        }

        /** Applies the update only if there is no document. */
        public Builder mustNotExist() {
            message.setMustNotExist(true);
            return this;
        }

        /** Does nothing if there is no document. */
        public Builder skipIfAbsent() {
            message.setSkipIfAbsent(true);
            return this;
        }

        /** Checks everything and returns what the result would be, without writing. */
        public Builder validateOnly() {
            message.setValidateOnly(true);
            return this;
        }

        /** Returns the document before the change too. */
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

        /** Builds the update. If no request id was set, each one built gets its own. */
        public Update build() {
            return new Update(this);
        }
    }
}
