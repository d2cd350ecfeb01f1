package topicpolicies.client;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.FieldMask;
import com.google.protobuf.MapEntry;
import com.google.protobuf.Message;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import topicpolicies.v1.TopicPolicies;

/**
 * Field masks (AIP-161).
 *
 * <p>A path names a field, a field of a message ({@code retention_policies.retention_time_in_minutes}) or an entry of a map ({@code
 * subscription_policies.`my-sub`.dispatch_rate}). A segment between backticks may contain any characters; a backtick in it is doubled.
 */
public final class Masks {
    private static final Pattern PLAIN = Pattern.compile("[A-Za-z0-9_]+");

    private Masks() {
    }

    /** A mask of these paths. */
    public static FieldMask of(String... paths) {
        return FieldMask.newBuilder().addAllPaths(List.of(paths)).build();
    }

    /** A path from its segments, quoted where needed; no segments give {@code *}, the whole document. */
    public static String path(List<String> segments) {
        List<String> quoted = segments.stream()
                .map(segment -> PLAIN.matcher(segment).matches() ? segment : "`" + segment.replace("`", "``") + "`").toList();
        return quoted.isEmpty() ? "*" : String.join(".", quoted);
    }

    /** A path from its segments; see {@link #path(List)}. */
    public static String path(String... segments) {
        return path(List.of(segments));
    }

    /**
     * The mask of the difference between two documents: {@code before} with these fields of {@code after} is {@code after}.
     *
     * <p>Messages that both have are compared field by field, maps entry by entry, and lists as a whole; fields that the generated code does
     * not know are not compared. Do not send an empty mask: to the service it means all fields that are set.
     */
    public static FieldMask difference(TopicPolicies before, TopicPolicies after) {
        FieldMask.Builder mask = FieldMask.newBuilder();
        differences(before, after, List.of(), mask);
        return mask.build();
    }

    private static void differences(Message before, Message after, List<String> at, FieldMask.Builder mask) {
        Set<FieldDescriptor> fields = new LinkedHashSet<>(before.getAllFields().keySet());
        fields.addAll(after.getAllFields().keySet());
        for (FieldDescriptor field : fields) {
            List<String> path = below(at, field.getName());
            if (field.isMapField()) {
                Map<String, Object> ours = entries(before.getField(field));
                Map<String, Object> theirs = entries(after.getField(field));
                Set<String> keys = new LinkedHashSet<>(ours.keySet());
                keys.addAll(theirs.keySet());
                keys.forEach(key -> difference(ours.get(key), theirs.get(key), below(path, key), mask));
            } else if (field.isRepeated()) {
                difference(before.getField(field), after.getField(field), path, mask);
            } else {
                difference(value(before, field), value(after, field), path, mask);
            }
        }
    }

    private static void difference(Object before, Object after, List<String> at, FieldMask.Builder mask) {
        if (before instanceof Message one && after instanceof Message other) {
            differences(one, other, at, mask);
        } else if (before == null || !before.equals(after)) {
            mask.addPaths(path(at));
        }
    }

    private static Object value(Message message, FieldDescriptor field) {
        return field.hasPresence() && !message.hasField(field) ? null : message.getField(field);
    }

    private static Map<String, Object> entries(Object field) {
        Map<String, Object> entries = new LinkedHashMap<>();
        for (Object each : (List<?>) field) {
            MapEntry<?, ?> entry = (MapEntry<?, ?>) each;
            entries.put(String.valueOf(entry.getKey()), entry.getValue());
        }
        return entries;
    }

    private static List<String> below(List<String> at, String segment) {
        List<String> path = new ArrayList<>(at);
        path.add(segment);
        return path;
    }
}
