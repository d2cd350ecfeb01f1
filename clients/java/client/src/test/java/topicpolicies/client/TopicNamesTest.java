package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

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

    @TestFactory
    Stream<DynamicTest> aTopicNameIsReadAsPulsarReadsIt() throws IOException {
        return Vectors.in("names.json").map(vector -> DynamicTest.dynamicTest(Vectors.text(vector, "name"),
                () -> assertEquals(Vectors.text(vector, "fullName"), TopicNames.full(Vectors.text(vector, "topic")))));
    }

    @Test
    void versionsAndPositionsAreComparedByTheirBytes() {
        assertEquals(List.of(true, false, false), List.of(LogOrder.isAfter("b", "a"), LogOrder.isAfter("a", "a"), LogOrder.isAfter("", "a")));
        assertEquals(List.of(true, true), List.of(LogOrder.isAfter("\ud83d\ude00", "\uffee"), LogOrder.isAfter("a", "")));
    }
}
