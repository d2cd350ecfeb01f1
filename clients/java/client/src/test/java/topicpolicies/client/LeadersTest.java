package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Metadata;
import io.grpc.ServerCredentials;
import io.grpc.Status;
import io.grpc.TlsServerCredentials;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Calls to sidecars of which one, the leader, writes a namespace, and the others, its followers, name it. */
@Timeout(60)
final class LeadersTest extends ClosedAfterwards {
    private Member follower(String leader) throws IOException {
        return member(attempt -> Member.refusal(leader));
    }

    private TopicPoliciesClient client(String target, Duration timeout) {
        return closing(TopicPoliciesClient.open(ClientOptions.of(target).timeout(timeout).build(), QUICK));
    }

    private static Update update() {
        return Update.of(TOPIC).mask("max_producer_per_topic").build();
    }

    /** Returns an address at which nothing listens. */
    private static String unusedAddress() throws IOException {
        try (ServerSocket probe = new ServerSocket(0)) {
            return "localhost:" + probe.getLocalPort();
        }
    }

    /** Returns how many changes each member received. Checks that all of them have the request id of this update. */
    private static List<Integer> changeCounts(Update update, Member... members) {
        Set<String> ids = Set.copyOf(Stream.of(members).flatMap(member -> member.requestIds.stream()).toList());
        assertEquals(Set.of(update.requestId()), ids);
        return Stream.of(members).map(Member::changeCount).toList();
    }

    private static TopicPoliciesException failure(TopicPoliciesClient client, Update update) {
        return assertThrows(TopicPoliciesException.class, () -> client.update(update));
    }

    /** Checks that the call failed, and that nothing was done for certain. */
    private static void assertUnavailable(TopicPoliciesException error) {
        assertEquals(List.of(TopicPoliciesException.class, Status.Code.UNAVAILABLE), List.of(error.getClass(), error.code()), error.getMessage());
    }

    @Test
    void aChangeRefusedByAFollowerGoesToTheLeaderAndLaterChangesGoThereAtOnceOverOneConnection() throws Exception {
        Member leader = member(Member.LEADING);
        Member follower = follower(leader.address());
        ClientOptions options = ClientOptions.of(follower.address()).actor("retention-bot").token(() -> "secret").build();
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(options));
        Update first = update();
        assertEquals("2", client.update(first).version());
        assertEquals(List.of(1, 1), changeCounts(first, follower, leader));
        for (int turn = 0; turn < 4; turn++) {
            client.update(update());
        }
        assertEquals(List.of(1, 5, 1), List.of(follower.changeCount(), leader.changeCount(), leader.connections.get()));
        for (Metadata sent : leader.seen) {
            assertEquals("retention-bot", sent.get(Metadata.Key.of("topicpolicies-actor", Metadata.ASCII_STRING_MARSHALLER)));
            assertEquals("Bearer secret", sent.get(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER)));
        }
    }

    @Test
    void aDeletionRefusedByAFollowerGoesToTheLeaderWithTheSameRequestId() throws Exception {
        Member leader = member(Member.LEADING);
        Member follower = follower(leader.address());
        client(follower.address()).delete(TOPIC, Scope.LOCAL);
        assertEquals(1, follower.changeCount());
        assertEquals(follower.requestIds, leader.requestIds);
    }

    @Test
    void readsDryRunsAndWatchesStayAtTheFollower() throws Exception {
        Member leader = member(Member.LEADING);
        Member follower = member(attempt -> attempt == 1 ? Member.refusal(leader.address()) : null);
        TopicPoliciesClient client = client(follower.address());
        Update update = update();
        client.update(update);
        assertEquals(List.of(1, 1), changeCounts(update, follower, leader));
        client.update(Update.of(TOPIC).mask("max_producer_per_topic").validateOnly().build());
        client.get(TOPIC, Scope.LOCAL);
        BlockingQueue<WatchEvent> events = new LinkedBlockingQueue<>();
        client.watch(Selection.ofNamespaces("t/n").build(), events::add);
        assertInstanceOf(WatchEvent.Synced.class, events.poll(20, TimeUnit.SECONDS));
        assertEquals(List.of(2, 1, 1), List.of(follower.changeCount(), follower.reads.get(), follower.watches.get()));
        assertEquals(List.of(1, 0, 0), List.of(leader.changeCount(), leader.reads.get(), leader.watches.get()));
    }

    @Test
    void aLeaderThatChangesTwiceIsFollowedWithOneRequestId() throws Exception {
        Member last = member(Member.LEADING);
        Member second = follower(last.address());
        Member first = follower(second.address());
        Member follower = follower(first.address());
        Update update = update();
        assertEquals("2", client(follower.address()).update(update).version());
        assertEquals(List.of(1, 1, 1, 1), changeCounts(update, follower, first, second, last));
    }

    @Test
    void aChangeFailsWithNotLeaderAfterTheMaximumOfHopsIfFollowersNameEachOther() throws Exception {
        AtomicReference<String> named = new AtomicReference<>("");
        Member one = member(attempt -> Member.refusal(named.get()));
        Member other = follower(one.address());
        named.set(other.address());
        Update update = update();
        TopicPoliciesException error = failure(client(other.address()), update);
        assertUnavailable(error);
        assertEquals("NOT_LEADER", error.reason());
        List<Integer> counts = changeCounts(update, one, other);
        assertTrue(counts.get(0) > 0 && counts.get(0) + counts.get(1) == Repeats.MOST_HOPS + 1, counts.toString());
    }

    @Test
    void theTimeLimitOfACallBoundsItsHopsBetweenServersToo() throws Exception {
        AtomicReference<String> named = new AtomicReference<>("");
        Member one = member(attempt -> Member.refusal(named.get()));
        Member other = follower(one.address());
        named.set(other.address());
        ClientOptions options = ClientOptions.of(other.address()).timeout(Duration.ofSeconds(5)).build();
        Backoff growing = new Backoff(Duration.ofMillis(50), Duration.ofMinutes(1), 1000); // the second pause is longer than the call
        Update update = update();
        assertUnavailable(failure(closing(TopicPoliciesClient.open(options, new RetryPolicy(5, growing, Duration.ofSeconds(10)))), update));
        assertEquals(List.of(1, 2), changeCounts(update, one, other));
    }

    @Test
    void anUnreachableLeaderIsForgottenAndTheFollowerIsCalledAgain() throws Exception {
        Member leader = member(Member.LEADING);
        String unreachable = unusedAddress();
        Member follower = member(attempt -> Member.refusal(attempt < 3 ? unreachable : leader.address())); // the follower has not noticed yet
        Update update = update();
        client(follower.address()).update(update);
        assertEquals(List.of(3, 1), changeCounts(update, follower, leader));
    }

    @Test
    void aChangeWhoseLeaderStaysUnreachableIsReportedAsNotMade() throws Exception {
        Member follower = follower(unusedAddress());
        Update update = update();
        assertUnavailable(failure(client(follower.address(), Duration.ofSeconds(2)), update));
        assertTrue(changeCounts(update, follower).get(0) >= 2);
    }

    @Test
    void aLeaderThatHangsIsAbandonedAndItsSuccessorGetsTheSameRequestId() throws Exception {
        Member hanging = member(attempt -> Member.SILENCE);
        Member successor = member(Member.LEADING);
        Member follower = member(attempt -> Member.refusal((attempt == 1 ? hanging : successor).address()));
        RetryPolicy retries = new RetryPolicy(5, Backoff.RECONNECT, Duration.ofSeconds(2));
        Update update = update();
        closing(TopicPoliciesClient.open(ClientOptions.of(follower.address()).build(), retries)).update(update);
        List<Integer> counts = changeCounts(update, follower, hanging, successor);
        assertTrue(counts.get(1) > 0 && counts.get(2) == 1, counts.toString());
    }

    @Test
    void aChangeOfUnknownOutcomeIsRepeatedAndItsResultComesFromTheNextLeader() throws Exception {
        Member successor = member(Member.LEADING);
        Member former = member(attempt -> attempt == 1 ? Member.outcomeUnknown() : Member.refusal(successor.address()));
        Update update = update();
        client(former.address()).update(update);
        assertEquals(List.of(2, 1), changeCounts(update, former, successor));
    }

    @Test
    void aChangeWhoseRefusalNamesNoLeaderIsRepeatedUntilThereIsOne() throws Exception {
        Member follower = member(attempt -> attempt <= 10 ? Member.refusal("") : null);
        Update update = update();
        client(follower.address()).update(update);
        assertEquals(List.of(11), changeCounts(update, follower));
    }

    @Test
    void changesWhoseRefusalNamesNoLeaderGoToTheNextAddressButReadsStay() throws Exception {
        Member first = follower("");
        Member second = member(Member.LEADING);
        TopicPoliciesClient client = client(first.address() + ", " + second.address());
        Update update = update();
        client.update(update);
        assertEquals(List.of(1, 1), changeCounts(update, first, second));
        client.update(update());
        client.get(TOPIC, Scope.LOCAL);
        assertEquals(List.of(1, 2, 1, 0), List.of(first.changeCount(), second.changeCount(), first.reads.get(), second.reads.get()));
    }

    @Test
    void theNextAddressIsUsedWhenOneIsUnreachable() throws Exception {
        Member last = member(Member.LEADING);
        TopicPoliciesClient client = client(String.join(",", unusedAddress(), unusedAddress(), last.address()));
        client.get(TOPIC, Scope.LOCAL);
        client.update(update());
        assertEquals(List.of(1, 1), List.of(last.reads.get(), last.changeCount()));
    }

    @Test
    void aChangeIsReportedAsNotMadeIfNoneOfSeveralAddressesIsReachable() throws Exception {
        assertUnavailable(failure(client(unusedAddress() + "," + unusedAddress(), Duration.ofMillis(500)), update()));
    }

    @Test
    void theOutcomeIsUnknownIfTheServiceRefusesAfterABrokenAttempt() throws Exception {
        Member member = member(attempt -> attempt == 1 ? Status.UNAVAILABLE.asRuntimeException() : Member.refusal(""));
        Update update = update();
        TopicPoliciesException error = failure(client(member.address(), Duration.ofSeconds(2)), update);
        assertEquals(update.requestId(), assertInstanceOf(OutcomeUnknownException.class, error).requestId());
        assertTrue(changeCounts(update, member).get(0) >= 2);
    }

    @Test
    void aWatchMovesToTheNextAddressWhenItsServerIsLost() throws Exception {
        Member first = member(Member.LEADING);
        Member second = member(Member.LEADING);
        BlockingQueue<WatchEvent> events = new LinkedBlockingQueue<>();
        client(first.address() + "," + second.address()).watch(Selection.ofNamespaces("t/n").build(), events::add);
        assertInstanceOf(WatchEvent.Synced.class, events.poll(20, TimeUnit.SECONDS));
        first.close();
        assertInstanceOf(WatchEvent.Interrupted.class, events.poll(20, TimeUnit.SECONDS));
        assertInstanceOf(WatchEvent.Synced.class, events.poll(20, TimeUnit.SECONDS));
        assertEquals(List.of(1, 1), List.of(first.watches.get(), second.watches.get()));
    }

    @Test
    void withoutRetriesTheErrorNamesTheLeaderAndOnlyTheNextCallGoesThere() throws Exception {
        Member leader = member(Member.LEADING);
        Member follower = follower(leader.address());
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(ClientOptions.of(follower.address()).withoutRetries().build()));
        assertEquals(leader.address(), failure(client, update()).metadata().get("leader"));
        assertEquals(0, leader.changeCount());
        client.update(update());
        assertEquals(List.of(1, 1), List.of(follower.changeCount(), leader.changeCount()));
    }

    @Test
    void theLeaderIsCalledWithTheSameTls() throws Exception {
        Path certificates = Path.of(System.getenv("JAVA_TESTS_CERTIFICATES"));
        ServerCredentials mutual = TlsServerCredentials.newBuilder()
                .keyManager(certificates.resolve("server.pem").toFile(), certificates.resolve("server-key.pem").toFile())
                .trustManager(certificates.resolve("authority.pem").toFile())
                .clientAuth(TlsServerCredentials.ClientAuth.REQUIRE).build();
        Member leader = closing(new Member(Member.LEADING, mutual));
        Member follower = closing(new Member(attempt -> Member.refusal(leader.address()), mutual));
        Tls tls = Tls.trusting(certificates.resolve("authority.pem"))
                .certificate(certificates.resolve("client.pem"), certificates.resolve("client-key.pem"));
        Update update = update();
        closing(TopicPoliciesClient.open(ClientOptions.of(follower.address()).tls(tls).build())).update(update);
        assertEquals(List.of(1, 1), changeCounts(update, follower, leader));
    }

    @Test
    void aTokenIsNotSentInTheClearToALeaderOnAnotherMachine() throws Exception {
        Member follower = follower("192.0.2.1:6680");
        AtomicInteger requested = new AtomicInteger();
        ClientOptions options = ClientOptions.of(follower.address()).token(() -> "secret-" + requested.incrementAndGet()).build();
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(options, QUICK));
        for (int turn = 1; turn <= 2; turn++) {
            assertEquals(Status.Code.FAILED_PRECONDITION, failure(client, update()).code());
            assertEquals(List.of(turn, turn), List.of(requested.get(), follower.changeCount()));
        }
    }

    @Test
    void closingTheClientEndsACallThatWaitsForALeader() throws Exception {
        Member follower = follower("");
        RetryPolicy slow = new RetryPolicy(5, new Backoff(Duration.ofMinutes(1), Duration.ofMinutes(1), 2), Duration.ofSeconds(10));
        ClientOptions options = ClientOptions.of(follower.address()).timeout(Duration.ofMinutes(5)).build();
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(options, slow));
        CompletableFuture<UpdateResult> waiting = client.updateAsync(update());
        until(() -> follower.changeCount() > 0);
        client.close();
        ExecutionException failed = assertThrows(ExecutionException.class, () -> waiting.get(20, TimeUnit.SECONDS));
        assertEquals(1, follower.changeCount());
        assertTrue(Set.of(Status.Code.UNAVAILABLE, Status.Code.CANCELLED).contains(TopicPoliciesException.of(failed).code()));
    }
}
