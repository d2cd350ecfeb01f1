package topicpolicies.client;

import java.time.Duration;
import java.util.Collection;
import java.util.Optional;
import topicpolicies.v1.ListPoliciesRequest;

/** A selection of the documents of a namespace to list. Immutable. */
public final class Listing {
    private final ListPoliciesRequest message;
    private final Optional<Duration> timeout;

    private Listing(Builder builder) {
        this.message = builder.message.build();
        this.timeout = builder.timeout;
    }

    /** All documents of a namespace, {@code tenant/namespace}. */
    public static Builder of(String namespace) {
        return new Builder(namespace);
    }

    String namespace() {
        return message.getNamespace();
    }

    Optional<Duration> timeout() {
        return timeout;
    }

    ListPoliciesRequest page(String pageToken) {
        return message.toBuilder().setPageToken(pageToken).build();
    }

    /** Builds a listing. */
    public static final class Builder {
        private final ListPoliciesRequest.Builder message = ListPoliciesRequest.newBuilder();
        private Optional<Duration> timeout = Optional.empty();

        private Builder(String namespace) {
            message.setNamespace(namespace);
        }

        /** Selects scopes; by default both. */
        public Builder scopes(Collection<Scope> value) {
            message.clearScopes().addAllScopes(Scope.messages(value));
            return this;
        }

        /** Sets how many documents are fetched at once; by default the service decides. */
        public Builder pageSize(int value) {
            message.setPageSize(value);
            return this;
        }

        /** Sets how long fetching one page may take. */
        public Builder timeout(Duration value) {
            timeout = Optional.of(ClientOptions.positive(value));
            return this;
        }

        /** Builds the listing. */
        public Listing build() {
            return new Listing(this);
        }
    }
}
