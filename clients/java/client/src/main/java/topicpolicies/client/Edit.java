package topicpolicies.client;

import java.util.Objects;
import java.util.Optional;
import java.util.function.Consumer;
import topicpolicies.v1.TopicPolicies;

/**
 * A change of one document, as a function that edits a copy of it. What differs afterwards is sent as a mask with the document's version as
 * the etag; if somebody else was faster, the function is called again on a fresh copy. It must therefore do nothing but edit.
 *
 * @param topic the topic, {@code persistent://tenant/namespace/topic}
 * @param change edits the copy
 * @param scope in which clusters
 * @param skipIfAbsent whether nothing is done when there is no document
 * @param start a document to begin with, which saves reading it first; empty: it is read
 * @param insistent whether a change that came out the same on several documents in a row is at last sent without an etag. Such a change does
 *     not depend on what others change, so it is right on any document, and a writer that never pauses can't keep it waiting
 */
public record Edit(String topic, Consumer<TopicPolicies.Builder> change, Scope scope, boolean skipIfAbsent, Optional<Document> start,
                   boolean insistent) {
    /** How often an edit is tried when others are faster each time. */
    static final int ATTEMPTS = 16;
    /** On how many documents in a row a change must come out the same to be sent without an etag. */
    static final int SAME = 4;

    /** Checks that there is something to do. */
    public Edit {
        Objects.requireNonNull(topic);
        Objects.requireNonNull(change);
    }

    /** An edit of the LOCAL document. */
    public static Edit of(String topic, Consumer<TopicPolicies.Builder> change) {
        return new Edit(topic, change, Scope.LOCAL, false, Optional.empty(), false);
    }

    /** In another scope. */
    public Edit in(Scope value) {
        return new Edit(topic, change, value, skipIfAbsent, start, insistent);
    }

    /** Only if there is a document. */
    public Edit ifPresent() {
        return new Edit(topic, change, scope, true, start, insistent);
    }

    /** Beginning with a document that is known, such as a cache's. */
    public Edit from(Document value) {
        return new Edit(topic, change, scope, skipIfAbsent, Optional.of(value), insistent);
    }

    /** Sent without an etag at last, if it does not depend on what others change. */
    public Edit insistently() {
        return new Edit(topic, change, scope, skipIfAbsent, start, true);
    }
}
