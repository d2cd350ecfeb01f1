package topicpolicies.client;

import java.time.Duration;
import java.util.Collection;
import java.util.EnumSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import topicpolicies.v1.WatchMode;
import topicpolicies.v1.WatchPoliciesRequest;

/**
 * What a watch or a cache follows, and how. Immutable: each method gives a changed selection.
 *
 * @param topics topics, {@code persistent://tenant/namespace/topic}
 * @param namespaces namespaces of which all topics are followed, {@code tenant/namespace}
 * @param scopes the scopes
 * @param everyChange whether every change is owed; otherwise per document only the newest state, so that a slow reader costs nothing
 * @param resume where to go on; a namespace that is not in it begins with a snapshot
 * @param bookmarks time between two bookmarks; empty: as the service has it (10 s)
 * @param relentless whether to try again whatever the service says; otherwise a refusal, such as a missing permission, ends the watch
 */
public record Selection(List<String> topics, List<String> namespaces, Set<Scope> scopes, boolean everyChange, ResumeToken resume,
                        Optional<Duration> bookmarks, boolean relentless) {

    /** Checks that something is selected. */
    public Selection {
        topics = List.copyOf(topics);
        namespaces = List.copyOf(namespaces);
        scopes = Set.copyOf(scopes);
        if (topics.isEmpty() && namespaces.isEmpty()) {
            throw new IllegalArgumentException("name at least one topic or namespace to follow");
        }
    }

    /** All topics of some namespaces. */
    public static Selection ofNamespaces(String... namespaces) {
        return new Selection(List.of(), List.of(namespaces), EnumSet.allOf(Scope.class), false, ResumeToken.NONE, Optional.empty(), false);
    }

    /** Some topics. */
    public static Selection ofTopics(String... topics) {
        return new Selection(List.of(topics), List.of(), EnumSet.allOf(Scope.class), false, ResumeToken.NONE, Optional.empty(), false);
    }

    /** In some scopes only. */
    public Selection in(Collection<Scope> value) {
        return new Selection(topics, namespaces, Set.copyOf(value), everyChange, resume, bookmarks, relentless);
    }

    /** With every change; a reader that can't keep up is interrupted and resumes. */
    public Selection withEveryChange() {
        return new Selection(topics, namespaces, scopes, true, resume, bookmarks, relentless);
    }

    /** Going on where an earlier watch was. */
    public Selection from(ResumeToken value) {
        return new Selection(topics, namespaces, scopes, everyChange, value, bookmarks, relentless);
    }

    /** With bookmarks at other intervals; one second is the least. */
    public Selection withBookmarks(Duration value) {
        return new Selection(topics, namespaces, scopes, everyChange, resume, Optional.of(value), relentless);
    }

    /** Trying again whatever the service says, for programs that nobody watches. */
    public Selection relentlessly() {
        return new Selection(topics, namespaces, scopes, everyChange, resume, bookmarks, true);
    }

    /** The namespaces of all that is selected. */
    Set<String> allNamespaces() {
        Set<String> names = new LinkedHashSet<>();
        topics.forEach(topic -> names.add(namespaceOf(topic)));
        names.addAll(namespaces);
        return names;
    }

    WatchPoliciesRequest.Builder message() {
        WatchPoliciesRequest.Builder request = WatchPoliciesRequest.newBuilder().addAllTopics(topics).addAllNamespaces(namespaces)
                .setMode(everyChange ? WatchMode.WATCH_MODE_EVERY : WatchMode.WATCH_MODE_LATEST);
        scopes.stream().sorted().forEach(scope -> request.addScopes(scope.message()));
        bookmarks.ifPresent(interval -> request.setBookmarkInterval(com.google.protobuf.Duration.newBuilder()
                .setSeconds(interval.getSeconds()).setNanos(interval.getNano())));
        return request;
    }

    /** {@code tenant/namespace} of a topic's name, with or without its domain; the service judges whether it is valid. */
    static String namespaceOf(String topic) {
        String[] parts = topic.substring(topic.indexOf("://") < 0 ? 0 : topic.indexOf("://") + 3).split("/", 3);
        return parts.length < 2 ? topic : parts[0] + "/" + parts[1];
    }
}
