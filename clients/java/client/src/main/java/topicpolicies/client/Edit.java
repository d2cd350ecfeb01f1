package topicpolicies.client;

import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Consumer;
import topicpolicies.v1.TopicPolicies;

/**
 * A change of one document, as a function that edits a copy of it. The difference is sent as a mask with the document's version as the
 * etag; if another writer was faster, the function is called again with a fresh copy. It must therefore do nothing but edit. Immutable.
 */
public final class Edit {
    /** How many times an edit is tried if other writers are faster each time. */
    static final int ATTEMPTS = 16;
    /** On how many documents in a row a change must come out the same to be sent without an etag. */
    static final int SAME = 4;

    private final String topic;
    private final Consumer<TopicPolicies.Builder> change;
    private final Scope scope;
    private final boolean skipIfAbsent;
    private final boolean includePrevious;
    private final boolean validateOnly;
    private final Optional<Document> start;
    private final boolean insistent;
    private final String actor;
    private final String reason;
    private final Optional<Duration> timeout;

    private Edit(Builder builder) {
        this.topic = builder.topic;
        this.change = builder.change;
        this.scope = builder.scope;
        this.skipIfAbsent = builder.skipIfAbsent;
        this.includePrevious = builder.includePrevious;
        this.validateOnly = builder.validateOnly;
        this.start = builder.start;
        this.insistent = builder.insistent;
        this.actor = builder.actor;
        this.reason = builder.reason;
        this.timeout = builder.timeout;
    }

    /** An edit of a topic's LOCAL document; {@code change} edits the copy. */
    public static Builder of(String topic, Consumer<TopicPolicies.Builder> change) {
        return new Builder(Objects.requireNonNull(topic), Objects.requireNonNull(change));
    }

    String topic() {
        return topic;
    }

    Consumer<TopicPolicies.Builder> change() {
        return change;
    }

    Scope scope() {
        return scope;
    }

    boolean skipsIfAbsent() {
        return skipIfAbsent;
    }

    boolean includesPrevious() {
        return includePrevious;
    }

    Optional<Document> start() {
        return start;
    }

    boolean isInsistent() {
        return insistent;
    }

    Optional<Duration> timeout() {
        return timeout;
    }

    /** An update with the options that all attempts share. */
    Update.Builder update() {
        Update.Builder update = Update.of(topic).scope(scope).actor(actor).reason(reason);
        update = skipIfAbsent ? update.skipIfAbsent() : update;
        update = validateOnly ? update.validateOnly() : update;
        return includePrevious ? update.includePrevious() : update;
    }

    /** Builds an edit. */
    public static final class Builder {
        private final String topic;
        private final Consumer<TopicPolicies.Builder> change;
        private Scope scope = Scope.LOCAL;
        private boolean skipIfAbsent;
        private boolean includePrevious;
        private boolean validateOnly;
        private Optional<Document> start = Optional.empty();
        private boolean insistent;
        private String actor = "";
        private String reason = "";
        private Optional<Duration> timeout = Optional.empty();

        private Builder(String topic, Consumer<TopicPolicies.Builder> change) {
            this.topic = topic;
            this.change = change;
        }

        /** Sets the scope; by default LOCAL. */
        public Builder scope(Scope value) {
            scope = value;
            return this;
        }

        /** Checks everything and returns what the result would be, without writing. */
        public Builder validateOnly() {
            validateOnly = true;
            return this;
        }

        /** Does nothing if there is no document; the function is not called. */
        public Builder skipIfAbsent() {
            skipIfAbsent = true;
            return this;
        }

        /** Returns the document before the change too. */
        public Builder includePrevious() {
            includePrevious = true;
            return this;
        }

        /** Starts from a known document, such as one from a cache, which saves reading it first. */
        public Builder start(Document value) {
            start = Optional.of(value);
            return this;
        }

        /**
         * Sends a change that came out the same on several documents in a row without an etag in the end. Such a change does not depend on
         * what others change, so it is right on any document, and a writer that never pauses can't delay it forever.
         */
        public Builder insistent() {
            insistent = true;
            return this;
        }

        /** Sets who makes the change; it is stored in the log with the change. By default the client's actor. */
        public Builder actor(String value) {
            actor = value;
            return this;
        }

        /** Sets why the change is made; it is stored in the log with the change. By default the client's reason. */
        public Builder reason(String value) {
            reason = value;
            return this;
        }

        /** Sets how long the edit may take in all, all attempts together. */
        public Builder timeout(Duration value) {
            timeout = Optional.of(ClientOptions.positive(value));
            return this;
        }

        /** Builds the edit. */
        public Edit build() {
            return new Edit(this);
        }
    }
}
