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
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import topicpolicies.v1.TopicPolicies;

/** Reads the shared vectors in {@code clients/vectors}. */
final class Vectors {
    private static final Path DIRECTORY = Path.of("..", "..", "vectors");

    private Vectors() {
    }

    /** The examples of a file. */
    static Stream<JsonObject> in(String file) throws IOException {
        return objects(JsonParser.parseString(Files.readString(DIRECTORY.resolve(file))));
    }

    /** The examples of one kind in a file. */
    static Stream<JsonObject> in(String file, String kind) throws IOException {
        return objects(JsonParser.parseString(Files.readString(DIRECTORY.resolve(file))).getAsJsonObject().get(kind));
    }

    static Stream<JsonObject> objects(JsonElement array) {
        return StreamSupport.stream(array.getAsJsonArray().spliterator(), false).map(JsonElement::getAsJsonObject);
    }

    static TopicPolicies policies(JsonElement json) throws InvalidProtocolBufferException {
        return message(json, TopicPolicies.newBuilder()).build();
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
