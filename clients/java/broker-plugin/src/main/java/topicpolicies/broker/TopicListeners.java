package topicpolicies.broker;

import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.RejectedExecutionException;
import org.apache.pulsar.broker.service.BrokerService;
import org.apache.pulsar.broker.service.TopicPolicyListener;
import org.apache.pulsar.common.naming.TopicName;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import topicpolicies.client.PolicyCache;
import topicpolicies.v1.PolicyDocument;
import topicpolicies.v1.Scope;

/** The policy listeners of the loaded topics. They are called in order, on the broker's notification thread of the topic. */
final class TopicListeners {
    private static final Logger LOG = LoggerFactory.getLogger(TopicListeners.class);

    private final BrokerService broker;
    private final ConcurrentHashMap<TopicName, List<TopicPolicyListener>> listeners = new ConcurrentHashMap<>();

    TopicListeners(BrokerService broker) {
        this.broker = broker;
    }

    void add(TopicName topic, TopicPolicyListener listener) {
        listeners.computeIfAbsent(topic, name -> new CopyOnWriteArrayList<>()).add(listener);
    }

    void remove(TopicName topic, TopicPolicyListener listener) {
        listeners.computeIfPresent(topic, (name, known) -> {
            known.remove(listener);
            return known.isEmpty() ? null : known;
        });
    }

    void clear() {
        listeners.clear();
    }

    /** Whether a topic of this namespace is loaded here. */
    boolean anyIn(String namespace) {
        return listeners.keySet().stream().anyMatch(topic -> topic.getNamespace().equals(namespace));
    }

    /** Calls all listeners of a topic with its changed document. */
    void call(PolicyCache.Change change) {
        TopicName topic = TopicName.get(change.topic());
        if (listeners.containsKey(topic)) {
            onItsThread(topic, () -> listeners.getOrDefault(topic, List.of())
                    .forEach(listener -> call(topic, listener, change.scope(), change.after().orElse(PolicyDocument.getDefaultInstance()))));
        }
    }

    /** Calls one listener with an existing document. */
    void call(TopicName topic, TopicPolicyListener listener, PolicyDocument document) {
        onItsThread(topic, () -> call(topic, listener, document.getScope(), document));
    }

    private void onItsThread(TopicName topic, Runnable task) {
        try {
            broker.getTopicPoliciesNotifyThread(topic).execute(task);
        } catch (RejectedExecutionException error) {
            LOG.debug("[{}] The broker is shutting down; a listener was not called with a change", topic);
        }
    }

    /** A loaded topic ignores null (PersistentTopic.onUpdate), so an absent document is passed as one with nothing set. */
    private static void call(TopicName topic, TopicPolicyListener listener, Scope scope, PolicyDocument document) {
        try {
            listener.onUpdate(PolicyConversion.toPulsar(document.getPolicies(), scope == Scope.SCOPE_GLOBAL));
        } catch (Throwable error) {
            LOG.error("[{}] A listener of topic policies failed", topic, error);
        }
    }
}
