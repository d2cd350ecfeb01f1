package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import java.io.IOException;
import java.util.Optional;
import java.util.UUID;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import topicpolicies.v1.TopicPolicies;

/** The effect of updates on documents: the shared vectors, through the client and a server. */
final class ApplyVectorsTest extends WithAServer {
    @TestFactory
    Stream<DynamicTest> anUpdateDoesWhatTheSharedVectorsSay() throws IOException {
        return Vectors.in("apply.json").map(vector -> DynamicTest.dynamicTest(Vectors.text(vector, "name"), () -> run(vector)));
    }

    private static void run(JsonObject vector) throws Exception {
        String topic = "public/vectors/" + UUID.randomUUID();
        // This server does not know the name of its cluster, so it refuses a LOCAL list of clusters.
        Scope scope = vector.toString().contains("replicationClusters") ? Scope.GLOBAL : Scope.LOCAL;
        Optional<TopicPolicies> before = document(vector, "document");
        if (before.isPresent()) {
            client.update(Update.of(topic).scope(scope).policies(before.get()).mask("*").build());
        }
        assertEquals(before, client.get(topic, scope).policies());
        Update.Builder update = Update.of(topic).scope(scope);
        if (vector.has("policies")) {
            update.policies(Vectors.policies(vector.get("policies")));
        }
        if (vector.has("mask")) {
            update.mask(Vectors.strings(vector.getAsJsonArray("mask")));
        }
        if (vector.has("listOperations")) {
            vector.getAsJsonObject("listOperations").entrySet().forEach(each -> update.listOperation(each.getKey(),
                    ListOperation.valueOf(each.getValue().getAsString().replace("LIST_OPERATION_", ""))));
        }
        if (vector.has("reason")) {
            String reason = Vectors.text(vector, "reason");
            TopicPoliciesException error = assertThrows(TopicPoliciesException.class, () -> client.update(update.build()));
            assertTrue(error.violations().stream().anyMatch(each -> each.reason().equals(reason)), error.reason() + " " + error.violations());
            assertEquals(before, client.get(topic, scope).policies());
        } else {
            client.update(update.build());
            assertEquals(document(vector, "after"), client.get(topic, scope).policies());
        }
    }

    private static Optional<TopicPolicies> document(JsonObject vector, String name) throws Exception {
        return vector.get(name).isJsonNull() ? Optional.empty() : Optional.of(Vectors.policies(vector.get(name)));
    }
}
