package topicpolicies.broker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.pulsar.broker.service.BrokerServiceException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import topicpolicies.client.ClientOptions;
import topicpolicies.client.Scope;
import topicpolicies.client.TopicPoliciesClient;

/** The updates of one topic. */
@Timeout(60)
final class UpdateChainTest {
    @Test
    void anUpdateThatCanNotBeSentFailsAndTheNextOneIsSent() throws Exception {
        try (FakeSidecar sidecar = new FakeSidecar();
                TopicPoliciesClient client = TopicPoliciesClient.open(ClientOptions.of(sidecar.target()).build())) {
            AtomicInteger asked = new AtomicInteger();
            UpdateChain chain = new UpdateChain(client, "persistent://public/default/orders", Scope.LOCAL, () -> {
                if (asked.getAndIncrement() == 0) {
                    throw new IllegalStateException("the copy fails");
                }
                return Optional.empty();
            }, result -> { }, () -> { });
            CompletableFuture<Void> first = chain.add(policies -> policies.setMaxProducerPerTopic(1), false);
            chain.start();
            ExecutionException failure = assertThrows(ExecutionException.class, () -> first.get(20, TimeUnit.SECONDS));
            assertInstanceOf(BrokerServiceException.class, failure.getCause());
            CompletableFuture<Void> second = chain.add(policies -> policies.setMaxProducerPerTopic(2), false);
            chain.start();
            second.get(20, TimeUnit.SECONDS);
            assertEquals(1, sidecar.updates.size());
            while (!chain.idle()) {
                TimeUnit.MILLISECONDS.sleep(5);
            }
            assertTrue(chain.idle());
        }
    }
}
