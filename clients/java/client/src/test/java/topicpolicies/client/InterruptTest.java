package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Blocking methods whose thread is interrupted. */
@Timeout(60)
final class InterruptTest extends ClosedAfterwards {
    private static final Update UPDATE = Update.of(TOPIC).mask("max_producer_per_topic").build();
    private static final Delete DELETION = Delete.of(TOPIC).build();
    private static final Edit EDIT = Edit.of(TOPIC, policies -> policies.setMaxProducerPerTopic(1)).build();
    private static final Backoff LONG = new Backoff(Duration.ofMinutes(1), Duration.ofMinutes(1), 1);
    private static final RetryPolicy LONG_PAUSES = new RetryPolicy(5, LONG, Duration.ofMinutes(2));
    private static final List<Consumer<TopicPoliciesClient>> READS = List.of(client -> client.get(TOPIC), client -> client.getBoth(TOPIC),
            client -> client.list("t/n").iterator().hasNext(), client -> client.list("t/n").token(),
            client -> client.history(HistoryQuery.ofTopic(TOPIC).build()).iterator().hasNext(),
            client -> client.history(HistoryQuery.ofTopic(TOPIC).build()).gaps());

    private TopicPoliciesClient client(String target, RetryPolicy retries) {
        return closing(TopicPoliciesClient.open(ClientOptions.of(target).timeout(Duration.ofMinutes(5)).build(), retries));
    }

    /** Runs a blocking method on a thread of its own. */
    private static final class Blocked {
        private final Thread thread;
        private volatile Throwable thrown;
        private volatile boolean interrupted;

        Blocked(Runnable method) {
            thread = new Thread(() -> {
                try {
                    method.run();
                } catch (Throwable error) {
                    thrown = error;
                }
                interrupted = Thread.currentThread().isInterrupted();
            });
            thread.start();
        }

        /** Interrupts the thread, and returns the error with which the method ends soon. */
        TopicPoliciesException interrupt() throws InterruptedException {
            thread.interrupt();
            thread.join(5000);
            assertFalse(thread.isAlive(), "the method goes on");
            assertTrue(interrupted, "the thread is no longer interrupted");
            TopicPoliciesException error = assertInstanceOf(TopicPoliciesException.class, thrown);
            assertEquals(Status.Code.CANCELLED, error.code());
            assertTrue(error.getMessage().contains("The thread was interrupted while it waited."), error.getMessage());
            return error;
        }

        boolean waits() {
            return thread.getState() == Thread.State.WAITING;
        }
    }

    private static void assertNotMade(TopicPoliciesException error) {
        assertSame(TopicPoliciesException.class, error.getClass());
        assertInstanceOf(InterruptedException.class, error.getCause());
    }

    private static void assertUnknown(String requestId, TopicPoliciesException error) {
        assertEquals(requestId, assertInstanceOf(OutcomeUnknownException.class, error).requestId());
    }

    @Test
    void anInterruptEndsAReadAndCancelsItAtTheService() throws Exception {
        for (Consumer<TopicPoliciesClient> read : READS) {
            Member member = silent();
            TopicPoliciesClient client = client(member.address(), QUICK);
            Blocked blocked = new Blocked(() -> read.accept(client));
            until(() -> member.reads.get() == 1);
            assertNotMade(blocked.interrupt());
            until(() -> member.cancelled.get() == 1);
            assertEquals(1, member.reads.get());
        }
    }

    @Test
    void anInterruptEndsTheReadOfALaterPageWhichCanBeReadAgain() throws Exception {
        for (Function<TopicPoliciesClient, Iterable<?>> pages : List.<Function<TopicPoliciesClient, Iterable<?>>>of(
                client -> client.list("t/n"), client -> client.history(HistoryQuery.ofTopic(TOPIC).build()))) {
            Member member = member(Member.LEADING);
            member.nextPage = "next";
            member.reading = read -> read == 2 ? Member.SILENCE : null;
            Iterator<?> items = pages.apply(client(member.address(), QUICK)).iterator();
            Blocked blocked = new Blocked(items::hasNext);
            until(() -> member.reads.get() == 2);
            assertNotMade(blocked.interrupt());
            until(() -> member.cancelled.get() == 1);
            member.nextPage = "";
            assertFalse(items.hasNext());
            assertEquals(3, member.reads.get());
        }
    }

    @Test
    void anInterruptEndsTheWaitForAPageThatAnotherThreadReads() throws Exception {
        Member member = silent();
        DocumentList list = client(member.address(), QUICK).list("t/n");
        Blocked reading = new Blocked(list::token);
        until(() -> member.reads.get() == 1);
        Blocked waiting = new Blocked(list::token);
        until(waiting::waits);
        assertNotMade(waiting.interrupt());
        assertEquals(0, member.cancelled.get());
        assertNotMade(reading.interrupt());
    }

    @Test
    void theOutcomeOfASentChangeIsUnknownAfterAnInterruptAndTheServiceIsTold() throws Exception {
        for (Consumer<TopicPoliciesClient> change : List.<Consumer<TopicPoliciesClient>>of(
                client -> client.update(UPDATE), client -> client.delete(DELETION))) {
            Member member = silent();
            TopicPoliciesClient client = client(member.address(), QUICK);
            Blocked blocked = new Blocked(() -> change.accept(client));
            until(() -> member.changeCount() == 1);
            assertUnknown(member.requestIds.get(0), blocked.interrupt());
            until(() -> member.cancelled.get() == 1);
            assertEquals(1, member.changeCount());
        }
    }

    @Test
    void aChangeWithoutAConnectionWasNotMade() throws Exception {
        for (String target : List.of("127.0.0.1:1", "127.0.0.1:1,127.0.0.1:2")) {
            for (Consumer<TopicPoliciesClient> call : List.<Consumer<TopicPoliciesClient>>of(client -> client.update(UPDATE),
                    client -> client.delete(DELETION), client -> client.edit(EDIT), client -> client.get(TOPIC))) {
                TopicPoliciesClient client = client(target, LONG_PAUSES);
                Blocked blocked = new Blocked(() -> call.accept(client));
                until(blocked::waits);
                assertNotMade(blocked.interrupt());
            }
        }
    }

    @Test
    void anInterruptEndsThePauseBeforeARepeat() throws Exception {
        Member refusing = member(attempt -> Member.refusal(""));
        TopicPoliciesClient client = client(refusing.address(), LONG_PAUSES);
        Blocked refused = new Blocked(() -> client.update(UPDATE));
        until(() -> refusing.changeCount() == 1);
        Thread.sleep(100);
        assertNotMade(refused.interrupt());

        Member breaking = member(attempt -> Status.UNAVAILABLE.asRuntimeException());
        TopicPoliciesClient another = client(breaking.address(), LONG_PAUSES);
        Blocked broken = new Blocked(() -> another.update(UPDATE));
        until(() -> breaking.changeCount() == 1);
        Thread.sleep(100);
        assertUnknown(UPDATE.requestId(), broken.interrupt());
        assertEquals(1, breaking.changeCount());
    }

    @Test
    void aDryRunHasNoUnknownOutcome() throws Exception {
        Member member = silent();
        TopicPoliciesClient client = client(member.address(), QUICK);
        Blocked blocked = new Blocked(() -> client.update(Update.of(TOPIC).mask("max_producer_per_topic").validateOnly().build()));
        until(() -> member.changeCount() == 1);
        assertNotMade(blocked.interrupt());
        until(() -> member.cancelled.get() == 1);
    }

    @Test
    void anInterruptDoesNotCountAgainstTheAddress() throws Exception {
        Member first = silent();
        Member second = silent();
        TopicPoliciesClient client = client(first.address() + "," + second.address(), QUICK);
        new Blocked(() -> client.get(TOPIC));
        until(() -> first.reads.get() == 1);
        Blocked change = new Blocked(() -> client.update(UPDATE));
        until(() -> first.changeCount() == 1);
        change.interrupt();
        client.getAsync(Read.of(TOPIC).build());
        until(() -> first.reads.get() == 2);
        assertEquals(0, second.reads.get());
    }

    @Test
    void anInterruptEndsTheReadOfAnEdit() throws Exception {
        Member member = silent();
        TopicPoliciesClient client = client(member.address(), QUICK);
        Blocked blocked = new Blocked(() -> client.edit(EDIT));
        until(() -> member.reads.get() == 1);
        assertNotMade(blocked.interrupt());
        until(() -> member.cancelled.get() == 1);
        assertEquals(0, member.changeCount());
    }

    @Test
    void theOutcomeOfAnEditIsUnknownIfItsChangeWasSent() throws Exception {
        Member member = member(attempt -> Member.SILENCE);
        TopicPoliciesClient client = client(member.address(), QUICK);
        Blocked blocked = new Blocked(() -> client.edit(EDIT));
        until(() -> member.changeCount() == 1);
        assertUnknown(member.requestIds.get(0), blocked.interrupt());
        until(() -> member.cancelled.get() == 1);
    }

    @Test
    void anInterruptEndsThePauseOfAnEditWhichWasNotMade() throws Exception {
        Member member = member(attempt -> Member.error(Status.Code.ABORTED, "ETAG_MISMATCH"));
        TopicPoliciesClient client = client(member.address(), QUICK);
        Blocked blocked = new Blocked(() -> client.edit(EDIT));
        until(() -> member.changeCount() >= 8); // from here on each pause takes from 250 to 500 ms
        Thread.sleep(100);
        assertNotMade(blocked.interrupt());
        int changes = member.changeCount();
        Thread.sleep(700);
        assertEquals(changes, member.changeCount());
    }

    @Test
    void anEditThatEndsWhileItsFunctionRunsSendsNoChange() throws Exception {
        Member member = member(Member.LEADING);
        TopicPoliciesClient client = client(member.address(), QUICK);
        for (boolean cancelled : List.of(false, true)) {
            CountDownLatch running = new CountDownLatch(1);
            CountDownLatch goOn = new CountDownLatch(1);
            CountDownLatch over = new CountDownLatch(1);
            Edit edit = Edit.of(TOPIC, policies -> {
                running.countDown();
                try {
                    goOn.await();
                } catch (InterruptedException stopped) {
                    Thread.currentThread().interrupt();
                }
                policies.setMaxProducerPerTopic(1);
                over.countDown();
            }).build();
            if (cancelled) {
                var future = client.editAsync(edit);
                running.await();
                future.cancel(true);
            } else {
                Blocked blocked = new Blocked(() -> client.edit(edit));
                running.await();
                assertNotMade(blocked.interrupt());
            }
            goOn.countDown();
            over.await();
            Thread.sleep(200);
            assertEquals(0, member.changeCount());
        }
    }

    @Test
    void anInterruptEndsManyChangesAndTheReadingOfTheirSource() throws Exception {
        Member member = silent();
        TopicPoliciesClient client = client(member.address(), QUICK);
        CountDownLatch stopped = new CountDownLatch(1);
        Iterable<Change> source = () -> new Iterator<>() {
            private int next;

            @Override
            public boolean hasNext() {
                return true;
            }

            @Override
            public Change next() {
                if (next++ == 0) {
                    return UPDATE;
                }
                try {
                    new CountDownLatch(1).await();
                } catch (InterruptedException ended) {
                    stopped.countDown();
                }
                return DELETION;
            }
        };
        Blocked blocked = new Blocked(() -> client.updateMany(source));
        until(() -> member.changeCount() == 1);
        assertNotMade(blocked.interrupt());
        assertTrue(stopped.await(20, TimeUnit.SECONDS));
        until(() -> member.cancelled.get() >= 1);
        assertEquals(1, member.changeCount());
    }

    @Test
    void aThreadThatIsInterruptedAlreadySendsNothing() throws Exception {
        Member member = member(Member.LEADING);
        TopicPoliciesClient client = client(member.address(), QUICK);
        List<Consumer<TopicPoliciesClient>> calls = new ArrayList<>(READS);
        calls.addAll(List.of(each -> each.update(UPDATE), each -> each.delete(DELETION), each -> each.edit(EDIT),
                each -> each.updateMany(List.of(UPDATE)), each -> each.effective(TOPIC), TopicPoliciesClient::serverInfo));
        for (Consumer<TopicPoliciesClient> call : calls) {
            Thread.currentThread().interrupt();
            TopicPoliciesException error = assertThrows(TopicPoliciesException.class, () -> call.accept(client));
            assertTrue(Thread.interrupted());
            assertEquals(Status.Code.CANCELLED, error.code());
            assertSame(TopicPoliciesException.class, error.getClass());
            assertEquals("The thread was interrupted before the call; nothing was sent.", error.getMessage());
        }
        client.get(TOPIC);
        assertEquals(1, member.seen.size());
    }

    @Test
    void aPageThatWasReadStaysReadableOnAnInterruptedThread() throws Exception {
        DocumentList list = client(member(Member.LEADING).address(), QUICK).list("t/n");
        ResumeToken token = list.token();
        Thread.currentThread().interrupt();
        assertEquals(token, list.token());
        assertFalse(list.iterator().hasNext());
        assertTrue(Thread.interrupted());
    }

    @Test
    void aChangeThatWasSentIsNeverReportedAsNotMadeWheneverTheInterruptComes() throws Exception {
        Member member = member(Member.LEADING);
        AtomicInteger told = new AtomicInteger();
        List<String> notMade = new CopyOnWriteArrayList<>();
        TopicPoliciesClient connected = client(member.address(), QUICK);
        for (int turn = 0; turn < 400; turn++) {
            TopicPoliciesClient client = turn % 2 == 0 ? connected : client(member.address(), QUICK);
            Update update = Update.of(TOPIC).mask("max_producer_per_topic").build();
            Thread caller = new Thread(() -> {
                try {
                    client.update(update);
                    told.incrementAndGet();
                } catch (OutcomeUnknownException error) {
                    told.incrementAndGet();
                } catch (TopicPoliciesException error) {
                    notMade.add(update.requestId());
                }
            });
            caller.start();
            TimeUnit.MICROSECONDS.sleep(turn % 50 * (turn % 2 == 0 ? 20 : 100));
            caller.interrupt();
            caller.join();
            if (client != connected) {
                client.close();
            }
        }
        Thread.sleep(200);
        assertEquals(400, told.get() + notMade.size());
        notMade.retainAll(member.requestIds);
        assertEquals(List.of(), notMade);
    }

    @Test
    void anInterruptedThreadCanCloseTheClient() throws Exception {
        Member member = silent();
        TopicPoliciesClient client = client(member.address(), QUICK);
        var update = client.updateAsync(UPDATE);
        until(() -> member.changeCount() == 1);
        Thread.currentThread().interrupt();
        client.close();
        assertTrue(Thread.interrupted());
        until(update::isCompletedExceptionally); // perhaps on another thread
        until(() -> member.cancelled.get() == 1);
    }
}
