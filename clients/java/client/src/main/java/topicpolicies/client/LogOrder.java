package topicpolicies.client;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * The order of the versions of one document, and of positions in one partition: byte by byte, whereas Java compares strings by UTF-16
 * units.
 */
final class LogOrder {
    private LogOrder() {
    }

    static boolean isAfter(String one, String other) {
        return Arrays.compareUnsigned(one.getBytes(StandardCharsets.UTF_8), other.getBytes(StandardCharsets.UTF_8)) > 0;
    }
}
