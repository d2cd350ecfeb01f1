package topicpolicies.broker;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import org.apache.pulsar.broker.service.BrokerServiceException;
import org.apache.pulsar.common.policies.data.TopicPolicies;
import topicpolicies.client.TopicPoliciesException;

/**
 * The broker's updates of one topic in one scope, in order.
 *
 * <p>While a request is in flight, further updates wait, and are then sent as one group: their closures run one after the other on one
 * copy, and the difference is sent as one {@link Edit}. A closure that throws fails alone. If the sidecar refuses a group, its updates are
 * sent again one by one, so that only the wrong one fails.
 */
final class UpdateChain {
    /** Makes a change of the chain's document; see {@link Edit}. */
    interface Editor {
        CompletableFuture<Void> edit(boolean skipIfAbsent, UnaryOperator<TopicPolicies> change);
    }

    private final boolean global;
    private final Editor editor;
    private final Runnable onIdle;
    private final List<Waiting> waiting = new ArrayList<>();
    private boolean running;

    /** One update. */
    private static final class Waiting {
        private final Consumer<TopicPolicies> closure;
        private final boolean skipIfAbsent;
        private final CompletableFuture<Void> done = new CompletableFuture<>();
        /** What the closure threw on the last copy; null if it did not throw. */
        private volatile Throwable thrown;

        Waiting(Consumer<TopicPolicies> closure, boolean skipIfAbsent) {
            this.closure = closure;
            this.skipIfAbsent = skipIfAbsent;
        }
    }

    /** Creates a chain without updates. {@code onIdle} is called when none wait any more; updates may be added again afterwards. */
    UpdateChain(boolean global, Editor editor, Runnable onIdle) {
        this.global = global;
        this.editor = editor;
        this.onIdle = onIdle;
    }

    /**
     * Adds an update without sending it; {@link #start} sends it.
     *
     * @return completes when the update is in the log and visible to reads here
     */
    synchronized CompletableFuture<Void> add(Consumer<TopicPolicies> closure, boolean skipIfAbsent) {
        Waiting one = new Waiting(closure, skipIfAbsent);
        waiting.add(one);
        return one.done;
    }

    /** Sends the waiting updates, unless a request is in flight; then they are sent after it anyway. */
    void start() {
        synchronized (this) {
            if (running) {
                return;
            }
            running = true;
        }
        next();
    }

    /** Fails the waiting updates: nothing will be sent any more. */
    void abandon() {
        List<Waiting> all;
        synchronized (this) {
            all = List.copyOf(waiting);
            waiting.clear();
        }
        settle(all, () -> new BrokerServiceException("The topic policies service is closed."));
    }

    /** Whether no update is waiting or in flight. */
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
            begin(group).whenComplete((nothing, error) -> next());
        }
    }

    /** Sends a group. If that throws, the group fails, and the updates behind it go on. */
    private CompletableFuture<Void> begin(List<Waiting> group) {
        try {
            return send(group);
        } catch (RuntimeException unexpected) {
            settle(group, () -> new BrokerServiceException(unexpected));
            return CompletableFuture.completedFuture(null);
        }
    }

    /** Sends a group. The future never fails; each update gets its own result. */
    private CompletableFuture<Void> send(List<Waiting> group) {
        return editor.edit(group.get(0).skipIfAbsent, copy -> run(group, copy)).thenAccept(nothing -> settle(group, () -> null))
                .exceptionallyCompose(failure -> {
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

    /**
     * Completes the updates of a group. {@code error} creates an exception for each one: a RestException is a response, which the broker
     * can send only once.
     */
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

    /** Runs the closures on a copy. A closure that throws leaves no trace in the result. */
    private TopicPolicies run(List<Waiting> group, TopicPolicies first) {
        TopicPolicies copy = first;
        topicpolicies.v1.TopicPolicies after = PolicyConversion.fromPulsar(copy);
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
        return copy;
    }
}
