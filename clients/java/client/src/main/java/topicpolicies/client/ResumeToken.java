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
 * The place of a watch in each of its namespaces. A namespace without an entry begins with a snapshot.
 *
 * @param namespaces the places by {@code tenant/namespace}
 */
public record ResumeToken(Map<String, WatchToken> namespaces) {
    /** No places: every namespace begins with a snapshot. */
    public static final ResumeToken NONE = new ResumeToken(Map.of());

    /** Copies the places. */
    public ResumeToken {
        namespaces = Map.copyOf(namespaces);
    }

    /** Returns the token as one line of JSON, to be saved and passed to {@link #parse}. The format is the same in all clients. */
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

    /** Parses the output of {@link #format} of any client; throws IllegalArgumentException for any other text. */
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
        } catch (RuntimeException error) { // the kind of exception depends on the text
            String message = "This is not a saved watch token. Begin without one: the watch starts with a snapshot.";
            throw new IllegalArgumentException(message, error);
        }
    }
}
