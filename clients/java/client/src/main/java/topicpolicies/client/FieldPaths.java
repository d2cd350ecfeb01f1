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
 * The paths of field masks (AIP-161), and the mask that leads from one message to another.
 *
 * <p>A path names a field, a field of an object ({@code retention_policies.retention_time_in_minutes}) or an entry of a map ({@code
 * subscription_policies.`my-sub`.dispatch_rate}). A segment between backticks may contain any characters; a backtick in it is doubled.
 */
public final class FieldPaths {
    private static final Pattern PLAIN = Pattern.compile("[A-Za-z0-9_]+");

    private FieldPaths() {
    }

    /** The text of a path: segments of other characters than letters, digits and _ get backticks; no segments name the whole document. */
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

    /** The text of a path; see {@link #format(List)}. */
    public static String format(String... segments) {
        return format(List.of(segments));
    }

    /**
     * The paths of what differs between two messages of one type: {@code before} with these fields of {@code after} is {@code after}.
     *
     * <p>Objects that are in both are compared leaf by leaf, maps entry by entry, lists as a whole. Fields that these stubs do not know are
     * not compared. Without a difference there are no paths; such a mask must not be sent, because an empty one means something else (the
     * fields that are set).
     */
    public static List<String> between(Message before, Message after) {
        List<String> paths = new ArrayList<>();
        differences(before, after, List.of(), paths);
        return paths;
    }

    /** Whether a path of the one list names something that a path of the other names too, the whole of it or a part. */
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
