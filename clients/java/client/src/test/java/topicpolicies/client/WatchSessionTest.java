package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Timestamp;
import com.google.rpc.ErrorInfo;
import io.grpc.Status;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;
import topicpolicies.v1.BookmarkKind;
import topicpolicies.v1.ErrorReason;
import topicpolicies.v1.HistoryEntry;
import topicpolicies.v1.HistoryGap;
import topicpolicies.v1.NamespaceState;
import topicpolicies.v1.NamespaceStatus;
import topicpolicies.v1.PolicyChange;
import topicpolicies.v1.PolicyDocument;
import topicpolicies.v1.WatchPoliciesRequest;
import topicpolicies.v1.WatchReset;

/** A watch without I/O: cases that the shared vectors lack; {@link WatchVectorsTest} runs the vectors. */
final class WatchSessionTest {
    private static final String NAMESPACE = "public/default";
    private final WatchSession session = new WatchSession(Selection.ofNamespaces(NAMESPACE).build());
    private final List<WatchEvent> first = new ArrayList<>();

    private static topicpolicies.v1.WatchEvent.Builder event() {
        return topicpolicies.v1.WatchEvent.newBuilder().setNamespace(NAMESPACE);
    }

    private static PolicyChange.Builder change(String topic, String version, String position) {
        return PolicyChange.newBuilder().setPosition(position).setDocument(PolicyDocument.newBuilder().setTopic(topic)
                .setScope(topicpolicies.v1.Scope.SCOPE_LOCAL).setVersion(version));
    }

    private static Optional<WatchEvent> changed(WatchSession session, String topic, String version, String position) {
        return session.received(event().setChange(change(topic, version, position)).build());
    }

    private Optional<WatchEvent> changed(String topic, String version, String position) {
        return changed(session, topic, version, position);
    }

    private static Optional<WatchEvent> bookmark(WatchSession session, BookmarkKind kind, String position, long confirmed) {
        return session.received(event().setBookmark(topicpolicies.v1.Bookmark.newBuilder().setKind(kind)
                .setConfirmedTime(Timestamp.newBuilder().setSeconds(confirmed))
                .setToken(topicpolicies.v1.WatchToken.newBuilder().setLog("log").addPositions(position))).build());
    }

    private Optional<WatchEvent> synced(String position) {
        return bookmark(session, BookmarkKind.BOOKMARK_KIND_SYNCED, position, 0);
    }

    private static TopicPoliciesException error(Status.Code code) {
        return new TopicPoliciesException(code, "It broke.", null);
    }

    @Test
    void aStreamThatBreaksWithinASnapshotIsFollowedByAReset() {
        assertEquals(0, session.connect(first).getResumeCount());
        assertTrue(changed("a", "1", "1").isPresent());
        assertTrue(bookmark(session, BookmarkKind.BOOKMARK_KIND_TIMER, "5", 0).isEmpty(), "in a snapshot there is no place to resume from");
        assertEquals(ResumeToken.NONE, session.token());
        assertTrue(session.broke(error(Status.Code.UNAVAILABLE), 0).isPresent());
        assertEquals(0, session.connect(first).getResumeCount());
        assertEquals("", assertInstanceOf(WatchEvent.Reset.class, first.get(0)).reason());
        assertEquals(1, first.size());
    }

    @Test
    void aStreamIsResumedWhereItBrokeAndNoEventIsDeliveredTwice() {
        session.connect(first);
        changed("a", "1", "1");
        synced("3");
        assertTrue(changed("b", "4", "4").isPresent());
        session.broke(error(Status.Code.UNAVAILABLE), 0);
        WatchPoliciesRequest request = session.connect(first);
        assertEquals(List.of("4"), request.getResumeOrThrow(NAMESPACE).getPositionsList());
        assertTrue(changed("b", "4", "4").isEmpty(), "the event was delivered before");
        assertTrue(changed("c", "3", "3").isEmpty(), "at or before the token");
        assertTrue(changed("c", "5", "5").isPresent());
        assertTrue(first.isEmpty(), "a namespace starts over");
        assertEquals(List.of("5"), session.token().namespaces().get(NAMESPACE).positions());
    }

    @Test
    void eventsOfASnapshotAreMarkedAsSuch() {
        session.connect(first);
        assertTrue(((WatchEvent.Changed) changed("a", "1", "").orElseThrow()).snapshot());
        synced("3");
        assertFalse(((WatchEvent.Changed) changed("a", "4", "4").orElseThrow()).snapshot());
        WatchSession all = new WatchSession(Selection.ofNamespaces(NAMESPACE).mode(WatchMode.EVERY).fromBeginning().build());
        all.connect(first);
        assertFalse(((WatchEvent.Changed) changed(all, "a", "1", "1").orElseThrow()).snapshot());
        WatchReset reset = WatchReset.newBuilder().setReason(ErrorReason.ERROR_REASON_EVENTS_GONE).setMessage("so it is").build();
        assertEquals(Optional.of(new WatchEvent.Reset(NAMESPACE, "EVENTS_GONE", "so it is")), all.received(event().setReset(reset).build()));
        assertTrue(((WatchEvent.Changed) changed(all, "a", "1", "1").orElseThrow()).snapshot());
    }

    @Test
    void aChangeHasThePreviousDocumentIfItIsKnown() {
        session.connect(first);
        PolicyChange change = change("a", "2", "2").setPreviousVersion("1").setPrevious(change("a", "1", "").getDocument()).build();
        WatchEvent.Changed event = (WatchEvent.Changed) session.received(event().setChange(change).build()).orElseThrow();
        assertEquals(List.of("1", "1"), List.of(event.previousVersion(), event.previous().orElseThrow().version()));
        assertTrue(((WatchEvent.Changed) changed("a", "3", "3").orElseThrow()).previous().isEmpty());
    }

    @Test
    void entriesAndGapsAreDeliveredAndEntriesOfUnknownScopesOnlyAdvanceTheToken() {
        WatchSession entries = new WatchSession(Selection.ofNamespaces(NAMESPACE).mode(WatchMode.ENTRIES).build());
        entries.connect(first);
        HistoryEntry entry = HistoryEntry.newBuilder().setPosition("1").setDocument(change("a", "1", "1").getDocument()).build();
        assertEquals(Optional.of(new WatchEvent.Entry(NAMESPACE, entry)), entries.received(event().setEntry(entry).build()));
        HistoryEntry unreadable = HistoryEntry.newBuilder().setPosition("2").setProblem("so it is").build();
        assertEquals(Optional.of(new WatchEvent.Entry(NAMESPACE, unreadable)), entries.received(event().setEntry(unreadable).build()));
        HistoryGap gap = HistoryGap.newBuilder().setEndTime(Timestamp.newBuilder().setSeconds(1)).build();
        assertEquals(Optional.of(new WatchEvent.Gap(NAMESPACE, gap)), entries.received(event().setGap(gap).build()));
        bookmark(entries, BookmarkKind.BOOKMARK_KIND_SYNCED, "2", 0);
        HistoryEntry unknownScope = HistoryEntry.newBuilder().setPosition("3").setDocument(PolicyDocument.newBuilder().setScopeValue(7)).build();
        assertTrue(entries.received(event().setEntry(unknownScope).build()).isEmpty());
        assertEquals(List.of("3"), entries.token().namespaces().get(NAMESPACE).positions());
    }

    @Test
    void theStateOfANamespaceIsDeliveredWithItsReason() {
        session.connect(first);
        NamespaceStatus.Builder status = NamespaceStatus.newBuilder().setMessage("so it is");
        NamespaceStatus failed = status.clone().setState(NamespaceState.NAMESPACE_STATE_FAILED).setReason(ErrorReason.ERROR_REASON_LOG_LOST).build();
        NamespaceStatus ready = status.setState(NamespaceState.NAMESPACE_STATE_READY).build();
        NamespaceStatus newer = failed.toBuilder().setReasonValue(9999).build();
        assertEquals(Optional.of(new WatchEvent.Status(NAMESPACE, NamespaceState.NAMESPACE_STATE_FAILED, "LOG_LOST", "so it is")),
                session.received(event().setStatus(failed).build()));
        assertEquals(Optional.of(new WatchEvent.Status(NAMESPACE, NamespaceState.NAMESPACE_STATE_READY, "", "so it is")),
                session.received(event().setStatus(ready).build()));
        assertEquals(Optional.of(new WatchEvent.Status(NAMESPACE, NamespaceState.NAMESPACE_STATE_FAILED, "9999", "so it is")),
                session.received(event().setStatus(newer).build()));
    }

    @Test
    void lagIsMeasuredWithinOneStreamBecauseServersHaveTheirOwnClocks() {
        session.connect(first);
        bookmark(session, BookmarkKind.BOOKMARK_KIND_SYNCED, "1", 100);
        WatchEvent.Bookmark behind = (WatchEvent.Bookmark) bookmark(session, BookmarkKind.BOOKMARK_KIND_TIMER, "1", 93).orElseThrow();
        assertEquals(List.of(Duration.ofSeconds(7), Instant.ofEpochSecond(93)), List.of(behind.lag(), behind.confirmedTime()));
        session.connect(first);
        assertEquals(Duration.ZERO, ((WatchEvent.Synced) bookmark(session, BookmarkKind.BOOKMARK_KIND_SYNCED, "1", 20).orElseThrow()).lag());
    }

    @Test
    void aRefusalEndsTheWatchUnlessItIsRelentless() {
        assertTrue(session.broke(error(Status.Code.PERMISSION_DENIED), 0).isEmpty());
        WatchSession relentless = new WatchSession(Selection.ofNamespaces(NAMESPACE).relentless().build());
        assertTrue(relentless.broke(error(Status.Code.PERMISSION_DENIED), 0).isPresent());
    }

    @Test
    void aWatchWhoseTokenExpiresIsReopenedOnce() {
        ErrorInfo info = ErrorInfo.newBuilder().setDomain("topicpolicies").setReason("CREDENTIALS_EXPIRED").build();
        TopicPoliciesException expired = TopicPoliciesException.of(Member.error(Status.Code.UNAUTHENTICATED, info));
        assertTrue(session.broke(expired, 0).isPresent(), "the next stream may have a newer token");
        assertTrue(session.broke(expired, 0).isEmpty());
    }

    @Test
    void aWatchWithEndWhenSyncedIsCompleteWhenAllNamespacesAreSynced() {
        WatchSession ending = new WatchSession(Selection.ofNamespaces(NAMESPACE, "public/other").endWhenSynced().build());
        ending.connect(first);
        bookmark(ending, BookmarkKind.BOOKMARK_KIND_SYNCED, "1", 0);
        assertFalse(ending.isComplete());
        ending.received(event().setNamespace("public/other").setBookmark(topicpolicies.v1.Bookmark.newBuilder()
                .setKind(BookmarkKind.BOOKMARK_KIND_SYNCED)).build());
        assertTrue(ending.isComplete());
        synced("1");
        assertFalse(session.isComplete(), "a watch without endWhenSynced is complete");
    }

    @Test
    void aWatchOfEntriesIsNotCompleteBeforeItIsSyncedAlthoughItHasAToken() {
        WatchSession copying = new WatchSession(Selection.ofNamespaces(NAMESPACE).mode(WatchMode.ENTRIES).endWhenSynced().build());
        copying.connect(first);
        bookmark(copying, BookmarkKind.BOOKMARK_KIND_TIMER, "", 0);
        assertFalse(copying.isComplete());
        copying.connect(first);
        assertFalse(copying.isComplete());
        bookmark(copying, BookmarkKind.BOOKMARK_KIND_SYNCED, "1", 0);
        assertTrue(copying.isComplete());
    }

    @Test
    void pausesGrowWithJitterUpToALimitAndStartOverAfterSynced() {
        session.connect(first);
        long before = 0;
        for (int attempt = 1; attempt <= 12; attempt++) {
            long low = session.broke(error(Status.Code.UNAVAILABLE), 0).orElseThrow().pause().toMillis();
            assertTrue(low >= before && low <= 10_000);
            before = low;
        }
        assertEquals(5000, before, "with chance 0 the pause is half of the limit");
        synced("1");
        assertEquals(50, session.broke(error(Status.Code.UNAVAILABLE), 0).orElseThrow().pause().toMillis());
        assertEquals(199, session.broke(error(Status.Code.UNAVAILABLE), 0.999).orElseThrow().pause().toMillis());
        assertEquals(5000, session.broke(error(Status.Code.RESOURCE_EXHAUSTED), 0).orElseThrow().pause().toMillis(), "the server is full");
    }

    @Test
    void aNamespaceThatTheSavedTokenDoesNotCoverStartsOverWithAReset() {
        ResumeToken token = new ResumeToken(Map.of(NAMESPACE, new WatchToken("log", List.of("7"), "some")));
        assertEquals(token, ResumeToken.parse(token.format()));
        assertEquals("{\"namespaces\":{\"public/default\":{\"log\":\"log\",\"positions\":[\"7\"],\"left_out\":\"some\"}}}", token.format());
        for (String other : List.of("not a token", "", "7", "{}", "{\"namespaces\":7}", "{\"namespaces\":{\"a/b\":{\"log\":\"x\"}}}")) {
            assertThrows(IllegalArgumentException.class, () -> ResumeToken.parse(other));
        }
        WatchSession resumed = new WatchSession(Selection.ofNamespaces(NAMESPACE, "public/other").resume(token).build());
        WatchPoliciesRequest request = resumed.connect(first);
        assertEquals(Set.of(NAMESPACE), request.getResumeMap().keySet());
        assertEquals("public/other", ((WatchEvent.Reset) first.get(0)).namespace());
        assertFalse(first.size() > 1);
    }

    @Test
    void aTokenThatWasSavedBeforeSyncedCoversNoNamespace() {
        ResumeToken early = ResumeToken.parse(session.token().format());
        WatchSession resumed = new WatchSession(Selection.ofNamespaces(NAMESPACE).resume(early).build());
        assertEquals(0, resumed.connect(first).getResumeCount());
        String message = "The namespace public/default begins again: the token does not cover this namespace.";
        assertEquals(List.of(new WatchEvent.Reset(NAMESPACE, "", message)), first);
    }

    @Test
    void theResetAfterAStreamBrokeInASnapshotSaysThatTheWatchWasInterrupted() {
        ResumeToken token = new ResumeToken(Map.of(NAMESPACE, new WatchToken("log", List.of("7"), "")));
        WatchSession resumed = new WatchSession(Selection.ofNamespaces(NAMESPACE).resume(token).build());
        resumed.connect(first);
        resumed.received(event().setReset(WatchReset.getDefaultInstance()).build());
        changed(resumed, "a", "1", "");
        resumed.connect(first);
        String message = "The namespace public/default begins again: the watch was interrupted before the snapshot was complete.";
        assertEquals(List.of(new WatchEvent.Reset(NAMESPACE, "", message)), first);
    }

    @Test
    void aNamespaceThatWasNotSelectedIsIgnored() {
        WatchSession ending = new WatchSession(Selection.ofNamespaces(NAMESPACE).endWhenSynced().build());
        ending.connect(first);
        topicpolicies.v1.WatchEvent.Builder other = event().setNamespace("public/other");
        assertTrue(ending.received(other.setChange(change("a", "1", "1")).build()).isEmpty());
        assertTrue(ending.received(other.setStatus(NamespaceStatus.getDefaultInstance()).build()).isEmpty());
        bookmark(ending, BookmarkKind.BOOKMARK_KIND_SYNCED, "1", 0);
        assertTrue(ending.isComplete());
        ending.received(other.setBookmark(topicpolicies.v1.Bookmark.newBuilder().setKind(BookmarkKind.BOOKMARK_KIND_SYNCED)).build());
        assertEquals(Set.of(NAMESPACE), ending.token().namespaces().keySet());
    }

    @Test
    void positionsOfInvalidPartitionsAreIgnored() {
        session.connect(first);
        synced("3");
        for (int partition : List.of(-1, 1024, Integer.MAX_VALUE)) {
            PolicyChange change = change("a", "9", "9").setPartition(partition).build();
            assertTrue(session.received(event().setChange(change).build()).isPresent());
        }
        assertEquals(List.of("3"), session.token().namespaces().get(NAMESPACE).positions());
    }
}
