package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import topicpolicies.v1.TopicPolicies;

/** Exceptions of the caller's own code: also errors, and checked exceptions, which other languages of the JVM can throw. */
@Timeout(60)
final class ThrowingTest extends ClosedAfterwards {
    private static final List<Throwable> THROWN = List.of(new AssertionError("an assertion"), new StackOverflowError(),
            new IOException("a checked exception"), new IllegalStateException("an exception"));

    @SuppressWarnings("unchecked")
    private static <E extends Throwable> RuntimeException rethrow(Throwable error) throws E {
        throw (E) error;
    }

    private static Throwable failure(CompletableFuture<?> call) {
        return assertThrows(ExecutionException.class, () -> call.get(20, TimeUnit.SECONDS)).getCause();
    }

    private static Document document(int number) {
        TopicPolicies policies = TopicPolicies.newBuilder().setMaxProducerPerTopic(number).build();
        return new Document(TOPIC, Scope.LOCAL, Optional.of(policies), "v" + number, false);
    }

    @Test
    void anExceptionOfTheFunctionOfAnEditEndsTheEdit() throws Exception {
        TopicPoliciesClient client = client(member(Member.LEADING).address());
        for (Throwable error : THROWN) {
            Edit.Builder edit = Edit.of(TOPIC, policies -> ThrowingTest.<RuntimeException>rethrow(error));
            assertSame(error, failure(client.editAsync(edit.build())));
            assertSame(error, failure(client.editAsync(edit.start(document(1)).build())));
        }
    }

    @Test
    void aListenerOfACacheThatThrowsReceivesTheNextChange() throws Exception {
        TopicPoliciesClient client = client(member(Member.LEADING).address());
        PolicyCache cache = closing(client.cache("t/n"));
        cache.whenSynced().get(20, TimeUnit.SECONDS);
        AtomicInteger received = new AtomicInteger();
        cache.listen(change -> ThrowingTest.<RuntimeException>rethrow(THROWN.get(received.getAndIncrement() % THROWN.size())));
        for (int number = 1; number <= 2 * THROWN.size(); number++) {
            cache.offer(document(number));
            int expected = number;
            until(() -> received.get() == expected);
        }
    }

    @Test
    void anExceptionOfTheListenerOfAWatchEndsTheWatch() throws Exception {
        Member member = member(Member.LEADING);
        TopicPoliciesClient client = client(member.address());
        for (Throwable error : THROWN) {
            Watch watch = client.watch(Selection.ofNamespaces("t/n").build(), event -> ThrowingTest.<RuntimeException>rethrow(error));
            TopicPoliciesException failure = assertInstanceOf(TopicPoliciesException.class, failure(watch.whenEnded()));
            assertSame(error, failure.getCause());
        }
        assertEquals(THROWN.size(), member.watches.get());
    }

    @Test
    void anExceptionOfTheListenerOfManyChangesEndsThem() throws Exception {
        TopicPoliciesClient client = client(member(Member.LEADING).address());
        List<Delete> changes = List.of(Delete.of(TOPIC).build());
        for (Throwable error : THROWN) {
            assertSame(error, failure(client.updateManyAsync(changes, result -> ThrowingTest.<RuntimeException>rethrow(error))));
        }
    }

    @Test
    void anExceptionOfATokenSupplierEndsTheCall() throws Exception {
        Member member = member(Member.LEADING);
        for (Throwable error : THROWN) {
            ClientOptions options = ClientOptions.of(member.address()).token(() -> ThrowingTest.<RuntimeException>rethrow(error).toString())
                    .timeout(Duration.ofSeconds(30)).build();
            TopicPoliciesClient client = closing(TopicPoliciesClient.open(options));
            long began = System.nanoTime();
            assertInstanceOf(TopicPoliciesException.class, failure(client.getAsync(Read.of(TOPIC).build())));
            assertInstanceOf(TopicPoliciesException.class, failure(client.deleteAsync(Delete.of(TOPIC).build())));
            assertFalse(System.nanoTime() - began > TimeUnit.SECONDS.toNanos(15));
        }
        assertEquals(0, member.changeCount() + member.reads.get());
    }

    @Test
    void aWatchWhoseTokenSupplierThrowsTriesAgain() throws Exception {
        Member member = member(Member.LEADING);
        AtomicInteger requested = new AtomicInteger();
        ClientOptions options = ClientOptions.of(member.address()).token(() -> {
            int turn = requested.getAndIncrement();
            return turn < THROWN.size() ? ThrowingTest.<RuntimeException>rethrow(THROWN.get(turn)).toString() : "token";
        }).build();
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(options));
        List<WatchEvent> events = new CopyOnWriteArrayList<>();
        closing(client.watch(Selection.ofNamespaces("t/n").build(), events::add));
        until(() -> !events.isEmpty() && events.get(events.size() - 1) instanceof WatchEvent.Synced);
        assertEquals(THROWN.size(), events.stream().filter(WatchEvent.Interrupted.class::isInstance).count());
    }
}
