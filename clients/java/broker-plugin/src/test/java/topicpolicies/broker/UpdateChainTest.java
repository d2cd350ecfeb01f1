package topicpolicies.broker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.pulsar.broker.service.BrokerServiceException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The updates of one topic. */
@Timeout(600)
final class UpdateChainTest {
    @Test
    void anUpdateThatCanNotBeSentFailsAndTheNextOneIsSent() throws Exception {
        AtomicInteger edits = new AtomicInteger();
        UpdateChain chain = new UpdateChain(false, (skipIfAbsent, change) -> {
            if (edits.getAndIncrement() == 0) {
                throw new IllegalStateException("the copy fails");
            }
            return CompletableFuture.completedFuture(null);
        }, () -> { });
        CompletableFuture<Void> first = chain.add(policies -> policies.setMaxProducerPerTopic(1), false);
        chain.start();
        ExecutionException failure = assertThrows(ExecutionException.class, () -> first.get(120, TimeUnit.SECONDS));
        assertInstanceOf(BrokerServiceException.class, failure.getCause());
        CompletableFuture<Void> second = chain.add(policies -> policies.setMaxProducerPerTopic(2), false);
        chain.start();
        second.get(120, TimeUnit.SECONDS);
        assertEquals(2, edits.get());
        assertTrue(chain.idle());
    }
}
