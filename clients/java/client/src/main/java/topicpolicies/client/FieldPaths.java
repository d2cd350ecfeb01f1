package topicpolicies.client;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.MapEntry;
import com.google.protobuf.Message;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * The paths of field masks (AIP-161), and the mask of the difference between two messages.
 *
 * <p>A path names a field, a field of a message ({@code retention_policies.retention_time_in_minutes}) or an entry of a map ({@code
 * subscription_policies.`my-sub`.dispatch_rate}). A segment between backticks may contain any characters; a backtick in it is doubled.
 */
public final class FieldPaths {
    private static final Pattern PLAIN = Pattern.compile("[A-Za-z0-9_]+");

    private FieldPaths() {
    }

    /**
     * Builds a path from its segments. Segments with characters other than letters, digits and _ are quoted with backticks; no segments
     * give {@code *}, the whole document.
     */
    public static String format(List<String> segments) {
        StringBuilder text = new StringBuilder();
        for (String segment : segments) {
            if (text.length() > 0) {
                text.append('.');
            }
            if (PLAIN.matcher(segment).matches()) {
                text.append(segment);
            } else {
                text.append('`').append(segment.replace("`", "``")).append('`');
            }
        }
        return text.length() == 0 ? "*" : text.toString();
    }

    /** Builds a path from its segments; see {@link #format(List)}. */
    public static String format(String... segments) {
        return format(List.of(segments));
    }

    /**
     * Returns the paths that differ between two messages of one type: {@code before} with these fields of {@code after} is {@code after}.
     *
     * <p>Messages that both have are compared field by field, maps entry by entry, and lists as a whole. Fields that are unknown to the
     * generated code are not compared. If the messages are equal there are no paths; do not send that as a mask, because an empty mask
     * means all fields that are set.
     */
    public static List<String> between(Message before, Message after) {
        List<String> paths = new ArrayList<>();
        differences(before, after, List.of(), paths);
        return paths;
    }

    /** Whether a path of one list names the same field as a path of the other, or a part of it. */
    static boolean overlap(List<String> some, List<String> others) {
        return some.stream().anyMatch(one -> others.stream().anyMatch(other ->
                one.equals(other) || one.startsWith(other + ".") || other.startsWith(one + ".")));
    }

    private static void differences(Message before, Message after, List<String> at, List<String> paths) {
        Set<FieldDescriptor> fields = new LinkedHashSet<>(before.getAllFields().keySet());
        fields.addAll(after.getAllFields().keySet());
        for (FieldDescriptor field : fields) {
            List<String> path = below(at, field.getName());
            Object ours = before.getField(field);
            Object theirs = after.getField(field);
            if (field.isMapField()) {
                entries(entriesOf(ours), entriesOf(theirs), path, paths);
            } else if (!field.isRepeated() && field.hasPresence() && before.hasField(field) != after.hasField(field)) {
                paths.add(format(path));
            } else if (!field.isRepeated() && field.getJavaType() == FieldDescriptor.JavaType.MESSAGE) {
                differences((Message) ours, (Message) theirs, path, paths);
            } else if (!ours.equals(theirs)) {
                paths.add(format(path));
            }
        }
    }

    private static void entries(Map<String, Object> ours, Map<String, Object> theirs, List<String> at, List<String> paths) {
        Set<String> keys = new LinkedHashSet<>(ours.keySet());
        keys.addAll(theirs.keySet());
        for (String key : keys) {
            Object our = ours.get(key);
            Object their = theirs.get(key);
            if (our instanceof Message before && their instanceof Message after) {
                differences(before, after, below(at, key), paths);
            } else if (our == null || !our.equals(their)) {
                paths.add(format(below(at, key)));
            }
        }
    }

    private static Map<String, Object> entriesOf(Object field) {
        Map<String, Object> entries = new LinkedHashMap<>();
        for (Object each : (List<?>) field) {
            MapEntry<?, ?> entry = (MapEntry<?, ?>) each;
            entries.put(String.valueOf(entry.getKey()), entry.getValue());
        }
        return Collections.unmodifiableMap(entries);
    }

    private static List<String> below(List<String> at, String segment) {
        List<String> path = new ArrayList<>(at);
        path.add(segment);
        return path;
    }
}
