package topicpolicies.client;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Where a watch is in each of its namespaces. A namespace that is missing begins with a snapshot.
 *
 * @param namespaces by {@code tenant/namespace}
 */
public record ResumeToken(Map<String, WatchToken> namespaces) {
    /** Nowhere yet. */
    public static final ResumeToken NONE = new ResumeToken(Map.of());

    /** Copies the places. */
    public ResumeToken {
        namespaces = Map.copyOf(namespaces);
    }

    /** As one line of JSON, to be kept and given to {@link #parse}; it is the same in the clients of all languages. */
    public String format() {
        JsonObject places = new JsonObject();
        new TreeMap<>(namespaces).forEach((name, token) -> {
            JsonObject place = new JsonObject();
            place.addProperty("log", token.log());
            JsonArray positions = new JsonArray();
            token.positions().forEach(positions::add);
            place.add("positions", positions);
            place.addProperty("left_out", token.leftOut());
            places.add(name, place);
        });
        JsonObject all = new JsonObject();
        all.add("namespaces", places);
        return all.toString();
    }

    /** From what {@link #format} gave, in any language; IllegalArgumentException if it is something else. */
    public static ResumeToken parse(String text) {
        try {
            Map<String, WatchToken> places = new HashMap<>();
            JsonObject written = JsonParser.parseString(text).getAsJsonObject().getAsJsonObject("namespaces");
            for (Map.Entry<String, JsonElement> each : written.entrySet()) {
                JsonObject place = each.getValue().getAsJsonObject();
                List<String> positions = new ArrayList<>();
                place.getAsJsonArray("positions").forEach(position -> positions.add(position.getAsString()));
                String leftOut = place.has("left_out") ? place.get("left_out").getAsString() : "";
                places.put(each.getKey(), new WatchToken(place.get("log").getAsString(), positions, leftOut));
            }
            return new ResumeToken(places);
        } catch (RuntimeException error) { // of many kinds, for text of many kinds
            String message = "This is not a saved watch token. Begin without one: the watch starts with a snapshot.";
            throw new IllegalArgumentException(message, error);
        }
    }
}
