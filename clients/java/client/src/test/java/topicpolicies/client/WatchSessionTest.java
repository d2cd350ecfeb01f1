package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import topicpolicies.v1.Bookmark;
import topicpolicies.v1.BookmarkKind;
import topicpolicies.v1.NamespaceState;
import topicpolicies.v1.NamespaceStatus;
import topicpolicies.v1.PolicyChange;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.WatchPoliciesRequest;
import topicpolicies.v1.WatchPoliciesResponse;

final class WatchSessionTest {
    private static final String NAMESPACE = "public/default";
    private final WatchSession session = new WatchSession(Selection.ofNamespaces(NAMESPACE));
    private final List<WatchEvent> first = new ArrayList<>();

    private Optional<WatchEvent> change(String topic, String version, String position) {
        return session.received(WatchPoliciesResponse.newBuilder().setChange(PolicyChange.newBuilder().setNamespace(NAMESPACE)
                .setTopic("persistent://" + NAMESPACE + "/" + topic).setExists(true).setPolicies(TopicPolicies.getDefaultInstance())
                .setVersion(version).setPosition(position)).build());
    }

    private Optional<WatchEvent> bookmark(BookmarkKind kind, String position) {
        return session.received(WatchPoliciesResponse.newBuilder().setBookmark(Bookmark.newBuilder().setNamespace(NAMESPACE).setKind(kind)
                .setToken(topicpolicies.v1.WatchToken.newBuilder().setLog("log").addPositions(position))).build());
    }

    private static TopicPoliciesException error(Status.Code code) {
        return new TopicPoliciesException(code, "It broke.", null);
    }

    @Test
    void aBrokenSnapshotIsBegunAgainAndSaysSo() {
        assertEquals(0, session.connect(first).getResumeCount());
        assertTrue(change("a", "1", "1").isPresent());
        assertTrue(bookmark(BookmarkKind.BOOKMARK_KIND_TIMER, "5").isEmpty(), "in the middle of a snapshot there is no place to resume from");
        assertEquals(ResumeToken.NONE, session.token());
        assertTrue(session.broke(error(Status.Code.UNAVAILABLE), 0).isPresent());
        assertEquals(0, session.connect(first).getResumeCount());
        assertInstanceOf(WatchEvent.Restarted.class, first.get(0));
        assertEquals(1, first.size());
    }

    @Test
    void aStreamIsResumedWhereItBrokeAndNothingIsToldTwice() {
        session.connect(first);
        change("a", "1", "1");
        bookmark(BookmarkKind.BOOKMARK_KIND_SYNCED, "3");
        assertTrue(change("b", "4", "4").isPresent());
        session.broke(error(Status.Code.UNAVAILABLE), 0);
        WatchPoliciesRequest request = session.connect(first);
        assertEquals(List.of("4"), request.getResumeOrThrow(NAMESPACE).getPositionsList());
        assertTrue(change("b", "4", "4").isEmpty(), "told before");
        assertTrue(change("c", "3", "3").isEmpty(), "at or before the token");
        assertTrue(change("c", "5", "5").isPresent());
        assertTrue(first.isEmpty(), "nothing restarted");
        assertEquals(List.of("5"), session.token().namespaces().get(NAMESPACE).positions());
    }

    @Test
    void aFailedNamespaceSaysWhy() {
        session.connect(first);
        NamespaceStatus.Builder status = NamespaceStatus.newBuilder().setNamespace(NAMESPACE).setMessage("so it is");
        NamespaceStatus failed = status.clone().setState(NamespaceState.NAMESPACE_STATE_FAILED).setReason("WHY").build();
        NamespaceStatus loading = status.setState(NamespaceState.NAMESPACE_STATE_LOADING).build();
        assertEquals(Optional.of(new WatchEvent.Unavailable(NAMESPACE, true, "so it is", "WHY")),
                session.received(WatchPoliciesResponse.newBuilder().setStatus(failed).build()));
        assertEquals(Optional.of(new WatchEvent.Unavailable(NAMESPACE, false, "so it is", "")),
                session.received(WatchPoliciesResponse.newBuilder().setStatus(loading).build()));
    }

    @Test
    void aTokenThatIsTooOldIsForgottenAndEverythingStartsOver() {
        session.connect(first);
        bookmark(BookmarkKind.BOOKMARK_KIND_SYNCED, "3");
        assertTrue(session.broke(error(Status.Code.OUT_OF_RANGE), 0).isPresent());
        assertEquals(0, session.connect(first).getResumeCount());
        assertTrue(((WatchEvent.Restarted) first.get(0)).reason().contains("can't be resumed"));
        assertTrue(session.broke(error(Status.Code.OUT_OF_RANGE), 0).isEmpty(), "without a token it makes no sense to try again");
    }

    @Test
    void aRefusalEndsTheWatchUnlessItIsRelentless() {
        assertTrue(session.broke(error(Status.Code.PERMISSION_DENIED), 0).isEmpty());
        WatchSession relentless = new WatchSession(Selection.ofNamespaces(NAMESPACE).relentlessly());
        assertTrue(relentless.broke(error(Status.Code.PERMISSION_DENIED), 0).isPresent());
    }

    @Test
    void pausesGrowAreJitteredAndBoundedAndEndWithABookmark() {
        session.connect(first);
        long before = 0;
        for (int attempt = 1; attempt <= 12; attempt++) {
            long low = session.broke(error(Status.Code.UNAVAILABLE), 0).orElseThrow().pause().toMillis();
            assertTrue(low >= before && low <= 5000);
            before = low;
        }
        assertEquals(2500, before, "half of the ceiling is drawn");
        bookmark(BookmarkKind.BOOKMARK_KIND_SYNCED, "1");
        assertEquals(50, session.broke(error(Status.Code.UNAVAILABLE), 0).orElseThrow().pause().toMillis());
        assertEquals(199, session.broke(error(Status.Code.UNAVAILABLE), 0.999).orElseThrow().pause().toMillis());
    }

    @Test
    void aSavedTokenCoversItsNamespacesAndTheOthersStartOver() {
        ResumeToken token = new ResumeToken(java.util.Map.of(NAMESPACE, new WatchToken("log", List.of("7"))));
        assertEquals(token, ResumeToken.parse(token.format()));
        assertThrows(IllegalArgumentException.class, () -> ResumeToken.parse("not a token"));
        WatchSession resumed = new WatchSession(Selection.ofNamespaces(NAMESPACE, "public/other").from(token));
        WatchPoliciesRequest request = resumed.connect(first);
        assertEquals(java.util.Set.of(NAMESPACE), request.getResumeMap().keySet());
        assertEquals("public/other", ((WatchEvent.Restarted) first.get(0)).namespace());
        assertFalse(first.size() > 1);
    }
}
