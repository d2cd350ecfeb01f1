package topicpolicies.broker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.pulsar.common.naming.TopicName;
import org.junit.jupiter.api.Test;

/** All clients read topic names as Pulsar does: {@code clients/vectors/names.json}. */
final class NamesVectorsTest {
    @Test
    void pulsarReadsTopicNamesAsTheSharedVectorsSay() throws IOException {
        JsonArray vectors = JsonParser.parseString(Files.readString(Path.of("..", "..", "vectors", "names.json"))).getAsJsonArray();
        assertTrue(vectors.size() > 40);
        for (JsonElement each : vectors) {
            JsonObject vector = each.getAsJsonObject();
            String read = TopicName.get(vector.get("topic").getAsString()).getPartitionedTopicName();
            assertEquals(vector.get("fullName").getAsString(), read, vector.get("name").getAsString());
        }
    }
}
