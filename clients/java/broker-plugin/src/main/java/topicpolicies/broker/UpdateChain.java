package topicpolicies.broker;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.pulsar.broker.service.BrokerServiceException;
import org.apache.pulsar.common.policies.data.TopicPolicies;
import topicpolicies.client.Document;
import topicpolicies.client.Edit;
import topicpolicies.client.Scope;
import topicpolicies.client.TopicPoliciesClient;
import topicpolicies.client.TopicPoliciesException;
import topicpolicies.client.UpdateResult;

/**
 * The broker's updates of one topic in one scope, in order.
 *
 * <p>While one request is on its way, further updates wait, and then go together: their closures run one after the other on one copy, and
 * the difference is sent as one mask with the copy's version as the etag. If somebody else was faster, all of it runs again on what they
 * wrote. A closure that throws fails alone, and so does one that the sidecar refuses: a refused group is sent again one by one.
 */
final class UpdateChain {
    private final TopicPoliciesClient client;
    private final String topic;
    private final Scope scope;
    private final Supplier<Optional<Document>> known;
    private final Consumer<UpdateResult> onResult;
    private final Runnable onIdle;
    private final List<Waiting> waiting = new ArrayList<>();
    private boolean running;

    /** One update. */
    private static final class Waiting {
        private final Consumer<TopicPolicies> closure;
        private final boolean skipIfAbsent;
        private final CompletableFuture<Void> done = new CompletableFuture<>();
        /** Why the closure threw on the last copy; null if it did not. */
        private volatile Throwable thrown;

        Waiting(Consumer<TopicPolicies> closure, boolean skipIfAbsent) {
            this.closure = closure;
            this.skipIfAbsent = skipIfAbsent;
        }
    }

    /**
     * A chain without updates.
     *
     * @param client sends them
     * @param topic the topic's full name
     * @param scope in which clusters
     * @param known the newest document that is known here, to begin with
     * @param onResult is told of each request's result before its updates complete
     * @param onIdle is called when nothing waits any more; updates may be added again afterwards
     */
    UpdateChain(TopicPoliciesClient client, String topic, Scope scope, Supplier<Optional<Document>> known,
                Consumer<UpdateResult> onResult, Runnable onIdle) {
        this.client = client;
        this.topic = topic;
        this.scope = scope;
        this.known = known;
        this.onResult = onResult;
        this.onIdle = onIdle;
    }

    /**
     * Adds an update, without sending it: {@link #start} does.
     *
     * @return completes when it is in the log and readable here
     */
    synchronized CompletableFuture<Void> add(Consumer<TopicPolicies> closure, boolean skipIfAbsent) {
        Waiting one = new Waiting(closure, skipIfAbsent);
        waiting.add(one);
        return one.done;
    }

    /** Sends what waits, unless a request is on its way, after which it is sent anyhow. */
    void start() {
        synchronized (this) {
            if (running) {
                return;
            }
            running = true;
        }
        next();
    }

    /** Fails what waits: nothing will be sent any more. */
    void abandon() {
        List<Waiting> all;
        synchronized (this) {
            all = List.copyOf(waiting);
            waiting.clear();
        }
        settle(all, () -> new BrokerServiceException("The topic policies service is closed."));
    }

    /** Whether nothing is waiting or on its way. */
    synchronized boolean idle() {
        return !running && waiting.isEmpty();
    }

    private void next() {
        List<Waiting> group = new ArrayList<>();
        synchronized (this) {
            while (!waiting.isEmpty() && (group.isEmpty() || waiting.get(0).skipIfAbsent == group.get(0).skipIfAbsent)) {
                group.add(waiting.remove(0));
            }
            running = !group.isEmpty();
        }
        if (group.isEmpty()) {
            onIdle.run();
        } else {
            send(group).whenComplete((nothing, error) -> next());
        }
    }

    /** Sends a group. The future never fails: what became of each update is told to it alone. */
    private CompletableFuture<Void> send(List<Waiting> group) {
        Edit.Builder edit = Edit.of(topic, document -> run(group, document)).scope(scope).insistent();
        if (group.get(0).skipIfAbsent) {
            edit.skipIfAbsent();
        }
        known.get().ifPresent(edit::start);
        return client.editAsync(edit.build()).thenAccept(result -> {
            onResult.accept(result);
            settle(group, () -> null);
        }).exceptionallyCompose(failure -> {
            TopicPoliciesException error = TopicPoliciesException.of(failure);
            if (group.size() == 1 || !Refusals.refused(error)) {
                settle(group, () -> Refusals.forBroker(error));
                return CompletableFuture.completedFuture(null);
            }
            CompletableFuture<Void> one = CompletableFuture.completedFuture(null);
            for (Waiting each : group) {
                one = one.thenCompose(nothing -> send(List.of(each)));
            }
            return one;
        });
    }

    /** {@code error} makes one for each: a RestException is a response, which the broker can send only once. */
    private static void settle(List<Waiting> group, Supplier<Throwable> error) {
        for (Waiting each : group) {
            Throwable own = each.thrown == null ? error.get() : each.thrown;
            if (own == null) {
                each.done.complete(null);
            } else {
                each.done.completeExceptionally(own);
            }
        }
    }

    /** Runs the closures on a copy and puts what they changed into the document; what Pulsar's classes can't hold stays. */
    private void run(List<Waiting> group, topicpolicies.v1.TopicPolicies.Builder document) {
        boolean global = scope == Scope.GLOBAL;
        TopicPolicies copy = PolicyConversion.toPulsar(document, global);
        topicpolicies.v1.TopicPolicies before = PolicyConversion.fromPulsar(copy);
        topicpolicies.v1.TopicPolicies after = before;
        for (Waiting each : group) {
            each.thrown = null;
            try {
                each.closure.accept(copy);
                after = PolicyConversion.fromPulsar(copy);
            } catch (Throwable error) {
                each.thrown = error;
                copy = PolicyConversion.toPulsar(after, global);
            }
        }
        PolicyConversion.replaceDifferences(document, before, after);
    }
}
