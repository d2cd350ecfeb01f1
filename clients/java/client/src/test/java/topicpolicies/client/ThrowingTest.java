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

/** What becomes of what a caller's own code throws: also of errors, and of checked exceptions, which other languages of the JVM throw. */
@Timeout(60)
final class ThrowingTest extends ClosedAfterwards {
    private static final List<Throwable> THROWN = List.of(new AssertionError("an assertion"), new StackOverflowError(),
            new IOException("a checked exception"), new IllegalStateException("an exception"));

    @SuppressWarnings("unchecked")
    private static <E extends Throwable> RuntimeException sneaky(Throwable error) throws E {
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
    void whatTheFunctionOfAnEditThrowsEndsTheEdit() throws Exception {
        TopicPoliciesClient client = client(member(Member.LEADING).address());
        for (Throwable error : THROWN) {
            Edit.Builder edit = Edit.of(TOPIC, policies -> ThrowingTest.<RuntimeException>sneaky(error));
            assertSame(error, failure(client.editAsync(edit.build())));
            assertSame(error, failure(client.editAsync(edit.start(document(1)).build())));
        }
    }

    @Test
    void aListenerOfACacheThatThrowsIsToldOfTheNextChange() throws Exception {
        TopicPoliciesClient client = client(member(Member.LEADING).address());
        PolicyCache cache = closing(client.cache("t/n"));
        cache.whenSynced().get(20, TimeUnit.SECONDS);
        AtomicInteger told = new AtomicInteger();
        cache.listen(change -> ThrowingTest.<RuntimeException>sneaky(THROWN.get(told.getAndIncrement() % THROWN.size())));
        for (int number = 1; number <= 2 * THROWN.size(); number++) {
            cache.offer(document(number));
            int expected = number;
            until(() -> told.get() == expected);
        }
    }

    @Test
    void whatTheListenerOfAWatchThrowsEndsTheWatch() throws Exception {
        Member member = member(Member.LEADING);
        TopicPoliciesClient client = client(member.address());
        for (Throwable error : THROWN) {
            Watch watch = client.watch(Selection.ofNamespaces("t/n").build(), event -> ThrowingTest.<RuntimeException>sneaky(error));
            TopicPoliciesException failure = assertInstanceOf(TopicPoliciesException.class, failure(watch.whenEnded()));
            assertSame(error, failure.getCause());
        }
        assertEquals(THROWN.size(), member.watches.get());
    }

    @Test
    void whatTheListenerOfManyChangesThrowsEndsThem() throws Exception {
        TopicPoliciesClient client = client(member(Member.LEADING).address());
        List<Delete> changes = List.of(Delete.of(TOPIC).build());
        for (Throwable error : THROWN) {
            assertSame(error, failure(client.updateManyAsync(changes, result -> ThrowingTest.<RuntimeException>sneaky(error))));
        }
    }

    @Test
    void whatASupplierOfTokensThrowsEndsTheCall() throws Exception {
        Member member = member(Member.LEADING);
        for (Throwable error : THROWN) {
            ClientOptions options = ClientOptions.of(member.address()).token(() -> ThrowingTest.<RuntimeException>sneaky(error).toString())
                    .timeout(Duration.ofSeconds(30)).build();
            TopicPoliciesClient client = closing(TopicPoliciesClient.open(options));
            long began = System.nanoTime();
            assertInstanceOf(TopicPoliciesException.class, failure(client.getAsync(Read.of(TOPIC).build())));
            assertInstanceOf(TopicPoliciesException.class, failure(client.deleteAsync(Delete.of(TOPIC).build())));
            assertFalse(System.nanoTime() - began > TimeUnit.SECONDS.toNanos(15));
        }
        assertEquals(0, member.met() + member.reads.get());
    }

    @Test
    void aWatchWhoseSupplierOfTokensThrowsTriesAgain() throws Exception {
        Member member = member(Member.LEADING);
        AtomicInteger asked = new AtomicInteger();
        ClientOptions options = ClientOptions.of(member.address()).token(() -> {
            int turn = asked.getAndIncrement();
            return turn < THROWN.size() ? ThrowingTest.<RuntimeException>sneaky(THROWN.get(turn)).toString() : "token";
        }).build();
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(options));
        List<WatchEvent> events = new CopyOnWriteArrayList<>();
        closing(client.watch(Selection.ofNamespaces("t/n").build(), events::add));
        until(() -> !events.isEmpty() && events.get(events.size() - 1) instanceof WatchEvent.Synced);
        assertEquals(THROWN.size(), events.stream().filter(WatchEvent.Interrupted.class::isInstance).count());
    }
}
