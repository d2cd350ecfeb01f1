package topicpolicies.client;

import java.time.Duration;
import java.time.Instant;
import java.util.Collection;
import java.util.Optional;
import topicpolicies.v1.HistoryOrder;
import topicpolicies.v1.ListHistoryRequest;

/** A selection of a part of the history. To copy the history, watch it in the mode {@link WatchMode#ENTRIES}. Immutable. */
public final class HistoryQuery {
    private final ListHistoryRequest message;
    private final Optional<Duration> timeout;

    private HistoryQuery(Builder builder) {
        this.message = builder.message.build();
        this.timeout = builder.timeout;
    }

    /** The history of one topic. */
    public static Builder ofTopic(String topic) {
        return new Builder(ListHistoryRequest.newBuilder().setTopic(topic));
    }

    /** The history of a namespace, {@code tenant/namespace}. */
    public static Builder ofNamespace(String namespace) {
        return new Builder(ListHistoryRequest.newBuilder().setNamespace(namespace));
    }

    Optional<Duration> timeout() {
        return timeout;
    }

    ListHistoryRequest page(String pageToken) {
        return message.toBuilder().setPageToken(pageToken).build();
    }

    /** Builds a query. */
    public static final class Builder {
        private final ListHistoryRequest.Builder message;
        private Optional<Duration> timeout = Optional.empty();

        private Builder(ListHistoryRequest.Builder message) {
            this.message = message;
        }

        /** Selects scopes; by default both. */
        public Builder scopes(Collection<Scope> value) {
            message.clearScopes().addAllScopes(Scope.messages(value));
            return this;
        }

        /** Selects events at this time or later. */
        public Builder startTime(Instant value) {
            message.setStartTime(Times.message(value));
            return this;
        }

        /** Selects events before this time. */
        public Builder endTime(Instant value) {
            message.setEndTime(Times.message(value));
            return this;
        }

        /** Selects events of this actor; an empty name selects the events that have no actor. */
        public Builder actor(String value) {
            message.setActor(value);
            return this;
        }

        /** Lists the first event first; by default the last one. */
        public Builder oldestFirst() {
            message.setOrder(HistoryOrder.HISTORY_ORDER_OLDEST_FIRST);
            return this;
        }

        /** Sets how many events are fetched at once; by default the service decides. */
        public Builder pageSize(int value) {
            message.setPageSize(value);
            return this;
        }

        /** Sets how long fetching one page may take. */
        public Builder timeout(Duration value) {
            timeout = Optional.of(ClientOptions.positive(value));
            return this;
        }

        /** Builds the query. */
        public HistoryQuery build() {
            return new HistoryQuery(this);
        }
    }
}
