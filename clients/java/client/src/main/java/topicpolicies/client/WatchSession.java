package topicpolicies.client;

import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import topicpolicies.v1.Bookmark;
import topicpolicies.v1.BookmarkKind;
import topicpolicies.v1.NamespaceState;
import topicpolicies.v1.NamespaceStatus;
import topicpolicies.v1.PolicyChange;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.WatchPoliciesRequest;
import topicpolicies.v1.WatchPoliciesResponse;

/**
 * A watch that outlives its streams, without I/O: what to ask for, what an answer means, what to do when the stream breaks.
 *
 * <p>Per namespace it keeps one token: where the watch is. It begins as the one that was handed in, or as that of the SYNCED bookmark that
 * ends the snapshot; from then on the position of every change is folded into it, so that a stream that breaks between two bookmarks is
 * resumed where it broke. Before SYNCED there is no token: a snapshot comes in no order that a position could stand for.
 *
 * <p>Nothing is told twice: after a resume, what is at or before the token that was sent, and, always, what is no newer than what was told
 * of the same document since the last bookmark. When the service says OUT_OF_RANGE, the tokens are forgotten and every namespace starts
 * over. Not thread-safe: a watch calls it from one stream at a time.
 */
final class WatchSession {
    /** How streams break. */
    private static final Set<Status.Code> RESUMABLE = EnumSet.of(Status.Code.UNAVAILABLE, Status.Code.CANCELLED,
            Status.Code.DEADLINE_EXCEEDED, Status.Code.RESOURCE_EXHAUSTED, Status.Code.INTERNAL, Status.Code.UNKNOWN);
    private static final String BROKEN_SNAPSHOT = "the watch was interrupted before the snapshot was complete";

    private final Selection selection;
    private final Map<String, Place> places = new LinkedHashMap<>();
    private int failed;

    private record Key(String topic, Scope scope) {
    }

    private static final class Place {
        /** Where the watch is; null: in or before the snapshot. */
        private WatchToken token;
        /** The token that this stream was resumed from, until it has caught up. */
        private WatchToken resumed;
        /** Whether the consumer may hold documents of an earlier stream. */
        private boolean told;
        private String restart = BROKEN_SNAPSHOT;
        /** The versions that were told since the last bookmark. */
        private final Map<Key, String> recent = new HashMap<>();
    }

    WatchSession(Selection selection) {
        this.selection = selection;
        boolean continued = !selection.resume().namespaces().isEmpty();
        for (String name : selection.allNamespaces()) {
            Place place = place(name);
            if (continued) {
                place.told = true;
                place.token = selection.resume().namespaces().get(name);
                place.restart = "the token does not cover this namespace";
            }
        }
    }

    /** Where the watch is, after everything that it has told. */
    ResumeToken token() {
        Map<String, WatchToken> tokens = new HashMap<>();
        places.forEach((name, place) -> Optional.ofNullable(place.token).ifPresent(token -> tokens.put(name, token)));
        return new ResumeToken(tokens);
    }

    /** A stream is about to be opened: adds what to tell first, and says what to send. */
    WatchPoliciesRequest connect(List<WatchEvent> events) {
        WatchPoliciesRequest.Builder request = selection.message();
        places.forEach((name, place) -> {
            place.resumed = place.token;
            if (place.token != null) {
                request.putResume(name, place.token.message());
                return;
            }
            place.recent.clear();
            if (place.told) {
                place.told = false;
                String reason = "The namespace " + name + " begins again with a snapshot: " + place.restart + ".";
                events.add(new WatchEvent.Restarted(name, reason));
                place.restart = BROKEN_SNAPSHOT;
            }
        });
        return request.build();
    }

    /** A message has come: what it tells, if anything. */
    Optional<WatchEvent> received(WatchPoliciesResponse response) {
        return switch (response.getContentCase()) {
            case CHANGE -> change(response.getChange());
            case BOOKMARK -> bookmark(response.getBookmark());
            case STATUS -> Optional.of(status(response.getStatus()));
            case CONTENT_NOT_SET -> Optional.empty(); // a newer service's
        };
    }

    /**
     * The stream has ended.
     *
     * @param error why
     * @param chance at least 0, less than 1
     * @return what to tell, and with it how long to wait; empty if it makes no sense to try again
     */
    Optional<WatchEvent.Interrupted> broke(TopicPoliciesException error, double chance) {
        if (error.code() == Status.Code.OUT_OF_RANGE && !token().namespaces().isEmpty()) {
            for (Place place : places.values()) {
                place.told = place.told || place.token != null;
                place.token = null;
                place.restart = "it can't be resumed (" + error.getMessage().replaceAll("\\.$", "") + ")";
            }
        } else if (!RESUMABLE.contains(error.code()) && !selection.relentless()) {
            return Optional.empty();
        }
        failed++;
        Duration pause = Backoff.RECONNECT.pause(failed, chance);
        return Optional.of(new WatchEvent.Interrupted(error, failed, pause));
    }

    private Place place(String namespace) {
        return places.computeIfAbsent(namespace, name -> new Place());
    }

    private Optional<WatchEvent> change(PolicyChange change) {
        Place place = place(change.getNamespace());
        Scope scope = Scope.of(change.getScope());
        if (place.token != null) {
            Key key = new Key(change.getTopic(), scope);
            String known = place.recent.get(key);
            String before = place.resumed == null ? "" : place.resumed.at(change.getPartition());
            boolean again = known != null && change.getVersion().compareTo(known) <= 0;
            if (again || !before.isEmpty() && change.getPosition().compareTo(before) <= 0) {
                return Optional.empty();
            }
            place.recent.put(key, change.getVersion());
            place.token = place.token.folded(change.getPartition(), change.getPosition());
        }
        place.told = true;
        Optional<TopicPolicies> policies = change.getExists() ? Optional.of(change.getPolicies()) : Optional.empty();
        Document document = new Document(change.getTopic(), scope, policies, change.getVersion());
        return Optional.of(new WatchEvent.Changed(change.getNamespace(), document, change.getPreviousVersion(), change.getOrigin(),
                place.token == null));
    }

    private Optional<WatchEvent> bookmark(Bookmark bookmark) {
        Place place = place(bookmark.getNamespace());
        boolean synced = bookmark.getKind() == BookmarkKind.BOOKMARK_KIND_SYNCED;
        if (place.token == null && !synced) {
            return Optional.empty(); // in the middle of a snapshot there is no place to resume from
        }
        WatchToken token = WatchToken.of(bookmark.getToken());
        place.token = token;
        place.told = true;
        place.recent.clear();
        failed = 0;
        if (synced) {
            place.resumed = null;
            return Optional.of(new WatchEvent.Synced(bookmark.getNamespace(), token));
        }
        return Optional.of(new WatchEvent.Bookmark(bookmark.getNamespace(), token));
    }

    private static WatchEvent status(NamespaceStatus status) {
        boolean failed = status.getState() == NamespaceState.NAMESPACE_STATE_FAILED;
        return new WatchEvent.Unavailable(status.getNamespace(), failed, status.getMessage(), status.getReason());
    }
}
