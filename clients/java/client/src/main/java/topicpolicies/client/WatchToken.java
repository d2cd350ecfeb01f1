package topicpolicies.client;

import java.util.ArrayList;
import java.util.List;

/**
 * A place in one namespace's change log. Opaque but for one thing: of one partition, string order is log order.
 *
 * @param log the log's identity; places of different logs have nothing to do with each other
 * @param positions the position per partition; empty where nothing was read
 */
public record WatchToken(String log, List<String> positions) {
    /** Copies the positions. */
    public WatchToken {
        positions = List.copyOf(positions);
    }

    static WatchToken of(topicpolicies.v1.WatchToken message) {
        return new WatchToken(message.getLog(), message.getPositionsList());
    }

    topicpolicies.v1.WatchToken message() {
        return topicpolicies.v1.WatchToken.newBuilder().setLog(log).addAllPositions(positions).build();
    }

    /** The position in a partition; empty if nothing was read there. */
    String at(int partition) {
        return partition < positions.size() ? positions.get(partition) : "";
    }

    /** The token after a change at this position: the greater of the two counts. */
    WatchToken folded(int partition, String position) {
        if (position.compareTo(at(partition)) <= 0) {
            return this;
        }
        List<String> folded = new ArrayList<>(positions);
        while (folded.size() <= partition) {
            folded.add("");
        }
        folded.set(partition, position);
        return new WatchToken(log, folded);
    }
}
