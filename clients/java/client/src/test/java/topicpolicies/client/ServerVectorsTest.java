package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;
import topicpolicies.v1.ChangeResult;
import topicpolicies.v1.ListOperation;
import topicpolicies.v1.PolicyDocument;
import topicpolicies.v1.Scope;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.UpdatePolicyRequest;

/** The effect of updates and edits on documents: the shared vectors, through the client and a server. */
@Timeout(600)
final class ServerVectorsTest extends WithAServer {
    @TestFactory
    Stream<DynamicTest> anUpdateDoesWhatTheVectorsSay() throws Exception {
        return Vectors.tests("apply.json", "", ServerVectorsTest::apply);
    }

    private static UpdatePolicyRequest.Builder updateOf(String topic) {
        return UpdatePolicyRequest.newBuilder().setTopic(topic);
    }

    private static Optional<TopicPolicies> read(String topic, Scope scope) {
        return Optional.of(client.get(topic, scope)).filter(PolicyDocument::hasPolicies).map(PolicyDocument::getPolicies);
    }

    private static void apply(JsonObject vector) throws Exception {
        String topic = "public/vectors/" + UUID.randomUUID();
        // This server does not know the name of its cluster, so it refuses a LOCAL list of clusters.
        Scope scope = vector.toString().contains("replicationClusters") ? Scope.SCOPE_GLOBAL : Scope.SCOPE_LOCAL;
        Optional<TopicPolicies> before = Vectors.document(vector.get("document"));
        before.ifPresent(policies -> client.update(updateOf(topic).setScope(scope).setPolicies(policies).setUpdateMask(Masks.of("*")).build()));
        assertEquals(before, read(topic, scope));
        UpdatePolicyRequest.Builder update = updateOf(topic).setScope(scope);
        if (vector.has("policies")) {
            update.setPolicies(Vectors.policies(vector.get("policies")));
        }
        if (vector.has("mask")) {
            update.getUpdateMaskBuilder().addAllPaths(Vectors.strings(vector.getAsJsonArray("mask")));
        }
        if (vector.has("listOperations")) {
            vector.getAsJsonObject("listOperations").entrySet()
                    .forEach(each -> update.putListOperations(each.getKey(), ListOperation.valueOf(each.getValue().getAsString())));
        }
        if (vector.has("reason")) {
            String reason = Vectors.text(vector, "reason");
            TopicPoliciesException error = assertThrows(TopicPoliciesException.class, () -> client.update(update.build()));
            assertTrue(error.violations().stream().anyMatch(each -> each.getReason().equals(reason)), error.reason() + error.violations());
            assertEquals(before, read(topic, scope));
        } else {
            client.update(update.build());
            assertEquals(Vectors.document(vector.get("after")), read(topic, scope));
        }
    }

    @TestFactory
    Stream<DynamicTest> anEditDoesWhatTheVectorsSay() throws Exception {
        return Vectors.tests("edits.json", "", ServerVectorsTest::edit);
    }

    private static void edit(JsonObject vector) throws Exception {
        String topic = "public/vectors/" + UUID.randomUUID();
        Optional<TopicPolicies> before = Vectors.document(vector.get("document"));
        before.ifPresent(policies -> client.update(topic, policies, "*"));
        UpdatePolicyRequest.Builder options = updateOf(topic);
        for (String option : vector.has("options") ? Vectors.strings(vector.getAsJsonArray("options")) : List.<String>of()) {
            switch (option) {
                case "skipIfAbsent" -> options.setSkipIfAbsent(true);
                case "includePrevious" -> options.setIncludePrevious(true);
                case "validateOnly" -> options.setValidateOnly(true);
                default -> throw new AssertionError(option);
            }
        }
        Optional<TopicPolicies> meanwhile = vector.has("meanwhile") ? Vectors.document(vector.get("meanwhile")) : Optional.empty();
        TopicPolicies edited = Vectors.policies(vector.get("edit"));
        AtomicInteger runs = new AtomicInteger();
        ChangeResult result = client.edit(options.build(), policies -> {
            if (runs.incrementAndGet() == 1 && vector.has("meanwhile")) {
                meanwhile.ifPresentOrElse(other -> client.update(topic, other), () -> client.delete(topic));
            }
            policies.mergeFrom(edited);
        });
        assertEquals(vector.get("runs").getAsInt(), runs.get());
        assertEquals("CHANGE_OUTCOME_" + Vectors.text(vector, "outcome"), result.getOutcome().name());
        assertEquals(vector.has("previous"), result.hasPrevious());
        if (vector.has("previous")) {
            assertEquals(Vectors.document(vector.get("previous")),
                    Optional.of(result.getPrevious()).filter(PolicyDocument::hasPolicies).map(PolicyDocument::getPolicies));
        }
        assertEquals(Vectors.document(vector.get("after")), read(topic, Scope.SCOPE_LOCAL));
        assertEquals(client.get(topic).getVersion(), result.getVersion());
    }
}
