package topicpolicies.broker;

import static java.util.concurrent.CompletableFuture.completedFuture;
import static java.util.concurrent.CompletableFuture.failedFuture;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import javax.ws.rs.core.Response;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.service.BrokerServiceException;
import org.apache.pulsar.broker.service.TopicPoliciesService;
import org.apache.pulsar.broker.service.TopicPolicyListener;
import org.apache.pulsar.broker.web.RestException;
import org.apache.pulsar.common.naming.TopicName;
import org.apache.pulsar.common.policies.data.TopicPolicies;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import topicpolicies.client.PolicyCache;
import topicpolicies.client.TopicPoliciesClient;
import topicpolicies.client.TopicPoliciesException;
import topicpolicies.v1.DeletePolicyRequest;
import topicpolicies.v1.PolicyDocument;
import topicpolicies.v1.Scope;

/**
 * A Pulsar broker's topic policies service that keeps the policies in the sidecar ({@code topicPoliciesServiceClassName} in {@code
 * broker.conf}).
 *
 * <p>Reads are answered from copies of the namespaces in memory, which watches keep up to date; while the sidecar can't be reached, the
 * broker continues with these copies. Loading a topic waits until the copy of its namespace is complete, with a time limit. An update runs
 * the broker's closure on a copy of the document and sends the difference as a field mask, with the document's version as the precondition; if
 * another writer was faster, the closure runs again. The update completes when it is in the sidecar's log and visible to reads on this
 * broker. No method blocks, and the futures complete on the broker's own executor.
 */
public final class SidecarTopicPoliciesService implements TopicPoliciesService {
    private static final Logger LOG = LoggerFactory.getLogger(SidecarTopicPoliciesService.class);
    private static final int THREADS = 4;

    private record Key(TopicName topic, Scope scope) {
    }

    private final ConcurrentHashMap<Key, UpdateChain> chains = new ConcurrentHashMap<>();
    private PulsarService pulsar;
    private PluginSettings settings;
    private Applicability applicability;
    private ExecutorService threads;
    private TopicPoliciesClient client;
    private NamespaceCaches caches;
    private TopicListeners listeners;
    private ScheduledFuture<?> housekeeping;
    private volatile boolean closed;

    @Override
    public void start(PulsarService service) {
        pulsar = service;
        settings = PluginSettings.of(service.getConfiguration().getProperties(), "broker " + service.getAdvertisedAddress());
        applicability = new Applicability(service);
        AtomicInteger count = new AtomicInteger();
        threads = Executors.newFixedThreadPool(THREADS, task -> {
            Thread thread = new Thread(task, "topic-policies-sidecar-" + count.incrementAndGet());
            thread.setDaemon(true);
            thread.setUncaughtExceptionHandler((where, error) -> LOG.error("A task of the topic policies plug-in failed", error));
            return thread;
        });
        client = settings.open(threads);
        listeners = new TopicListeners(service.getBrokerService());
        caches = new NamespaceCaches(client, listeners::call);
        PluginMetrics.show(caches::count, caches::staleness);
        long idle = settings.idle().toMillis();
        housekeeping = service.getExecutor().scheduleWithFixedDelay(() -> caches.dropIdle(settings.idle(), listeners::anyIn),
                idle, Math.max(1000, idle / 4), TimeUnit.MILLISECONDS);
        LOG.info("Topic policies are stored by the sidecar at {}", settings.target());
    }

    @Override
    public void close() {
        closed = true;
        if (housekeeping != null) {
            housekeeping.cancel(false);
        }
        if (listeners != null) {
            listeners.clear();
        }
        if (client != null) {
            client.close();
        }
        if (threads != null) {
            threads.shutdown();
        }
    }

    @Override
    public CompletableFuture<Optional<TopicPolicies>> getTopicPoliciesAsync(TopicName name, GetType type) {
        TopicName topic = base(name);
        if (closed || applicability.never(topic)) {
            return completedFuture(Optional.empty());
        }
        Scope scope = type == GetType.GLOBAL_ONLY ? Scope.SCOPE_GLOBAL : Scope.SCOPE_LOCAL;
        return applicability.enabled(topic).thenCompose(enabled -> enabled
                ? complete(topic).thenApply(cache -> cache.get(topic.toString(), scope)
                        .map(document -> PolicyConversion.toPulsar(document.getPolicies(), scope == Scope.SCOPE_GLOBAL)))
                : completedFuture(Optional.empty()));
    }

    /** Returns the complete copy of a topic's namespace; fails if it is not complete in time. */
    private CompletableFuture<PolicyCache> complete(TopicName topic) {
        PolicyCache cache = caches.of(topic.getNamespace());
        if (cache.isSynced()) {
            return completedFuture(cache);
        }
        CompletableFuture<PolicyCache> waiting = new CompletableFuture<>();
        cache.whenSynced().orTimeout(settings.loadTimeout().toMillis(), TimeUnit.MILLISECONDS).whenComplete((nothing, error) ->
                onTheBroker(() -> {
                    if (error == null) {
                        waiting.complete(cache);
                    } else {
                        String why = cache.lastError().map(last -> ": " + last.getMessage()).orElse("");
                        waiting.completeExceptionally(new BrokerServiceException.ServiceUnitNotReadyException(
                                "The topic policies of " + topic.getNamespace() + " are not known yet: the sidecar at "
                                        + settings.target() + " did not send all of them within " + settings.loadTimeout().toSeconds()
                                        + " s" + why));
                    }
                }));
        return waiting;
    }

    @Override
    public CompletableFuture<Void> updateTopicPoliciesAsync(TopicName name, boolean isGlobalPolicy,
                                                            boolean skipUpdateWhenTopicPolicyDoesntExist,
                                                            Consumer<TopicPolicies> policyUpdater) {
        TopicName topic = base(name);
        if (closed) {
            return failedFuture(new BrokerServiceException("The topic policies service is closed."));
        }
        if (applicability.never(topic)) {
            return failedFuture(new BrokerServiceException.NotAllowedException("The system topic " + topic + " has no topic policies."));
        }
        Key key = new Key(topic, isGlobalPolicy ? Scope.SCOPE_GLOBAL : Scope.SCOPE_LOCAL);
        return onlyIfWanted(topic, () -> append(key, policyUpdater, skipUpdateWhenTopicPolicyDoesntExist));
    }

    /**
     * Makes a change, except in a namespace that is being deleted, where it does nothing. Fails if topic policies are disabled for the
     * topic.
     */
    private CompletableFuture<Void> onlyIfWanted(TopicName topic, Supplier<CompletableFuture<Void>> change) {
        return applicability.goingAway(topic.getNamespaceObject()).thenCompose(goingAway -> goingAway
                ? completedFuture(null)
                : applicability.enabled(topic).thenCompose(enabled -> enabled
                        ? change.get()
                        : failedFuture(new RestException(Response.Status.METHOD_NOT_ALLOWED,
                                "The topic policies of " + topic + " are disabled by the property " + Applicability.DISABLED + "."))));
    }

    private CompletableFuture<Void> append(Key key, Consumer<TopicPolicies> closure, boolean skipIfAbsent) {
        CompletableFuture<Void> appended = new CompletableFuture<>();
        AtomicReference<CompletableFuture<Void>> added = new AtomicReference<>();
        UpdateChain chain = chains.compute(key, (same, known) -> {
            UpdateChain present = known == null ? chain(key) : known;
            added.set(present.add(closure, skipIfAbsent));
            return present;
        });
        added.get().whenComplete((nothing, error) -> {
            if (error != null) {
                PluginMetrics.FAILURES.inc();
            }
            finish(appended, error);
        });
        try {
            threads.execute(chain::start);
        } catch (RejectedExecutionException shuttingDown) {
            chain.abandon();
        }
        return appended;
    }

    private UpdateChain chain(Key key) {
        return new UpdateChain(key.scope() == Scope.SCOPE_GLOBAL, (skipIfAbsent, change) -> edit(key, skipIfAbsent, change),
                () -> chains.computeIfPresent(key, (same, chain) -> chain.idle() ? null : chain));
    }

    private CompletableFuture<Void> edit(Key key, boolean skipIfAbsent, UnaryOperator<TopicPolicies> change) {
        Repeats repeats = new Repeats(settings.requestTimeout(), threads);
        Edit edit = new Edit(client, key.topic().toString(), key.scope(), skipIfAbsent, change, repeats);
        return edit.on(known(key)).whenComplete((document, error) -> PluginMetrics.CONFLICTS.inc(edit.conflicts())).thenAccept(document -> {
            PluginMetrics.UPDATES.inc();
            document.ifPresent(each -> offer(key.topic(), each));
        });
    }

    /**
     * The document that an update starts from. Never an absence: one from before the namespace was deleted and created again has a version
     * that the sidecar would wait for in vain.
     */
    private Optional<PolicyDocument> known(Key key) {
        return Optional.ofNullable(caches.ifOpen(key.topic().getNamespace()))
                .flatMap(cache -> cache.get(key.topic().toString(), key.scope()));
    }

    private void offer(TopicName topic, PolicyDocument document) {
        PolicyCache cache = caches.ifOpen(topic.getNamespace());
        if (cache != null) {
            cache.offer(document);
        }
    }

    @Override
    public CompletableFuture<Void> deleteTopicPoliciesAsync(TopicName name) {
        return deleteTopicPoliciesAsync(name, false);
    }

    @Override
    public CompletableFuture<Void> deleteTopicPoliciesAsync(TopicName name, boolean keepGlobalPoliciesAfterDeleting) {
        TopicName topic = base(name);
        if (applicability.never(topic)) {
            return completedFuture(null);
        }
        if (closed) {
            return failedFuture(new BrokerServiceException("The topic policies service is closed."));
        }
        List<Scope> scopes = keepGlobalPoliciesAfterDeleting ? List.of(Scope.SCOPE_LOCAL) : List.of(Scope.SCOPE_LOCAL, Scope.SCOPE_GLOBAL);
        PolicyCache cache = caches.ifOpen(topic.getNamespace());
        if (cache != null && cache.isSynced() && scopes.stream().allMatch(scope -> cache.get(topic.toString(), scope).isEmpty())) {
            return completedFuture(null); // so that a topic without policies can be deleted even while the sidecar can't be reached
        }
        CompletableFuture<Void> deleted = new CompletableFuture<>();
        Duration limit = settings.requestTimeout();
        Repeats repeats = new Repeats(limit, this::onTheBroker);
        CompletableFuture<?>[] each = scopes.stream().map(scope -> delete(topic, scope, repeats)).toArray(CompletableFuture<?>[]::new);
        CompletableFuture<Void> all = CompletableFuture.allOf(each);
        // A call in flight when this service is closed may never complete.
        all.orTimeout(2 * limit.toMillis(), TimeUnit.MILLISECONDS).whenComplete((nothing, error) -> {
            if (error != null) {
                PluginMetrics.FAILURES.inc();
            }
            finish(deleted, error == null ? null : Refusals.forBroker(TopicPoliciesException.of(error)));
        });
        return deleted;
    }

    /**
     * Deletes one document. If there is none, that succeeds, and also if the namespace is gone. While the sidecar's log is deleted, because
     * it is in the same namespace, a deletion fails temporarily, and is repeated.
     */
    private CompletableFuture<Void> delete(TopicName topic, Scope scope, Repeats repeats) {
        DeletePolicyRequest request = DeletePolicyRequest.newBuilder().setTopic(topic.toString()).setScope(scope)
                .setRequestId(UUID.randomUUID().toString()).build();
        return repeats.of(left -> client.deleteAsync(request, left)).thenAccept(result -> {
            if (result.hasDocument()) {
                offer(topic, result.getDocument());
            }
        }).exceptionallyCompose(failure -> {
            if (!Refusals.gone(TopicPoliciesException.of(failure))) {
                return failedFuture(failure);
            }
            removeFromCopy(topic);
            return completedFuture(null);
        });
    }

    /**
     * Removes the documents of a topic from the copy: they were deleted together with the namespace, and must not reappear when it is
     * created again.
     */
    private void removeFromCopy(TopicName topic) {
        PolicyCache cache = caches.ifOpen(topic.getNamespace());
        if (cache != null) {
            cache.remove(topic.toString());
        }
    }

    @Override
    @Deprecated // by Pulsar, which calls registerListenerAsync
    public boolean registerListener(TopicName name, TopicPolicyListener listener) {
        return !closed && !applicability.never(base(name)) && register(base(name), listener);
    }

    private boolean register(TopicName topic, TopicPolicyListener listener) {
        listeners.add(topic, listener);
        PolicyCache cache = caches.ifOpen(topic.getNamespace());
        if (cache != null) {
            Stream.of(Scope.SCOPE_GLOBAL, Scope.SCOPE_LOCAL).flatMap(scope -> cache.get(topic.toString(), scope).stream())
                    .forEach(document -> listeners.call(topic, listener, document));
        }
        return true;
    }

    @Override
    public CompletableFuture<Boolean> registerListenerAsync(TopicName name, TopicPolicyListener listener) {
        if (closed || applicability.never(base(name))) {
            return completedFuture(false);
        }
        return applicability.enabled(base(name)).thenApply(enabled -> enabled && register(base(name), listener));
    }

    @Override
    public void unregisterListener(TopicName name, TopicPolicyListener listener) {
        if (listeners != null) {
            listeners.remove(base(name), listener);
        }
    }

    private static TopicName base(TopicName name) {
        return TopicName.get(name.getPartitionedTopicName());
    }

    private void finish(CompletableFuture<Void> future, Throwable error) {
        onTheBroker(() -> {
            if (error == null) {
                future.complete(null);
            } else {
                future.completeExceptionally(error);
            }
        });
    }

    /**
     * Runs a task on the broker's executor: the broker's code that depends on a future must not run on the threads that receive the
     * sidecar's answers.
     */
    private void onTheBroker(Runnable task) {
        try {
            pulsar.getExecutor().execute(task);
        } catch (RejectedExecutionException shuttingDown) {
            task.run();
        }
    }
}
