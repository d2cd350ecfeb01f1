package topicpolicies.broker;

import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.namespace.NamespaceService;
import org.apache.pulsar.broker.resources.NamespaceResources;
import org.apache.pulsar.common.naming.NamespaceName;
import org.apache.pulsar.common.naming.SystemTopicNames;
import org.apache.pulsar.common.naming.TopicName;

/**
 * Which topics have policies at all.
 *
 * <p>System topics and the brokers' heartbeat have none: the sidecar's own log may be such a topic, and its load must not wait for the
 * sidecar that reads it. Topics whose policies are switched off by the property {@value #DISABLED} (of the partitioned topic, else of the
 * namespace; anything but true and false is ignored) have none either, and do not wait.
 */
final class Applicability {
    static final String DISABLED = "__topic_policies_disabled";

    private final PulsarService pulsar;

    Applicability(PulsarService pulsar) {
        this.pulsar = pulsar;
    }

    /** Whether a topic never has policies, whatever anybody sets. */
    boolean never(TopicName topic) {
        return SystemTopicNames.isSystemTopic(topic) || NamespaceService.isHeartbeatNamespace(topic.getNamespaceObject());
    }

    /** Whether the policies of a topic count, by the properties. Metadata that can't be read switches nothing off. */
    CompletableFuture<Boolean> enabled(TopicName topic) {
        NamespaceResources namespaces = pulsar.getPulsarResources().getNamespaceResources();
        return namespaces.getPartitionedTopicResources().getPartitionedTopicMetadataAsync(topic)
                .thenApply(metadata -> metadata.flatMap(each -> disabled(each.properties)))
                .thenCompose(own -> own.isPresent()
                        ? CompletableFuture.completedFuture(own)
                        : namespaces.getPoliciesAsync(topic.getNamespaceObject())
                                .thenApply(policies -> policies.flatMap(each -> disabled(each.properties))))
                .handle((disabled, error) -> error != null || !disabled.orElse(false));
    }

    /** Whether a namespace is being deleted: what is set there now is for nobody. */
    CompletableFuture<Boolean> goingAway(NamespaceName namespace) {
        return pulsar.getPulsarResources().getNamespaceResources().getPoliciesAsync(namespace)
                .thenApply(policies -> policies.isPresent() && policies.get().deleted);
    }

    private static Optional<Boolean> disabled(Map<String, String> properties) {
        String value = properties == null ? null : properties.get(DISABLED);
        return "true".equals(value) || "false".equals(value) ? Optional.of("true".equals(value)) : Optional.empty();
    }
}
