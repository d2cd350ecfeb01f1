package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.util.JsonFormat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import topicpolicies.v1.TopicPolicies;

/** The vectors that all languages share, and what is Java's own. */
final class FieldPathsTest {
    private static final Path VECTORS = Path.of("..", "..", "vectors", "masks.json");

    private static Stream<JsonObject> each(String kind) throws IOException {
        JsonObject vectors = JsonParser.parseString(Files.readString(VECTORS)).getAsJsonObject();
        return StreamSupport.stream(vectors.getAsJsonArray(kind).spliterator(), false).map(JsonElement::getAsJsonObject);
    }

    private static TopicPolicies policies(JsonElement json) throws InvalidProtocolBufferException {
        TopicPolicies.Builder builder = TopicPolicies.newBuilder();
        JsonFormat.parser().merge(json.toString(), builder);
        return builder.build();
    }

    private static List<String> strings(JsonArray array) {
        List<String> strings = new ArrayList<>();
        array.forEach(each -> strings.add(each.getAsString()));
        return strings;
    }

    @TestFactory
    Stream<DynamicTest> theMaskThatLeadsFromOneDocumentToAnother() throws IOException {
        return each("differences").map(vector ->
                DynamicTest.dynamicTest(vector.get("name").getAsString(), () -> assertEquals(
                        new TreeSet<>(strings(vector.getAsJsonArray("mask"))),
                        new TreeSet<>(FieldPaths.between(policies(vector.get("before")), policies(vector.get("after")))))));
    }

    @TestFactory
    Stream<DynamicTest> theTextOfAPath() throws IOException {
        return each("paths").map(vector ->
                DynamicTest.dynamicTest(vector.get("text").getAsString(), () ->
                        assertEquals(vector.get("text").getAsString(), FieldPaths.format(strings(vector.getAsJsonArray("segments"))))));
    }

    @Test
    void pathsOverlapIfOneNamesAPartOfTheOther() {
        assertTrue(FieldPaths.overlap(List.of("a", "retention_policies"), List.of("retention_policies.retention_size_in_mb")));
        assertTrue(FieldPaths.overlap(List.of("retention_policies.retention_size_in_mb"), List.of("retention_policies")));
        assertFalse(FieldPaths.overlap(List.of("max_producer_per_topic"), List.of("max_producer_per_topic_x", "max_consumer_per_topic")));
        assertFalse(FieldPaths.overlap(List.of(), List.of("a")));
    }
}
