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

    /** An update of a topic's LOCAL document, {@code persistent://tenant/namespace/topic} or without {@code persistent://}. */
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

    /** What an update is made of. */
    public static final class Builder {
        private final UpdatePolicyRequest.Builder message = UpdatePolicyRequest.newBuilder();
        private Scope scope = Scope.LOCAL;
        private Optional<Duration> timeout = Optional.empty();

        private Builder(String topic) {
            message.setTopic(topic);
        }

        /** The new values; what the mask names and is not set here is cleared. */
        public Builder policies(TopicPolicies value) {
            message.setPolicies(value);
            return this;
        }

        /** The paths of what changes, see {@link FieldPaths}; {@code *} alone replaces the whole document. Without any: what is set. */
        public Builder mask(String... paths) {
            return mask(List.of(paths));
        }

        /** The paths of what changes; see {@link #mask(String...)}. */
        public Builder mask(Collection<String> paths) {
            if (paths.isEmpty()) {
                message.clearUpdateMask();
            } else {
                message.getUpdateMaskBuilder().clear().addAllPaths(paths);
            }
            return this;
        }

        /** What happens to a list that the mask names: {@code replication_clusters}, for example. */
        public Builder listOperation(String path, ListOperation operation) {
            message.putListOperations(path, operation.message());
            return this;
        }

        /** In another scope. */
        public Builder scope(Scope value) {
            scope = value;
            return this;
        }

        /** Only at this version of the document, or of its absence. */
        public Builder etag(String version) {
            message.setEtag(version);
            return this;
        }

        /** Only if there is no document. */
        public Builder mustNotExist() {
            message.setMustNotExist(true);
            return this;
        }

        /** Does nothing where there is no document. */
        public Builder skipIfAbsent() {
            message.setSkipIfAbsent(true);
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

        /** The update. Each one that is built without a request id gets one of its own. */
        public Update build() {
            return new Update(this);
        }
    }
}
