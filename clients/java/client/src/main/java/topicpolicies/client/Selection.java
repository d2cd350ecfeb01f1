package topicpolicies.client;

import java.time.Duration;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import topicpolicies.v1.WatchPoliciesRequest;

/** What a watch or a cache follows, and how. Immutable. */
public final class Selection {
    private final WatchPoliciesRequest message;
    private final Optional<ResumeToken> resume;
    private final boolean relentless;

    private Selection(Builder builder) {
        this.message = builder.message.build();
        this.resume = builder.resume;
        this.relentless = builder.relentless;
        if (message.getTopicsCount() == 0 && message.getNamespacesCount() == 0) {
            throw new IllegalArgumentException("name at least one topic or namespace to follow");
        }
    }

    /** Selects all topics of some namespaces, {@code tenant/namespace}. */
    public static Builder ofNamespaces(String... namespaces) {
        return new Builder().namespaces(namespaces);
    }

    /** Selects some topics. */
    public static Builder ofTopics(String... topics) {
        return new Builder().topics(topics);
    }

    /** The token of an earlier watch; empty if this one does not resume. */
    Optional<ResumeToken> resume() {
        return resume;
    }

    boolean isRelentless() {
        return relentless;
    }

    boolean isFromBeginning() {
        return message.getFromBeginning() || isEntries();
    }

    boolean isEntries() {
        return message.getMode() == WatchMode.ENTRIES.message();
    }

    boolean endsWhenSynced() {
        return message.getEndWhenSynced();
    }

    /** The namespaces of everything that is selected. */
    Set<String> allNamespaces() {
        Set<String> names = new LinkedHashSet<>();
        message.getTopicsList().forEach(topic -> names.add(TopicNames.namespaceOf(topic)));
        names.addAll(message.getNamespacesList());
        return names;
    }

    WatchPoliciesRequest.Builder message() {
        return message.toBuilder();
    }

    /** Builds a selection. */
    public static final class Builder {
        private final WatchPoliciesRequest.Builder message = WatchPoliciesRequest.newBuilder();
        private Optional<ResumeToken> resume = Optional.empty();
        private boolean relentless;

        private Builder() {
        }

        /** Adds topics. */
        public Builder topics(String... topics) {
            message.addAllTopics(List.of(topics));
            return this;
        }

        /** Adds all topics of these namespaces. */
        public Builder namespaces(String... namespaces) {
            message.addAllNamespaces(List.of(namespaces));
            return this;
        }

        /** Selects scopes; by default both. */
        public Builder scopes(Collection<Scope> value) {
            message.clearScopes().addAllScopes(Scope.messages(value));
            return this;
        }

        /** Sets which events are sent; by default {@link WatchMode#LATEST}. */
        public Builder mode(WatchMode value) {
            message.setMode(value.message());
            return this;
        }

        /** Begins with the first event in the history instead of with a snapshot. Not with {@link WatchMode#LATEST}. */
        public Builder fromBeginning() {
            message.setFromBeginning(true);
            return this;
        }

        /** Ends the watch when every namespace is synced. */
        public Builder endWhenSynced() {
            message.setEndWhenSynced(true);
            return this;
        }

        /** Adds the document before each change. */
        public Builder includePrevious() {
            message.setIncludePrevious(true);
            return this;
        }

        /** Resumes where an earlier watch was; a namespace that is not in the token starts over with a snapshot. */
        public Builder resume(ResumeToken value) {
            resume = Optional.of(value);
            return this;
        }

        /** Sets the time between two bookmarks of a namespace, from 1 second to 1 hour; by default 10 seconds. */
        public Builder bookmarkInterval(Duration value) {
            message.setBookmarkInterval(Times.message(value));
            return this;
        }

        /** Connects again whatever the service says, for programs that run unattended. By default, a refusal ends the watch. */
        public Builder relentless() {
            relentless = true;
            return this;
        }

        /** Builds the selection. */
        public Selection build() {
            return new Selection(this);
        }
    }
}
