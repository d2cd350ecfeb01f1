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
 * Decides which topics have topic policies.
 *
 * <p>System topics and the brokers' heartbeat topics have none: the sidecar's own log may be such a topic, and loading it must not wait for
 * the sidecar that reads it. Topics whose policies are disabled by the property {@value #DISABLED} have none either, and their load does
 * not wait. The property of the partitioned topic counts, else that of the namespace; values other than true and false are ignored.
 */
final class Applicability {
    static final String DISABLED = "__topic_policies_disabled";

    private final PulsarService pulsar;

    Applicability(PulsarService pulsar) {
        this.pulsar = pulsar;
    }

    /** Whether a topic never has policies, whatever is set. */
    boolean never(TopicName topic) {
        return SystemTopicNames.isSystemTopic(topic) || NamespaceService.isHeartbeatNamespace(topic.getNamespaceObject());
    }

    /** Whether the policies of a topic are enabled, according to the properties. Metadata that can't be read disables nothing. */
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

    /** Whether a namespace is being deleted, so that changes in it no longer matter. */
    CompletableFuture<Boolean> goingAway(NamespaceName namespace) {
        return pulsar.getPulsarResources().getNamespaceResources().getPoliciesAsync(namespace)
                .thenApply(policies -> policies.isPresent() && policies.get().deleted);
    }

    private static Optional<Boolean> disabled(Map<String, String> properties) {
        String value = properties == null ? null : properties.get(DISABLED);
        return "true".equals(value) || "false".equals(value) ? Optional.of("true".equals(value)) : Optional.empty();
    }
}
