package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import topicpolicies.v1.WatchEvent;
import topicpolicies.v1.WatchPoliciesResponse;

/** The shared vectors that need no server, and the shared service config. */
final class VectorsTest {
    private static final Path SHARED = Path.of("..", "..", "service_config.json");

    @TestFactory
    Stream<DynamicTest> theMaskBetweenTwoDocuments() throws Exception {
        return Vectors.tests("masks.json", "differences", vector -> assertEquals(
                new TreeSet<>(Vectors.strings(vector.getAsJsonArray("mask"))),
                new TreeSet<>(Masks.difference(Vectors.policies(vector.get("before")), Vectors.policies(vector.get("after"))).getPathsList())));
    }

    @TestFactory
    Stream<DynamicTest> aPathIsWritten() throws Exception {
        return Vectors.tests("masks.json", "paths",
                vector -> assertEquals(Vectors.text(vector, "text"), Masks.path(Vectors.strings(vector.getAsJsonArray("segments")))));
    }

    @TestFactory
    Stream<DynamicTest> aTopicNameIsReadAsPulsarReadsIt() throws Exception {
        return Vectors.tests("names.json", "", vector ->
                assertEquals(Vectors.text(vector, "fullName"), TopicNames.full(Vectors.text(vector, "topic"))));
    }

    @Test
    void theServiceConfigIsThatOfAllClients() throws Exception {
        try (var packaged = TopicPoliciesClient.class.getResourceAsStream("service_config.json")) {
            assertEquals(Files.readString(SHARED), new String(packaged.readAllBytes(), "UTF-8"));
        }
        assertEquals(Set.of("methodConfig"), TopicPoliciesClient.serviceConfig().keySet());
    }

    @TestFactory
    Stream<DynamicTest> aStatusIsTheErrorThatTheVectorsSay() throws Exception {
        return Vectors.tests("retries.json", "", VectorsTest::status);
    }

    private static void status(JsonObject vector) throws Exception {
        Status.Code code = Status.Code.valueOf(Vectors.text(vector, "code"));
        String reason = Vectors.text(vector, "reason");
        String domain = vector.has("domain") ? Vectors.text(vector, "domain") : "topicpolicies";
        com.google.rpc.Status.Builder status = com.google.rpc.Status.newBuilder().setCode(code.value()).setMessage("It is so.");
        if (!reason.isEmpty()) {
            status.addDetails(Any.pack(ErrorInfo.newBuilder().setDomain(domain).setReason(reason).build()));
        }
        String call = Vectors.text(vector, "call");
        TopicPoliciesException error =
                TopicPoliciesException.of(StatusProto.toStatusRuntimeException(status.build()), call.equals("change") ? "1d" : "");
        assertEquals(code, error.code());
        assertEquals(domain.equals("topicpolicies") ? reason : "", error.reason());
        if (call.equals("watch")) {
            boolean began = !vector.has("began") || vector.get("began").getAsBoolean();
            assertEquals(vector.get("resume").getAsBoolean(), !Watch.isPermanent(error, began));
            return;
        }
        JsonArray codes = JsonParser.parseString(Files.readString(SHARED)).getAsJsonObject().getAsJsonArray("methodConfig").get(0)
                .getAsJsonObject().getAsJsonObject("retryPolicy").getAsJsonArray("retryableStatusCodes");
        assertEquals(vector.get("repeat").getAsBoolean(), Vectors.strings(codes).contains(code.name()));
        boolean unknown = Vectors.text(vector, "error").equals("outcome unknown");
        assertEquals(unknown, error instanceof OutcomeUnknownException);
        assertTrue(!(error instanceof OutcomeUnknownException outcome) || outcome.requestId().equals("1d"));
        if (call.equals("change")) { // as the result of a change whose batch ended so
            assertEquals(unknown, TopicPoliciesException.of(error.status("1d")) instanceof OutcomeUnknownException);
        }
    }

    @TestFactory
    Stream<DynamicTest> aWatchAndItsCacheBehaveAsTheVectorsSay() throws Exception {
        return Vectors.tests("watch.json", "", vector -> new Following(vector).run());
    }

    /** One example of {@code watch.json}. */
    private static final class Following {
        private final JsonObject vector;
        private final Places places = new Places(Map.of());
        private final PolicyCache cache;
        private JsonArray changes = new JsonArray();
        private long nowNanos;

        Following(JsonObject vector) {
            this.vector = vector;
            this.cache = new PolicyCache(Vectors.strings(vector.getAsJsonArray("namespaces")), () -> nowNanos);
            cache.listen(change -> {
                JsonArray call = new JsonArray();
                call.add(change.topic() + " " + scope(change.scope()));
                call.add(change.before().map(document -> document.getVersion()).orElse(null));
                call.add(change.after().map(document -> document.getVersion()).orElse(null));
                changes.add(call);
            });
        }

        void run() throws Exception {
            for (JsonElement each : vector.getAsJsonArray("steps")) {
                JsonObject step = each.getAsJsonObject();
                if (step.has("at")) {
                    nowNanos = (long) (step.get("at").getAsDouble() * 1e9);
                }
                if (step.has("connect")) {
                    assertEquals(tokens(step.getAsJsonObject("connect")), places.tokens());
                    places.connect().forEach(namespace -> cache.take(Watch.POLICIES.again().apply(namespace)));
                }
                if (step.has("receive")) {
                    JsonObject response = new JsonObject();
                    response.add("events", step.get("receive"));
                    for (WatchEvent event : Vectors.message(response, WatchPoliciesResponse.newBuilder()).getEventsList()) {
                        places.received(event.getNamespace(), event.getResumeToken(), event.hasReset());
                        cache.take(event);
                    }
                }
                if (step.has("expect")) {
                    step.getAsJsonObject("expect").entrySet().forEach(expected -> expect(expected.getKey(), expected.getValue()));
                }
            }
        }

        private void expect(String what, JsonElement expected) {
            switch (what) {
                case "documents" -> {
                    Map<String, String> documents = new HashMap<>();
                    cache.documents().forEach(one -> documents.put(one.getTopic() + " " + scope(one.getScope()), one.getVersion()));
                    assertEquals(tokens(expected.getAsJsonObject()), documents);
                }
                case "listener" -> {
                    assertEquals(expected, changes);
                    changes = new JsonArray();
                }
                case "tokens" -> assertEquals(tokens(expected.getAsJsonObject()), places.tokens());
                case "synced" -> assertEquals(Vectors.strings(expected.getAsJsonArray()), cache.synced());
                case "age" -> assertEquals(expected.isJsonNull() ? List.of() : List.of(expected.getAsDouble()),
                        cache.age().map(age -> age.toNanos() / 1e9).stream().toList());
                default -> throw new AssertionError(what);
            }
        }

        private static String scope(topicpolicies.v1.Scope scope) {
            return scope.name().replace("SCOPE_", "");
        }

        private static Map<String, String> tokens(JsonObject json) {
            Map<String, String> tokens = new HashMap<>();
            json.entrySet().forEach(each -> tokens.put(each.getKey(), each.getValue().getAsString()));
            return tokens;
        }
    }
}
