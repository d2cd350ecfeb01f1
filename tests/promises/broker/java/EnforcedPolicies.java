import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.instrument.Instrumentation;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.PulsarStandalone;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.service.AbstractTopic;
import org.apache.pulsar.broker.service.persistent.PersistentTopic;
import org.apache.pulsar.common.naming.TopicName;
import org.apache.pulsar.common.policies.data.PolicyHierarchyValue;

/**
 * Tells what a running broker enforces on its topics: an agent that is attached to it, writes one JSON document and leaves it alone.
 *
 * <p>Arguments: the file to write, then topics, separated by commas. The broker is found by way of the shutdown hook that it registers.
 */
public final class EnforcedPolicies {
    private static final ObjectMapper JSON = new ObjectMapper();

    private EnforcedPolicies() {
    }

    public static void agentmain(String arguments, Instrumentation instrumentation) throws Exception {
        String[] parts = arguments.split(",");
        Map<String, Object> told = new LinkedHashMap<>();
        try {
            PulsarService broker = broker();
            for (int i = 1; i < parts.length; i++) {
                told.put(parts[i], enforced(broker, parts[i]));
            }
        } catch (Throwable problem) {
            told.put("problem", problem.toString());
        }
        Path made = Files.createTempFile(Path.of(parts[0]).getParent(), "told", ".json");
        Files.writeString(made, JSON.writeValueAsString(told));
        Files.move(made, Path.of(parts[0]));
    }

    private static PulsarService broker() throws Exception {
        Class<?> hooks = Class.forName("java.lang.ApplicationShutdownHooks");
        for (Object hook : ((Map<?, ?>) field(hooks, "hooks").get(null)).keySet()) {
            Object task = task(hook);
            if (task == null) {
                continue;
            }
            for (Field captured : task.getClass().getDeclaredFields()) {
                if (PulsarStandalone.class.isAssignableFrom(captured.getType())) {
                    captured.setAccessible(true);
                    return (PulsarService) field(PulsarStandalone.class, "broker").get(captured.get(task));
                }
            }
        }
        throw new IllegalStateException("no shutdown hook leads to the broker");
    }

    private static Object task(Object thread) throws Exception {
        try {
            return field(Thread.class, "target").get(thread);
        } catch (NoSuchFieldException newer) {
            Object holder = field(Thread.class, "holder").get(thread);
            return field(holder.getClass(), "task").get(holder);
        }
    }

    private static Field field(Class<?> type, String name) throws NoSuchFieldException {
        Field found = type.getDeclaredField(name);
        found.setAccessible(true);
        return found;
    }

    private static Map<String, Object> enforced(PulsarService broker, String name) throws Exception {
        AbstractTopic topic = (AbstractTopic) broker.getBrokerService().getTopicReference(name).orElseThrow();
        Map<String, Object> told = new LinkedHashMap<>();
        Object hierarchy = topic.getHierarchyTopicPolicies();
        for (Field each : hierarchy.getClass().getDeclaredFields()) {
            each.setAccessible(true);
            Object value = each.get(hierarchy);
            if (value instanceof PolicyHierarchyValue) {
                told.put(each.getName(), ((PolicyHierarchyValue<?>) value).get());
            } else if (value instanceof Map) {
                Map<String, Object> entries = new LinkedHashMap<>();
                ((Map<?, ?>) value).forEach((kind, entry) -> entries.put(kind.toString(), ((PolicyHierarchyValue<?>) entry).get()));
                told.put(each.getName(), entries);
            }
        }
        told.put("ofSubscription", topic.getSubscriptionDispatchRate("billing"));
        told.put("ofOtherSubscription", topic.getSubscriptionDispatchRate("other"));
        told.put("shadowTopics", field(PersistentTopic.class, "shadowTopics").get(topic));
        var ledger = ((PersistentTopic) topic).getManagedLedger().getConfig();
        Map<String, Object> stored = new LinkedHashMap<>();
        stored.put("bookkeeperEnsemble", ledger.getEnsembleSize());
        stored.put("bookkeeperWriteQuorum", ledger.getWriteQuorumSize());
        stored.put("bookkeeperAckQuorum", ledger.getAckQuorumSize());
        stored.put("managedLedgerMaxMarkDeleteRate", ledger.getThrottleMarkDelete());
        stored.put("managedLedgerStorageClassName", ledger.getStorageClassName());
        told.put("persistence", stored);
        Map<String, Object> kept = new LinkedHashMap<>();
        kept.put("retentionTimeInMinutes", ledger.getRetentionTimeMillis() < 0 ? -1 : ledger.getRetentionTimeMillis() / 60_000);
        kept.put("retentionSizeInMB", ledger.getRetentionSizeInMB());
        told.put("keptByLedger", kept);
        told.put("allowAutoSubscriptionCreation",
                broker.getBrokerService().isAllowAutoSubscriptionCreationAsync(TopicName.get(name)).get(10, TimeUnit.SECONDS));
        return told;
    }
}
