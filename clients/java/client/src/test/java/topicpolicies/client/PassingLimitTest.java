package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** A limit for which the service says when to retry ({@code google.rpc.RetryInfo}). */
final class PassingLimitTest {
    private static final Duration DELAY = Duration.ofMillis(3_500);

    private static TopicPoliciesException limit() {
        com.google.protobuf.Duration delay = com.google.protobuf.Duration.newBuilder().setSeconds(3).setNanos(500_000_000).build();
        return TopicPoliciesException.of(com.google.rpc.Status.newBuilder().setCode(Status.Code.RESOURCE_EXHAUSTED.value())
                .setMessage("Too much of yours.")
                .addDetails(Any.pack(ErrorInfo.newBuilder().setDomain("topicpolicies").setReason("PRINCIPAL_LIMIT").build()))
                .addDetails(Any.pack(RetryInfo.newBuilder().setRetryDelay(delay).build())).build());
    }

    @Test
    void theDelayIsThatOfTheServicePlusTheUsualPause() {
        assertEquals(Optional.of(DELAY), limit().retryAfter());
        for (String requestId : List.of("", "0123456789abcdef0123456789abcdef")) {
            Tries tries = new Tries(RetryPolicy.DEFAULT, requestId, System.nanoTime() + Duration.ofHours(1).toNanos());
            for (int attempt = 0; attempt < 20; attempt++) { // more than maxAttempts: nothing was done
                Duration pause = tries.failed(limit(), true, false, 0.5).orElseThrow();
                assertTrue(pause.compareTo(DELAY) > 0 && pause.compareTo(DELAY.plus(Backoff.RECONNECT.longest())) <= 0, pause.toString());
            }
            TopicPoliciesException last = limit();
            assertSame(last, tries.verdict(last, true));
        }
    }

    @Test
    void aLimitThatPassesAfterTheDeadlineIsReportedAtOnce() {
        Tries tries = new Tries(RetryPolicy.DEFAULT, "", System.nanoTime() + Duration.ofSeconds(2).toNanos());
        assertTrue(tries.failed(limit(), true, false, 0.5).isEmpty());
        assertTrue(new Repeats(RetryPolicy.NONE, false).failed(limit(), true, false, 0.5).isEmpty());
    }

    @Test
    void watchesWaitForALimitToo() {
        WatchSession session = new WatchSession(Selection.ofNamespaces("t/n").build());
        assertEquals(DELAY.plusMillis(50), session.broke(limit(), 0).orElseThrow().pause());
    }
}
