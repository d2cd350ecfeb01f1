package topicpolicies.broker;

import com.google.protobuf.FieldMask;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.UnaryOperator;
import org.apache.pulsar.common.policies.data.TopicPolicies;
import topicpolicies.client.Masks;
import topicpolicies.client.PreconditionFailedException;
import topicpolicies.client.TopicPoliciesClient;
import topicpolicies.client.TopicPoliciesException;
import topicpolicies.v1.GetPolicyRequest;
import topicpolicies.v1.PolicyDocument;
import topicpolicies.v1.Precondition;
import topicpolicies.v1.Scope;
import topicpolicies.v1.UpdatePolicyRequest;

/**
 * A change of one document by a function, such as closures of the broker: it runs on a copy of the document, and what differs is sent as a
 * mask, with the document's version as the precondition. If another writer was faster, it runs again on the new document. Settings that
 * Pulsar's classes can't hold are in no copy, so they stay.
 *
 * <p>A change that came out the same on several documents in a row does not depend on what others change. It is then sent without a
 * precondition, so that a writer that never pauses can't delay it forever.
 */
final class Edit {
    private static final int SAME = 4;
    private static final long LONGEST_PAUSE_MILLIS = 500;

    private final TopicPoliciesClient client;
    private final String topic;
    private final Scope scope;
    private final boolean skipIfAbsent;
    private final UnaryOperator<TopicPolicies> change;
    private final Repeats repeats;
    private FieldMask mask = FieldMask.getDefaultInstance();
    private topicpolicies.v1.TopicPolicies values = topicpolicies.v1.TopicPolicies.getDefaultInstance();
    private int same;
    private int runs;

    /** {@code change} gets a copy, and returns it or another one; it may be called several times. */
    Edit(TopicPoliciesClient client, String topic, Scope scope, boolean skipIfAbsent, UnaryOperator<TopicPolicies> change, Repeats repeats) {
        this.client = client;
        this.topic = topic;
        this.scope = scope;
        this.skipIfAbsent = skipIfAbsent;
        this.change = change;
        this.repeats = repeats;
    }

    /** How often the change was computed again because another writer was faster. */
    int conflicts() {
        return Math.max(runs - 1, 0);
    }

    /**
     * Makes the change; {@code known} is the document to start from, which is read if it is empty. Returns the document after the change,
     * or an empty one if that is not known; fails with {@link TopicPoliciesException} or what the change threw.
     */
    CompletableFuture<Optional<PolicyDocument>> on(Optional<PolicyDocument> known) {
        return known.map(this::send).orElseGet(() -> read(""));
    }

    private CompletableFuture<Optional<PolicyDocument>> read(String atLeastVersion) {
        GetPolicyRequest request = GetPolicyRequest.newBuilder().setTopic(topic).setScope(scope).setAtLeastVersion(atLeastVersion).build();
        return repeats.of(left -> client.getAsync(request, left)).thenCompose(this::send);
    }

    private CompletableFuture<Optional<PolicyDocument>> send(PolicyDocument document) {
        if (skipIfAbsent && !document.hasPolicies()) {
            return CompletableFuture.completedFuture(Optional.of(document));
        }
        runs++;
        boolean global = scope == Scope.SCOPE_GLOBAL;
        TopicPolicies copy = PolicyConversion.toPulsar(document.getPolicies(), global);
        topicpolicies.v1.TopicPolicies before = PolicyConversion.fromPulsar(copy);
        topicpolicies.v1.TopicPolicies after = PolicyConversion.fromPulsar(change.apply(copy));
        FieldMask difference = Masks.difference(before, after);
        if (difference.getPathsCount() == 0) {
            return CompletableFuture.completedFuture(Optional.of(document));
        }
        UpdatePolicyRequest.Builder request = UpdatePolicyRequest.newBuilder().setTopic(topic).setScope(scope).setPolicies(after)
                .setUpdateMask(difference).setSkipIfAbsent(skipIfAbsent).setRequestId(UUID.randomUUID().toString());
        if (cameOutTheSame(difference, after) < SAME) {
            request.setPrecondition(Precondition.newBuilder().setVersion(document.getVersion()));
        }
        return repeats.of(left -> client.updateAsync(request.build(), left))
                .thenApply(result -> result.hasDocument() ? Optional.of(result.getDocument()) : Optional.<PolicyDocument>empty())
                .exceptionallyCompose(failure -> again(TopicPoliciesException.of(failure)));
    }

    private CompletableFuture<Optional<PolicyDocument>> again(TopicPoliciesException error) {
        long longest = Math.min(10L << Math.min(runs - 1, 6), LONGEST_PAUSE_MILLIS);
        long pause = ThreadLocalRandom.current().nextLong(longest / 2, longest + 1);
        if (!(error instanceof PreconditionFailedException conflict) || !repeats.allows(pause)) {
            return CompletableFuture.failedFuture(error);
        }
        return repeats.after(pause, () -> read(conflict.version()));
    }

    /** How often in a row the same mask has come out with the same values, this time included. */
    private int cameOutTheSame(FieldMask difference, topicpolicies.v1.TopicPolicies after) {
        boolean again = difference.equals(mask) && Masks.difference(values, after).getPathsList().stream().noneMatch(other ->
                difference.getPathsList().stream().anyMatch(one -> (one + ".").startsWith(other + ".") || (other + ".").startsWith(one + ".")));
        same = again ? same + 1 : 1;
        mask = difference;
        values = after;
        return same;
    }
}
