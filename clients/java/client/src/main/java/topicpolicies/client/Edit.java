package topicpolicies.client;

import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Consumer;
import topicpolicies.v1.TopicPolicies;

/**
 * A change of one document, as a function that edits a copy of it. What differs afterwards is sent as a mask with the document's version as
 * the etag; if somebody else was faster, the function is called again on a fresh copy. It must therefore do nothing but edit. Immutable.
 */
public final class Edit {
    /** How often an edit is tried when others are faster each time. */
    static final int ATTEMPTS = 16;
    /** On how many documents in a row a change must come out the same to be sent without an etag. */
    static final int SAME = 4;

    private final String topic;
    private final Consumer<TopicPolicies.Builder> change;
    private final Scope scope;
    private final boolean skipIfAbsent;
    private final boolean includePrevious;
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

    Optional<Document> start() {
        return start;
    }

    boolean isInsistent() {
        return insistent;
    }

    Optional<Duration> timeout() {
        return timeout;
    }

    /** An update with what all attempts have in common. */
    Update.Builder update() {
        Update.Builder update = Update.of(topic).scope(scope).actor(actor).reason(reason);
        update = skipIfAbsent ? update.skipIfAbsent() : update;
        return includePrevious ? update.includePrevious() : update;
    }

    /** What an edit is made of. */
    public static final class Builder {
        private final String topic;
        private final Consumer<TopicPolicies.Builder> change;
        private Scope scope = Scope.LOCAL;
        private boolean skipIfAbsent;
        private boolean includePrevious;
        private Optional<Document> start = Optional.empty();
        private boolean insistent;
        private String actor = "";
        private String reason = "";
        private Optional<Duration> timeout = Optional.empty();

        private Builder(String topic, Consumer<TopicPolicies.Builder> change) {
            this.topic = topic;
            this.change = change;
        }

        /** In another scope. */
        public Builder scope(Scope value) {
            scope = value;
            return this;
        }

        /** Does nothing where there is no document. */
        public Builder skipIfAbsent() {
            skipIfAbsent = true;
            return this;
        }

        /** Answered with the document before, too. */
        public Builder includePrevious() {
            includePrevious = true;
            return this;
        }

        /** Beginning with a document that is known, such as a cache's, which saves reading it first. */
        public Builder start(Document value) {
            start = Optional.of(value);
            return this;
        }

        /**
         * A change that came out the same on several documents in a row is at last sent without an etag. Such a change does not depend on
         * what others change, so it is right on any document, and a writer that never pauses can't keep it waiting.
         */
        public Builder insistent() {
            insistent = true;
            return this;
        }

        /** Who asks; kept in the log beside the change. Without it: as the client's options say. */
        public Builder actor(String value) {
            actor = value;
            return this;
        }

        /** Why; kept in the log beside the change. Without it: as the client's options say. */
        public Builder reason(String value) {
            reason = value;
            return this;
        }

        /** How long it may take in all, all attempts together. */
        public Builder timeout(Duration value) {
            timeout = Optional.of(ClientOptions.positive(value));
            return this;
        }

        /** The edit. */
        public Edit build() {
            return new Edit(this);
        }
    }
}
