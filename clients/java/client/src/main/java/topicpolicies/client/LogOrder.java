package topicpolicies.client;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** The order of versions of one document, and of positions in one partition: byte by byte, where Java's own goes by UTF-16. */
final class LogOrder {
    private LogOrder() {
    }

    static boolean isAfter(String one, String other) {
        return Arrays.compareUnsigned(one.getBytes(StandardCharsets.UTF_8), other.getBytes(StandardCharsets.UTF_8)) > 0;
    }
}
