package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;
import topicpolicies.v1.TopicPolicies;

/** The effect of edits, and how often they run their functions: the shared vectors, through the client and a server. */
@Timeout(60)
final class EditVectorsTest extends WithAServer {
    @TestFactory
    Stream<DynamicTest> anEditDoesWhatTheSharedVectorsSay() throws Exception {
        return Vectors.in("edits.json").map(vector -> DynamicTest.dynamicTest(Vectors.text(vector, "name"), () -> run(vector)));
    }

    private static void run(JsonObject vector) throws Exception {
        String topic = "public/vectors/" + UUID.randomUUID();
        Optional<TopicPolicies> before = document(vector.get("document"));
        if (before.isPresent()) {
            client.update(Update.of(topic).policies(before.get()).mask("*").build());
        }
        Document known = client.get(topic);
        if (vector.has("meanwhile")) {
            Optional<TopicPolicies> meanwhile = document(vector.get("meanwhile"));
            if (meanwhile.isPresent()) {
                client.update(Update.of(topic).policies(meanwhile.get()).build());
            } else {
                client.delete(topic, Scope.LOCAL);
            }
        }
        AtomicInteger runs = new AtomicInteger();
        TopicPolicies edited = Vectors.policies(vector.get("edit"));
        Edit.Builder edit = Edit.of(topic, policies -> {
            runs.incrementAndGet();
            policies.mergeFrom(edited);
        });
        if (vector.has("start")) {
            edit.start(known);
        }
        if (vector.has("options")) {
            Vectors.strings(vector.getAsJsonArray("options")).forEach(option -> {
                switch (option) {
                    case "skipIfAbsent" -> edit.skipIfAbsent();
                    case "includePrevious" -> edit.includePrevious();
                    case "validateOnly" -> edit.validateOnly();
                    default -> throw new IllegalArgumentException(option);
                }
            });
        }
        UpdateResult result = client.edit(edit.build());
        assertEquals(vector.get("runs").getAsInt(), runs.get());
        assertEquals("UPDATE_OUTCOME_" + Vectors.text(vector, "outcome"), result.outcome().name());
        assertEquals(vector.has("previous"), result.previous().isPresent());
        if (vector.has("previous")) {
            assertEquals(document(vector.get("previous")), result.previous().orElseThrow().policies());
        }
        Document after = client.get(topic);
        assertEquals(document(vector.get("after")), after.policies());
        assertEquals(after.version(), result.version());
    }

    private static Optional<TopicPolicies> document(JsonElement written) throws Exception {
        return written.isJsonNull() ? Optional.empty() : Optional.of(Vectors.policies(written));
    }
}
