package topicpolicies.broker;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import topicpolicies.client.PolicyCache;
import topicpolicies.client.TopicPoliciesClient;

/** The copies of namespaces that a broker keeps. */
@Timeout(600)
final class NamespaceCachesTest {
    @Test
    void aCopyWhoseWatchHasEndedIsReplaced() throws Exception {
        try (FakeSidecar sidecar = new FakeSidecar();
                TopicPoliciesClient client = TopicPoliciesClient.builder(sidecar.target()).build()) {
            NamespaceCaches caches = new NamespaceCaches(client, change -> { });
            PolicyCache first = caches.of("public/default");
            first.whenSynced().get(120, TimeUnit.SECONDS);
            assertSame(first, caches.of("public/default"));
            first.close();
            while (!first.isEnded()) {
                TimeUnit.MILLISECONDS.sleep(5);
            }
            PolicyCache second = caches.of("public/default");
            assertNotSame(first, second);
            second.whenSynced().get(120, TimeUnit.SECONDS);
            assertTrue(second.isSynced());
            assertFalse(second.isEnded());
        }
    }
}
