package topicpolicies.client;

import java.util.ArrayList;
import java.util.List;

/**
 * A place in the change log of one namespace. It is opaque, except that the positions of one partition compare as strings in log order.
 *
 * @param log the log's identity; places in different logs can't be compared
 * @param positions the position per partition; empty where nothing was read
 * @param leftOut identifies the topics that were left out because their policies are disabled; empty if there were none
 */
public record WatchToken(String log, List<String> positions, String leftOut) {
    /** The maximum number of positions of a token. */
    private static final int MOST_PARTITIONS = 1024;

    /** Copies the positions. */
    public WatchToken {
        positions = List.copyOf(positions);
    }

    static WatchToken of(topicpolicies.v1.WatchToken message) {
        return new WatchToken(message.getLog(), message.getPositionsList(), message.getLeftOut());
    }

    topicpolicies.v1.WatchToken message() {
        return topicpolicies.v1.WatchToken.newBuilder().setLog(log).addAllPositions(positions).setLeftOut(leftOut).build();
    }

    /** The position in a partition; empty if nothing was read there. */
    String at(int partition) {
        return partition >= 0 && partition < positions.size() ? positions.get(partition) : "";
    }

    /** Returns the token after an event at this position: the greater of the two positions is kept. */
    WatchToken folded(int partition, String position) {
        if (partition < 0 || partition >= MOST_PARTITIONS || !LogOrder.isAfter(position, at(partition))) {
            return this;
        }
        List<String> folded = new ArrayList<>(positions);
        while (folded.size() <= partition) {
            folded.add("");
        }
        folded.set(partition, position);
        return new WatchToken(log, folded, leftOut);
    }
}
