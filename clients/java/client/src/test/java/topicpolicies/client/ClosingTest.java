package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import topicpolicies.v1.TopicPolicies;

/** What becomes of calls that are under way when their client is closed. */
@Timeout(60)
final class ClosingTest extends ClosedAfterwards {
    private static final Update CHANGE = Update.of(TOPIC, TopicPolicies.newBuilder().setMaxProducerPerTopic(3).build(), "max_producer_per_topic");
    private static final String NOBODY = "127.0.0.1:1";

    private Member silent() throws IOException {
        Member member = closing(new Member(attempt -> Member.SILENCE));
        member.reading = attempt -> Member.SILENCE;
        return member;
    }

    private static void until(BooleanSupplier holds) throws InterruptedException {
        for (int turn = 0; turn < 2000 && !holds.getAsBoolean(); turn++) {
            Thread.sleep(10);
        }
        assertTrue(holds.getAsBoolean());
    }

    private static Throwable failure(CompletableFuture<?> call) {
        assertTrue(call.isDone());
        return assertThrows(ExecutionException.class, call::get).getCause();
    }

    @Test
    void onAGivenChannelChangesAndReadsEndAtOnceAndTheServiceIsTold() throws Exception {
        Member member = silent();
        ManagedChannel channel = Grpc.newChannelBuilder(member.address(), InsecureChannelCredentials.create()).build();
        AutoCloseable end = channel::shutdownNow;
        closing(end);
        TopicPoliciesClient client = closing(TopicPoliciesClient.on(channel, ClientOptions.of("unused").withTimeout(Duration.ofMinutes(5))));
        CompletableFuture<?> update = client.updateAsync(CHANGE);
        CompletableFuture<?> deletion = client.deleteAsync(TOPIC, List.of(Scope.LOCAL));
        CompletableFuture<?> read = client.getAsync(TOPIC, Scope.LOCAL, "");
        until(() -> member.met() == 2 && member.reads.get() == 1);
        client.close();
        assertInstanceOf(OutcomeUnknownException.class, failure(update));
        assertInstanceOf(OutcomeUnknownException.class, failure(deletion));
        assertInstanceOf(TopicPoliciesException.class, failure(read));
        until(() -> member.cancelled.get() == 3);
        assertFalse(channel.isShutdown());
    }

    @Test
    void changesEndAlthoughTheExecutorIsGone() throws Exception {
        Member member = silent();
        ExecutorService executor = Executors.newSingleThreadExecutor();
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(ClientOptions.of(member.address()).withExecutor(executor)));
        CompletableFuture<?> update = client.updateAsync(CHANGE);
        until(() -> member.met() == 1);
        executor.shutdownNow();
        client.close();
        assertInstanceOf(OutcomeUnknownException.class, failure(update));
    }

    @Test
    void aCallbackMayCloseTheClientThatIsBeingClosed() {
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(ClientOptions.of(NOBODY).withExecutor(Runnable::run)));
        CompletableFuture<?> update = client.updateAsync(CHANGE);
        CompletableFuture<?> closed = update.handle((answer, error) -> {
            client.close();
            return null;
        });
        client.close();
        assertTrue(closed.isDone() && !closed.isCompletedExceptionally());
        assertInstanceOf(TopicPoliciesException.class, failure(update));
    }

    @Test
    void noCallbackRunsWhileOthersCannotUseTheClient() throws Exception {
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(ClientOptions.of(NOBODY).withExecutor(Runnable::run)));
        CountDownLatch inCallback = new CountDownLatch(1);
        CountDownLatch asked = new CountDownLatch(1);
        AtomicReference<Boolean> another = new AtomicReference<>();
        client.updateAsync(CHANGE).whenComplete((answer, error) -> {
            inCallback.countDown();
            try {
                another.set(asked.await(20, TimeUnit.SECONDS));
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        });
        Thread asking = new Thread(() -> {
            try {
                inCallback.await();
                client.getAsync(TOPIC, Scope.LOCAL, "").exceptionally(error -> null);
                asked.countDown();
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        });
        asking.start();
        client.close();
        asking.join();
        assertEquals(Boolean.TRUE, another.get());
    }
}
