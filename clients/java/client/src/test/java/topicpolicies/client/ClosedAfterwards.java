package topicpolicies.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;

/** Tests of a client beside services of their own: what they open is closed after each, the newest first. */
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
}
