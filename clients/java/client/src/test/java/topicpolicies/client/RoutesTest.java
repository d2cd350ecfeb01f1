package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** The addresses of calls: one of those that were given, or that of the sidecar that writes a namespace. */
final class RoutesTest {
    private static final TopicPoliciesException BROKEN = new TopicPoliciesException(Status.Code.UNAVAILABLE, "The connection broke.", null);

    private static TopicPoliciesException ledBy(String leader) {
        return TopicPoliciesException.of(Member.refusal(leader));
    }

    @Test
    void addressesAreSeparatedByCommas() {
        Map<String, List<String>> targets = Map.of(
                "localhost:6680", List.of("localhost:6680"),
                "one:1, two:2,three:3", List.of("one:1", "two:2", "three:3"),
                "ipv4:127.0.0.1:1,127.0.0.1:2", List.of("ipv4:127.0.0.1:1,127.0.0.1:2"),
                "dns:///sidecars:6680", List.of("dns:///sidecars:6680"),
                "unix:/run/a,b", List.of("unix:/run/a,b"));
        targets.forEach((target, addresses) -> assertEquals(addresses, Routes.addressesOf(target)));
    }

    @Test
    void theNextAddressIsUsedOnlyWhenTheCurrentOneFails() {
        Routes routes = new Routes(List.of("one", "two"), true);
        TopicPoliciesException wrong = new TopicPoliciesException(Status.Code.INVALID_ARGUMENT, "wrong", null);
        record Step(String address, TopicPoliciesException error, String next) {
        }
        List<Step> steps = List.of(new Step("two", BROKEN, "one"), // not the current address
                new Step("one", BROKEN, "two"), new Step("one", BROKEN, "two"), // an older call to an address that is no longer current
                new Step("two", wrong, "two"), new Step("two", BROKEN, "one"));
        for (Step step : steps) {
            assertFalse(routes.failed(step.address(), "a/b", step.error()));
            assertEquals(List.of(step.next(), step.next()), List.of(routes.writer("a/b"), routes.address()));
        }
    }

    @Test
    void changesOfANamespaceGoToItsLeaderUntilACallThereFails() {
        Routes routes = new Routes(List.of("one", "two"), true);
        assertTrue(routes.failed("one", "a/b", ledBy("three")));
        assertEquals(List.of("three", "one", "one"), List.of(routes.writer("a/b"), routes.writer("a/c"), routes.address()));
        assertFalse(routes.failed("three", "a/b", BROKEN));
        assertEquals("one", routes.writer("a/b"));
    }

    @Test
    void anAddressThatKnowsNoLeaderIsSkippedByChangesButNotByReads() {
        Routes routes = new Routes(List.of("one", "two"), true);
        for (List<String> step : List.of(List.of("one", "two"), List.of("two", "one"), List.of("three", "one"))) {
            assertFalse(routes.failed(step.get(0), "a/b", ledBy("")));
            assertEquals(List.of(step.get(1), "one"), List.of(routes.writer("a/b"), routes.address()));
        }
    }

    @Test
    void aServerThatNamesItselfIsRepeatedAfterAPauseAndAGivenChannelFollowsNoLeader() {
        assertFalse(new Routes(List.of("one"), true).failed("one", "a/b", ledBy("one")));
        Routes stays = new Routes(List.of("one"), false);
        assertFalse(stays.failed("one", "a/b", ledBy("two")));
        assertEquals("one", stays.writer("a/b"));
    }

    @Test
    void theNumberOfRememberedLeadersIsBoundedAndTheNewestAreKept() {
        Routes routes = new Routes(List.of("one"), true);
        TopicPoliciesException two = ledBy("two");
        for (int number = 0; number <= Routes.MOST_LEADERS; number++) {
            routes.failed("one", "a/" + number, two);
        }
        assertEquals(List.of("one", "two", "two"),
                List.of(routes.writer("a/0"), routes.writer("a/1"), routes.writer("a/" + Routes.MOST_LEADERS)));
    }

    @Test
    void addressesOnThisMachineAreRecognized() {
        for (String local : List.of("localhost:1", "127.0.0.5:1", "[::1]:1", "localhost", "unix:/tmp/x", "unix-abstract:x", "dns:///localhost:1")) {
            assertTrue(Line.local(local), local);
        }
        for (String elsewhere : List.of("example:1", "10.0.0.1:1", "localhost.example:1", "127.0.0.1.example:1", "dns:///example:1")) {
            assertFalse(Line.local(elsewhere), elsewhere);
        }
    }
}
