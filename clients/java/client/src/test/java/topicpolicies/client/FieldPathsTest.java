package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.List;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Paths and masks: the shared vectors, and cases that they lack. */
final class FieldPathsTest {
    @TestFactory
    Stream<DynamicTest> theMaskBetweenTwoDocumentsIsThatOfTheSharedVectors() throws IOException {
        return Vectors.in("masks.json", "differences").map(vector ->
                DynamicTest.dynamicTest(vector.get("name").getAsString(), () -> assertEquals(
                        new TreeSet<>(Vectors.strings(vector.getAsJsonArray("mask"))),
                        new TreeSet<>(FieldPaths.between(Vectors.policies(vector.get("before")), Vectors.policies(vector.get("after")))))));
    }

    @TestFactory
    Stream<DynamicTest> aPathIsWrittenAsInTheSharedVectors() throws IOException {
        return Vectors.in("masks.json", "paths").map(vector ->
                DynamicTest.dynamicTest(vector.get("text").getAsString(), () ->
                        assertEquals(vector.get("text").getAsString(), FieldPaths.format(Vectors.strings(vector.getAsJsonArray("segments"))))));
    }

    @Test
    void pathsOverlapIfOneNamesAPartOfTheOther() {
        assertTrue(FieldPaths.overlap(List.of("a", "retention_policies"), List.of("retention_policies.retention_size_in_mb")));
        assertTrue(FieldPaths.overlap(List.of("retention_policies.retention_size_in_mb"), List.of("retention_policies")));
        assertFalse(FieldPaths.overlap(List.of("max_producer_per_topic"), List.of("max_producer_per_topic_x", "max_consumer_per_topic")));
        assertFalse(FieldPaths.overlap(List.of(), List.of("a")));
    }
}
