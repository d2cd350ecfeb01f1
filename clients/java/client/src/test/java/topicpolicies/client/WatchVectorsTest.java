package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.protobuf.InvalidProtocolBufferException;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import topicpolicies.v1.NamespaceState;
import topicpolicies.v1.WatchPoliciesResponse;

/** A watch and its cache, without I/O: the shared vectors. */
final class WatchVectorsTest {
    @TestFactory
    Stream<DynamicTest> aWatchAndItsCacheBehaveAsTheSharedVectorsSay() throws IOException {
        return Vectors.in("watch.json").map(vector -> DynamicTest.dynamicTest(Vectors.text(vector, "name"), () -> new Run(vector).run()));
    }

    /** One example. */
    private static final class Run {
        private final JsonObject vector;
        private final WatchSession session;
        private final CacheState state;
        private List<List<String>> calls = new ArrayList<>();
        private List<String> entries = new ArrayList<>();
        private long nowNanos;

        Run(JsonObject vector) {
            this.vector = vector;
            List<String> namespaces = Vectors.strings(vector.getAsJsonArray("namespaces"));
            this.session = new WatchSession(Selection.ofNamespaces(namespaces.toArray(String[]::new)).mode(mode(vector)).build());
            this.state = new CacheState(new LinkedHashSet<>(namespaces), (key, before, after) -> calls.add(Arrays.asList(
                    key.topic() + " " + key.scope(), before.map(Document::version).orElse(null), after.map(Document::version).orElse(null))));
        }

        void run() throws InvalidProtocolBufferException {
            for (JsonElement each : vector.getAsJsonArray("steps")) {
                step(each.getAsJsonObject());
            }
        }

        private void step(JsonObject step) throws InvalidProtocolBufferException {
            if (step.has("at")) {
                nowNanos = (long) (step.get("at").getAsDouble() * 1e9);
            }
            if (step.has("connect")) {
                state.interrupted();
                List<WatchEvent> events = new ArrayList<>();
                Map<String, topicpolicies.v1.WatchToken> sent = session.connect(events).getResumeMap();
                assertEquals(tokens(step.getAsJsonObject("connect")), sent);
                events.forEach(event -> state.take(event, nowNanos));
            }
            if (step.has("receive")) {
                JsonObject response = new JsonObject();
                response.add("events", step.get("receive"));
                for (topicpolicies.v1.WatchEvent each : Vectors.message(response, WatchPoliciesResponse.newBuilder()).getEventsList()) {
                    session.received(each).ifPresent(this::take);
                }
            }
            if (step.has("expect")) {
                expect(step.getAsJsonObject("expect"));
            }
        }

        private void take(WatchEvent event) {
            state.take(event, nowNanos);
            if (event instanceof WatchEvent.Entry entry) {
                entries.add(entry.entry().getPosition());
            }
        }

        private void expect(JsonObject expected) throws InvalidProtocolBufferException {
            Set<String> known = Set.of("documents", "told", "entries", "tokens", "synced", "states", "staleness");
            assertEquals(Set.of(), Set.copyOf(expected.keySet().stream().filter(name -> !known.contains(name)).toList()));
            if (expected.has("documents")) {
                Map<String, String> documents = new HashMap<>();
                state.documents().forEach(document -> documents.put(document.topic() + " " + document.scope(), document.version()));
                Map<String, String> wanted = new HashMap<>();
                expected.getAsJsonObject("documents").entrySet().forEach(each -> wanted.put(each.getKey(), each.getValue().getAsString()));
                assertEquals(wanted, documents);
            }
            if (expected.has("told")) {
                List<List<String>> wanted = new ArrayList<>();
                expected.getAsJsonArray("told").forEach(each -> wanted.add(Stream.of(0, 1, 2).map(at -> each.getAsJsonArray().get(at))
                        .map(text -> text.isJsonNull() ? null : text.getAsString()).toList()));
                assertEquals(wanted, calls);
                calls = new ArrayList<>();
            }
            if (expected.has("entries")) {
                assertEquals(Vectors.strings(expected.getAsJsonArray("entries")), entries);
                entries = new ArrayList<>();
            }
            if (expected.has("tokens")) {
                Map<String, topicpolicies.v1.WatchToken> tokens = new HashMap<>();
                session.token().namespaces().forEach((name, token) -> tokens.put(name, token.message()));
                assertEquals(tokens(expected.getAsJsonObject("tokens")), tokens);
            }
            if (expected.has("synced")) {
                assertEquals(Vectors.strings(expected.getAsJsonArray("synced")), List.copyOf(new TreeSet<>(state.synced())));
            }
            if (expected.has("states")) {
                expected.getAsJsonObject("states").entrySet().forEach(each -> {
                    WatchEvent.Status status = state.status(each.getKey());
                    if (each.getValue().isJsonNull()) {
                        assertEquals(new WatchEvent.Status(each.getKey(), NamespaceState.NAMESPACE_STATE_READY, "", ""), status);
                        return;
                    }
                    String reason = each.getValue().getAsJsonArray().get(1).isJsonNull() ? "" : each.getValue().getAsJsonArray().get(1).getAsString();
                    assertEquals("NAMESPACE_STATE_" + each.getValue().getAsJsonArray().get(0).getAsString(), status.state().name());
                    assertEquals(reason, status.reason());
                });
            }
            if (expected.has("staleness")) {
                expected.getAsJsonObject("staleness").entrySet().forEach(each -> {
                    Optional<Duration> staleness =
                            each.getKey().isEmpty() ? state.staleness(nowNanos) : state.staleness(each.getKey(), nowNanos);
                    assertEquals(each.getValue().isJsonNull() ? Optional.empty() : Optional.of(each.getValue().getAsDouble()),
                            staleness.map(duration -> duration.toNanos() / 1e9));
                });
            }
        }

        private static WatchMode mode(JsonObject vector) {
            String name = Vectors.text(vector, "mode");
            return name.isEmpty() ? WatchMode.LATEST : WatchMode.valueOf(name.substring("WATCH_MODE_".length()));
        }

        private static Map<String, topicpolicies.v1.WatchToken> tokens(JsonObject json) throws InvalidProtocolBufferException {
            Map<String, topicpolicies.v1.WatchToken> tokens = new LinkedHashMap<>();
            for (Map.Entry<String, JsonElement> each : json.entrySet()) {
                tokens.put(each.getKey(), Vectors.message(each.getValue(), topicpolicies.v1.WatchToken.newBuilder()).build());
            }
            return tokens;
        }
    }
}
