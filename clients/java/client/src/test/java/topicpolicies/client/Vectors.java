package topicpolicies.client;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.DynamicTest;
import topicpolicies.v1.TopicPolicies;

/** Reads the shared vectors in {@code clients/vectors}. */
final class Vectors {
    private static final Path DIRECTORY = Path.of("..", "..", "vectors");

    private Vectors() {
    }

    interface Check {
        void run(JsonObject vector) throws Exception;
    }

    /** A test for each example of a file, or of one kind in a file. */
    static Stream<DynamicTest> tests(String file, String kind, Check check) throws IOException {
        JsonElement all = JsonParser.parseString(Files.readString(DIRECTORY.resolve(file)));
        JsonArray vectors = (kind.isEmpty() ? all : all.getAsJsonObject().get(kind)).getAsJsonArray();
        return StreamSupport.stream(vectors.spliterator(), false).map(JsonElement::getAsJsonObject)
                .map(vector -> DynamicTest.dynamicTest(text(vector, vector.has("name") ? "name" : "text"), () -> check.run(vector)));
    }

    static TopicPolicies policies(JsonElement json) throws InvalidProtocolBufferException {
        return message(json, TopicPolicies.newBuilder()).build();
    }

    /** A document that may be null. */
    static Optional<TopicPolicies> document(JsonElement json) throws InvalidProtocolBufferException {
        return json.isJsonNull() ? Optional.empty() : Optional.of(policies(json));
    }

    static <B extends Message.Builder> B message(JsonElement json, B builder) throws InvalidProtocolBufferException {
        JsonFormat.parser().merge(json.toString(), builder);
        return builder;
    }

    static List<String> strings(JsonArray array) {
        List<String> strings = new ArrayList<>();
        array.forEach(each -> strings.add(each.getAsString()));
        return strings;
    }

    static String text(JsonObject object, String name) {
        return object.has(name) && !object.get(name).isJsonNull() ? object.get(name).getAsString() : "";
    }
}
