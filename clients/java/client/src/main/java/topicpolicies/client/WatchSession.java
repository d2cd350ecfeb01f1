package topicpolicies.client;

import io.grpc.Status;
import java.time.Duration;
import java.time.Instant;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import topicpolicies.v1.BookmarkKind;
import topicpolicies.v1.ErrorReason;
import topicpolicies.v1.HistoryEntry;
import topicpolicies.v1.NamespaceStatus;
import topicpolicies.v1.PolicyChange;
import topicpolicies.v1.WatchPoliciesRequest;

/**
 * A watch that outlives its streams, without I/O: what to request, what a message means, and what to do when the stream breaks.
 * docs/watch.md has the protocol.
 *
 * <p>The session keeps one token per namespace: the place of the watch. The token begins as the one that was given, or as that of the
 * SYNCED bookmark; from then on the position of every event is folded into it, so that a stream that breaks between two bookmarks is
 * resumed where it broke. Before SYNCED there is no token: a snapshot has no order in which a position could be a place. In the mode
 * {@link WatchMode#ENTRIES}, where events come in the log's order and without a snapshot, the token of every bookmark is taken. After a
 * resume, events at or before the token that was sent are not delivered again. Not thread-safe.
 */
final class WatchSession {
    /** The status codes of streams that it makes no sense to open again. */
    private static final Set<Status.Code> FINAL = EnumSet.of(Status.Code.INVALID_ARGUMENT, Status.Code.UNAUTHENTICATED,
            Status.Code.PERMISSION_DENIED, Status.Code.UNIMPLEMENTED, Status.Code.FAILED_PRECONDITION);
    private static final String BROKEN = "the watch was interrupted before the snapshot was complete";
    private static final String NOT_COVERED = "the token does not cover this namespace";

    private final Selection selection;
    private final Map<String, Place> places = new LinkedHashMap<>();
    /** The newest confirmed time of the present stream, in any namespace. */
    private Instant newest = Instant.MIN;
    private int failed;

    private static final class Place {
        /** The place of the watch; null before and within the snapshot, in the mode ENTRIES before the first bookmark. */
        private WatchToken token;
        /** The token that this stream was resumed from, until it has caught up. */
        private WatchToken resumed;
        /** Whether the events begin with the first one of the history instead of with a snapshot. */
        private boolean beginning;
        /** Whether the consumer may hold documents of an earlier stream. */
        private boolean delivered;
        /** Whether SYNCED came on the present stream. */
        private boolean synced;
        /** The reason for the next Reset of this session's own. */
        private String restart = BROKEN;
    }

    WatchSession(Selection selection) {
        this.selection = selection;
        for (String name : selection.allNamespaces()) {
            Place place = new Place();
            places.put(name, place);
            selection.resume().ifPresent(token -> {
                place.delivered = true;
                place.token = token.namespaces().get(name);
                place.restart = place.token == null ? NOT_COVERED : BROKEN;
            });
        }
    }

    /** The place of the watch, after all events so far. */
    ResumeToken token() {
        Map<String, WatchToken> tokens = new HashMap<>();
        places.forEach((name, place) -> Optional.ofNullable(place.token).ifPresent(token -> tokens.put(name, token)));
        return new ResumeToken(tokens);
    }

    /** Prepares for a new stream: adds the events to deliver first, and returns the request to send. */
    WatchPoliciesRequest connect(List<WatchEvent> events) {
        WatchPoliciesRequest.Builder request = selection.message();
        newest = Instant.MIN;
        places.forEach((name, place) -> {
            place.resumed = place.token;
            place.synced = false;
            place.beginning = place.token == null && selection.isFromBeginning();
            if (place.token != null) {
                request.putResume(name, place.token.message());
            } else if (place.delivered) {
                place.delivered = false;
                events.add(new WatchEvent.Reset(name, "", "The namespace " + name + " begins again: " + place.restart + "."));
                place.restart = BROKEN;
            }
        });
        return request.build();
    }

    /** Converts an event of the stream; empty if there is nothing to deliver. Namespaces that were not selected are ignored. */
    Optional<WatchEvent> received(topicpolicies.v1.WatchEvent event) {
        String namespace = event.getNamespace();
        Place place = places.get(namespace);
        if (place == null) {
            return Optional.empty();
        }
        return switch (event.getContentCase()) {
            case CHANGE -> change(namespace, place, event.getChange());
            case ENTRY -> entry(namespace, place, event.getEntry());
            case BOOKMARK -> bookmark(namespace, place, event.getBookmark());
            case STATUS -> Optional.of(status(namespace, event.getStatus()));
            case RESET -> {
                place.token = null;
                place.resumed = null;
                place.beginning = selection.isEntries();
                place.delivered = false;
                place.synced = false;
                yield Optional.of(new WatchEvent.Reset(namespace, name(event.getReset().getReasonValue()), event.getReset().getMessage()));
            }
            case GAP -> Optional.of(new WatchEvent.Gap(namespace, event.getGap()));
            case CONTENT_NOT_SET -> Optional.empty(); // of a newer service
        };
    }

    /**
     * Records that the stream has ended.
     *
     * @param error why
     * @param chance a random number, at least 0 and less than 1
     * @return the event to deliver, with the time to wait before connecting again; empty if retrying can't help
     */
    Optional<WatchEvent.Interrupted> broke(TopicPoliciesException error, double chance) {
        boolean renewable = error.reason().equals("CREDENTIALS_EXPIRED") && failed == 0 // the next stream may have a newer token
                || NoTokenException.isBehind(error);
        if (FINAL.contains(error.code()) && !renewable && !selection.isRelentless()) {
            return Optional.empty();
        }
        failed++;
        boolean full = error.code() == Status.Code.RESOURCE_EXHAUSTED && !error.isPassingLimit();
        Duration pause = Backoff.WATCH.pause(full ? Integer.MAX_VALUE : failed, chance).plus(error.retryAfter().orElse(Duration.ZERO));
        return Optional.of(new WatchEvent.Interrupted(error, failed, pause));
    }

    /** Whether the stream was to end when every namespace is synced, and every one is. */
    boolean isComplete() {
        return selection.endsWhenSynced() && places.values().stream().allMatch(place -> place.synced);
    }

    /** Whether an event at this position was delivered before the stream broke; otherwise the position is folded into the token. */
    private static boolean again(Place place, int partition, String position) {
        place.delivered = true;
        if (place.token == null || position.isEmpty()) {
            return false;
        }
        String before = place.resumed == null ? "" : place.resumed.at(partition);
        if (!before.isEmpty() && !LogOrder.isAfter(position, before)) {
            return true;
        }
        place.token = place.token.folded(partition, position);
        return false;
    }

    private static Optional<WatchEvent> change(String namespace, Place place, PolicyChange change) {
        boolean snapshot = place.token == null && !place.beginning;
        if (again(place, change.getPartition(), change.getPosition())) {
            return Optional.empty();
        }
        Optional<Document> previous = change.hasPrevious() ? Document.of(change.getPrevious()) : Optional.empty();
        return Document.of(change.getDocument()).map(document -> new WatchEvent.Changed(namespace, document, change.getPreviousVersion(),
                previous, change.getOrigin(), snapshot));
    }

    private static Optional<WatchEvent> entry(String namespace, Place place, HistoryEntry entry) {
        if (again(place, entry.getPartition(), entry.getPosition()) || !History.isKnown(entry)) {
            return Optional.empty();
        }
        return Optional.of(new WatchEvent.Entry(namespace, entry));
    }

    private Optional<WatchEvent> bookmark(String namespace, Place place, topicpolicies.v1.Bookmark bookmark) {
        boolean synced = bookmark.getKind() == BookmarkKind.BOOKMARK_KIND_SYNCED;
        if (place.token == null && !synced && !selection.isEntries()) {
            return Optional.empty(); // within a snapshot there is no place to resume from
        }
        WatchToken token = WatchToken.of(bookmark.getToken());
        Instant confirmed = Times.of(bookmark.getConfirmedTime());
        newest = confirmed.isAfter(newest) ? confirmed : newest;
        Duration lag = Duration.between(confirmed, newest);
        place.token = token;
        place.delivered = true;
        if (place.resumed != null && !place.resumed.log().equals(token.log())) {
            place.resumed = null; // positions of another log follow
        }
        if (synced) {
            place.resumed = null;
            place.synced = true;
            failed = 0;
            return Optional.of(new WatchEvent.Synced(namespace, token, confirmed, lag));
        }
        return Optional.of(new WatchEvent.Bookmark(namespace, token, confirmed, lag));
    }

    private static WatchEvent status(String namespace, NamespaceStatus status) {
        return new WatchEvent.Status(namespace, status.getState(), name(status.getReasonValue()), status.getMessage());
    }

    /** The name of a reason, as errors have it; empty if there is none, the number itself if it is one of a newer service. */
    private static String name(int number) {
        ErrorReason reason = ErrorReason.forNumber(number);
        if (reason == null) {
            return Integer.toString(number);
        }
        return reason == ErrorReason.ERROR_REASON_UNSPECIFIED ? "" : reason.name().substring("ERROR_REASON_".length());
    }
}
