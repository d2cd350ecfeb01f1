package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.function.IntFunction;
import org.junit.jupiter.api.AfterEach;

/** Tests of a client with their own services. Everything that a test opens is closed after it, the newest first. */
abstract class ClosedAfterwards {
    static final String TOPIC = "persistent://t/n/x";
    static final Backoff SHORT = new Backoff(Duration.ofMillis(1), Duration.ofMillis(10), 2);
    static final RetryPolicy QUICK = new RetryPolicy(5, SHORT, Duration.ofSeconds(10));

    private final List<AutoCloseable> open = new ArrayList<>();

    @AfterEach
    void close() throws Exception {
        for (int at = open.size() - 1; at >= 0; at--) {
            open.get(at).close();
        }
    }

    final <C extends AutoCloseable> C closing(C each) {
        open.add(each);
        return each;
    }

    final Member member(IntFunction<StatusRuntimeException> answering) throws IOException {
        return closing(new Member(answering));
    }

    /** Starts a sidecar that answers neither changes nor reads. */
    final Member silent() throws IOException {
        Member member = member(attempt -> Member.SILENCE);
        member.reading = attempt -> Member.SILENCE;
        return member;
    }

    final TopicPoliciesClient client(String target) {
        return closing(TopicPoliciesClient.open(ClientOptions.of(target).build(), QUICK));
    }

    /** Opens a channel that a test gives to a client. */
    final ManagedChannel channelTo(Member member) {
        return channelTo(member.address());
    }

    final ManagedChannel channelTo(String address) {
        ManagedChannel channel = Grpc.newChannelBuilder(address, InsecureChannelCredentials.create()).build();
        AutoCloseable end = channel::shutdownNow;
        closing(end);
        return channel;
    }

    static void until(BooleanSupplier holds) throws InterruptedException {
        for (int turn = 0; turn < 2000 && !holds.getAsBoolean(); turn++) {
            Thread.sleep(10);
        }
        assertTrue(holds.getAsBoolean());
    }
}
