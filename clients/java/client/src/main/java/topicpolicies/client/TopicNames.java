package topicpolicies.client;

/** Names of topics as Pulsar reads them. They are only brought into one form; the service decides whether they are valid. */
final class TopicNames {
    private static final String PARTITION = "-partition-";

    private TopicNames() {
    }

    /** A topic's full name: with its domain, and without a partition's suffix. */
    static String full(String topic) {
        String name = topic.contains("://") ? topic : "persistent://" + topic;
        int suffix = name.lastIndexOf(PARTITION);
        return suffix >= 0 && isPartition(name.substring(suffix + PARTITION.length())) ? name.substring(0, suffix) : name;
    }

    /** Whether Pulsar reads a text as a partition's number: digits of any script, without a sign or a leading zero. */
    private static boolean isPartition(String number) {
        try {
            int index = Integer.parseInt(number);
            return index >= 0 && String.valueOf(index).length() == number.length();
        } catch (NumberFormatException e) {
            return false;
        }
    }

    /** The {@code tenant/namespace} of a topic's name, with or without its domain. */
    static String namespaceOf(String topic) {
        String[] parts = topic.substring(topic.indexOf("://") < 0 ? 0 : topic.indexOf("://") + 3).split("/", 3);
        return parts.length < 2 ? topic : parts[0] + "/" + parts[1];
    }
}
