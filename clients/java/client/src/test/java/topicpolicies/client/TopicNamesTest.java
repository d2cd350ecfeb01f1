package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;

final class TopicNamesTest {
    @Test
    void aShortNameHasTheDefaultDomain() {
        assertEquals("persistent://t/n/x", TopicNames.full("t/n/x"));
        assertEquals("persistent://t/n/x", TopicNames.full("persistent://t/n/x"));
        assertEquals("non-persistent://t/n/x", TopicNames.full("non-persistent://t/n/x"));
        for (String name : List.of("t/n/x", "persistent://t/n/x", "t/n/x/y")) {
            assertEquals("t/n", TopicNames.namespaceOf(name));
        }
    }

    @Test
    void aPartitionMeansItsBaseTopicAndOnlyWherePulsarTakesItForOne() {
        for (String number : List.of("0", "7", "10", "2147483647")) {
            assertEquals("persistent://t/n/x", TopicNames.full("t/n/x-partition-" + number), number);
        }
        for (String number : List.of("", "01", "00", "-1", "+1", "2147483648", "99999999999", "1a", "\u0661")) {
            assertEquals("persistent://t/n/x-partition-" + number, TopicNames.full("t/n/x-partition-" + number), number);
        }
        assertEquals("persistent://t/n/x-partition-1", TopicNames.full("t/n/x-partition-1-partition-2"), "one suffix");
    }

    @Test
    void theLogsOrderIsThatOfBytes() {
        assertEquals(List.of(true, false, false), List.of(LogOrder.isAfter("b", "a"), LogOrder.isAfter("a", "a"), LogOrder.isAfter("", "a")));
        assertEquals(List.of(true, true), List.of(LogOrder.isAfter("\ud83d\ude00", "\uffee"), LogOrder.isAfter("a", "")));
    }
}
