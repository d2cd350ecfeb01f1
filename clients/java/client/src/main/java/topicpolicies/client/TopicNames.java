package topicpolicies.client;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Names of topics as Pulsar reads them. The service judges whether they are valid; here they are only brought into one form. */
final class TopicNames {
    /** What {@code TopicName.getPartitionIndex} takes for a partition: canonical digits. */
    private static final Pattern PARTITION = Pattern.compile("-partition-(0|[1-9][0-9]{0,9})$");

    private TopicNames() {
    }

    /** A topic's full name: with its domain, and without a partition's suffix. */
    static String full(String topic) {
        String name = topic.contains("://") ? topic : "persistent://" + topic;
        Matcher suffix = PARTITION.matcher(name);
        return suffix.find() && Long.parseLong(suffix.group(1)) <= Integer.MAX_VALUE ? name.substring(0, suffix.start()) : name;
    }

    /** {@code tenant/namespace} of a topic's name, with or without its domain. */
    static String namespaceOf(String topic) {
        String[] parts = topic.substring(topic.indexOf("://") < 0 ? 0 : topic.indexOf("://") + 3).split("/", 3);
        return parts.length < 2 ? topic : parts[0] + "/" + parts[1];
    }
}
