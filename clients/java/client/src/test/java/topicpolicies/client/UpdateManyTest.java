package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.UpdatePoliciesRequest;

/** Many changes over streams, to sidecars that answer as a test specifies. */
@Timeout(60)
final class UpdateManyTest extends ClosedAfterwards {
    private static Update update(int number) {
        return Update.of("t/n/x" + number % 10).policies(TopicPolicies.newBuilder().setMaxProducerPerTopic(number).build()).build();
    }

    private static List<Update> updates(int count) {
        return IntStream.range(0, count).mapToObj(UpdateManyTest::update).toList();
    }

    private static List<String> ids(List<? extends Change> changes) {
        return changes.stream().map(Change::requestId).toList();
    }

    private static TopicPoliciesException failure(ChangeResult result) {
        return assertInstanceOf(ChangeResult.Failed.class, result).error();
    }

    @Test
    void manyChangesGoOverOneStreamInOrderAndEachHasItsResult() throws Exception {
        Member member = member(Member.LEADING);
        List<Change> changes = new ArrayList<>(updates(5000));
        changes.add(Delete.of("t/n/x1").scope(Scope.GLOBAL).build());
        List<ChangeResult> results = client(member.address()).updateMany(changes);
        assertEquals(LongStream.rangeClosed(0, 5000).boxed().toList(), results.stream().map(ChangeResult::index).toList());
        assertEquals(changes, results.stream().map(ChangeResult::change).toList());
        assertEquals("2", assertInstanceOf(ChangeResult.Updated.class, results.get(0)).result().version());
        assertEquals("2", assertInstanceOf(ChangeResult.Deleted.class, results.get(5000)).result().version());
        assertEquals(ids(changes), member.requestIds);
        assertEquals(1, member.streams.get());
        assertEquals(List.of(), client(member.address()).updateMany(List.of()));
    }

    @Test
    void changesAtHandGoInOneBatchUpToAThousand() throws Exception {
        Member member = member(Member.LEADING);
        ExecutorService executor = Executors.newSingleThreadExecutor();
        AutoCloseable end = executor::shutdownNow;
        closing(end);
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(ClientOptions.of(member.address()).executor(executor).build(), QUICK));
        CountDownLatch release = new CountDownLatch(1);
        executor.execute(() -> {
            try {
                release.await();
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        });
        AtomicInteger taken = new AtomicInteger();
        Iterable<Update> source = () -> IntStream.range(0, 4000).mapToObj(number -> {
            taken.incrementAndGet();
            return update(number);
        }).iterator();
        CompletableFuture<Void> done = client.updateManyAsync(source, result -> { });
        until(() -> taken.get() == 4000);
        Thread.sleep(100); // until the last one has arrived
        release.countDown();
        done.get(50, TimeUnit.SECONDS);
        assertEquals(Collections.nCopies(4, Pipeline.BATCH_CHANGES), member.batches.stream().map(UpdatePoliciesRequest::getChangesCount).toList());
    }

    @Test
    void aBatchIsBoundedInBytesAndALargeChangeGoesAlone() throws Exception {
        Member member = member(Member.LEADING);
        String filler = "x".repeat(300_000);
        List<Update> changes = IntStream.range(0, 20).mapToObj(number -> Update.of("t/n/x")
                .policies(TopicPolicies.newBuilder().addShadowTopics(number == 7 ? filler.repeat(5) : filler).build()).build()).toList();
        assertEquals(20, client(member.address()).updateMany(changes).size());
        assertEquals(ids(changes), member.requestIds);
        assertTrue(member.batches.stream()
                .allMatch(batch -> batch.getChangesCount() == 1 || batch.getSerializedSize() < Pipeline.BATCH_BYTES + 10_000));
    }

    @Test
    void noChangeWaitsForMore() throws Exception {
        Member member = member(Member.LEADING);
        BlockingQueue<Update> coming = new LinkedBlockingQueue<>();
        BlockingQueue<ChangeResult> received = new LinkedBlockingQueue<>();
        Iterable<Update> source = () -> new Iterator<>() {
            private int count;

            @Override
            public boolean hasNext() {
                return count < 3;
            }

            @Override
            public Update next() {
                try {
                    count++;
                    return coming.take();
                } catch (InterruptedException stopped) {
                    throw new IllegalStateException(stopped);
                }
            }
        };
        CompletableFuture<Void> done = client(member.address()).updateManyAsync(source, received::add);
        for (int number = 0; number < 3; number++) {
            assertFalse(done.isDone());
            coming.add(update(number));
            assertEquals(number, received.poll(20, TimeUnit.SECONDS).index());
        }
        done.get(20, TimeUnit.SECONDS);
    }

    @Test
    void aChangeThatFailsDoesNotAffectTheOthers() throws Exception {
        Member member = member(attempt -> attempt == 3 ? Member.error(Status.Code.INVALID_ARGUMENT, "UNKNOWN_PATH") : null);
        List<ChangeResult> results = client(member.address()).updateMany(updates(5));
        assertEquals("UNKNOWN_PATH", failure(results.get(2)).reason());
        assertEquals(4, results.stream().filter(ChangeResult.Updated.class::isInstance).count());
    }

    @Test
    void aChangeOfUnknownOutcomeIsReportedAsSuchAndNotRepeated() throws Exception {
        Member member = member(attempt -> attempt == 2 ? Member.outcomeUnknown() : null);
        List<Update> changes = updates(3);
        List<ChangeResult> results = client(member.address()).updateMany(changes);
        assertEquals(changes.get(1).requestId(), ((OutcomeUnknownException) failure(results.get(1))).requestId());
        assertEquals(ids(changes), member.requestIds);
    }

    @Test
    void afterAStreamBreaksTheChangesInFlightAreRepeatedInOrderWithTheSameRequestIds() throws Exception {
        Member member = member(attempt -> attempt == 6 || attempt == 9 ? Status.UNAVAILABLE.asRuntimeException() : null);
        List<Update> changes = updates(20);
        List<ChangeResult> results = client(member.address()).updateMany(changes);
        assertTrue(results.stream().allMatch(ChangeResult.Updated.class::isInstance));
        List<String> wanted = new ArrayList<>(ids(changes).subList(0, 6));
        wanted.addAll(ids(changes).subList(5, 8));
        wanted.addAll(ids(changes).subList(7, 20));
        assertEquals(wanted, member.requestIds.subList(0, wanted.size()));
        assertEquals(3, member.streams.get());
    }

    @Test
    void changesRefusedByAFollowerGoToTheLeaderInOrder() throws Exception {
        Member leader = member(Member.LEADING);
        Member follower = member(attempt -> Member.refusal(leader.address()));
        List<Update> changes = updates(3000);
        List<ChangeResult> results = client(follower.address()).updateMany(changes);
        assertTrue(results.stream().allMatch(ChangeResult.Updated.class::isInstance));
        assertEquals(ids(changes), leader.requestIds, "the changes arrived in another order");
        assertEquals(List.of(1, 1), List.of(follower.streams.get(), leader.streams.get()));
    }

    @Test
    void aChangeWithItsOwnTimeIsNotWaitedForMuchLonger() throws Exception {
        Member silent = member(attempt -> Member.SILENCE);
        for (String target : List.of(silent.address(), "127.0.0.1:1")) {
            TopicPoliciesClient client = closing(TopicPoliciesClient.open(target));
            Update change = Update.of("t/n/x").mask("max_producer_per_topic").timeout(Duration.ofMillis(300)).build();
            long began = System.nanoTime();
            TopicPoliciesException error = failure(client.updateMany(List.of(change)).get(0));
            assertTrue(Duration.ofNanos(System.nanoTime() - began).toSeconds() < 5, "it took as long as the silence of a stream");
            assertEquals(target.equals(silent.address()), error instanceof OutcomeUnknownException, error.getMessage());
        }
        assertEquals(1, silent.changeCount());
    }

    @Test
    void changesWithoutTimeLimitsOfTheirOwnOutliveOneThatHas() throws Exception {
        Member member = member(attempt -> attempt <= 2 ? Member.SILENCE : null);
        Update hurried = Update.of("t/n/x").mask("max_producer_per_topic").timeout(Duration.ofMillis(300)).build();
        List<ChangeResult> results = client(member.address()).updateMany(List.of(hurried, update(1)));
        assertInstanceOf(OutcomeUnknownException.class, failure(results.get(0)));
        assertInstanceOf(ChangeResult.Updated.class, results.get(1));
    }

    @Test
    void aSilentStreamIsReplacedAndTheChangesHaveAnUnknownOutcomeInTheEnd() throws Exception {
        Member silent = member(attempt -> Member.SILENCE);
        RetryPolicy policy = new RetryPolicy(2, SHORT, Duration.ofSeconds(1));
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(ClientOptions.of(silent.address()).build(), policy));
        List<Update> changes = updates(2);
        List<ChangeResult> results = client.updateMany(changes);
        assertEquals(ids(changes), results.stream().map(each -> ((OutcomeUnknownException) failure(each)).requestId()).toList());
        assertEquals(List.of(2, 4), List.of(silent.streams.get(), silent.changeCount()));
    }

    @Test
    void manyChangesWithoutAConnectionAreReportedAsNotMade() throws Exception {
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(ClientOptions.of("127.0.0.1:9").timeout(Duration.ofSeconds(1)).build()));
        List<ChangeResult> results = client.updateMany(updates(3));
        for (ChangeResult result : results) {
            assertEquals(List.of(Status.Code.UNAVAILABLE, TopicPoliciesException.class),
                    List.of(failure(result).code(), failure(result).getClass()));
        }
        assertEquals(3, results.size());
    }

    @Test
    void connectingMayTakeLongUnlessThereIsAnotherAddress() throws Exception {
        Member member = member(Member.LEADING);
        Member other = member(Member.LEADING);
        Duration longer = Line.CONNECTING.plusSeconds(1);
        TopicPoliciesClient once = closing(TopicPoliciesClient.open(ClientOptions.of(slowly(member, longer)).withoutRetries().build()));
        TopicPoliciesClient given = closing(TopicPoliciesClient.on(channelTo(slowly(member, longer)),
                ClientOptions.of("unused").withoutRetries().build()));
        TopicPoliciesClient two = client(slowly(member, Duration.ofMinutes(1)) + "," + other.address());
        List<Update> changes = updates(3);
        List<ChangeResult> results = new CopyOnWriteArrayList<>();
        CompletableFuture<Void> all = CompletableFuture.allOf(once.updateManyAsync(changes.subList(0, 1), results::add),
                given.updateManyAsync(changes.subList(1, 2), results::add), two.updateManyAsync(changes.subList(2, 3), results::add),
                once.updateAsync(update(0)), given.updateAsync(update(1)));
        all.get(30, TimeUnit.SECONDS);
        assertEquals(List.of(), results.stream().filter(ChangeResult.Failed.class::isInstance).toList());
        assertEquals(List.of(3, 4), List.of(results.size(), member.changeCount()));
        assertEquals(ids(changes.subList(2, 3)), other.requestIds);
    }

    /** Returns an address at which connecting to a member takes a while. */
    private String slowly(Member member, Duration pause) throws IOException {
        ServerSocket listening = closing(new ServerSocket(0));
        Thread serving = new Thread(() -> {
            try (Socket near = listening.accept(); Socket far = new Socket("localhost", member.port())) {
                Thread.sleep(pause.toMillis());
                Thread there = new Thread(() -> copy(near, far));
                there.setDaemon(true);
                there.start();
                copy(far, near);
            } catch (IOException | InterruptedException ended) {
                // the test is over
            }
        });
        serving.setDaemon(true);
        serving.start();
        return "localhost:" + listening.getLocalPort();
    }

    private static void copy(Socket from, Socket to) {
        try (from; to) {
            from.getInputStream().transferTo(to.getOutputStream());
        } catch (IOException ended) {
            // the other socket is closed too
        }
    }

    @Test
    void noMoreChangesAreTakenThanMayBeInFlight() throws Exception {
        takesNoMoreThan(UpdateMany.MOST_CHANGES);
        takesNoMoreThan(3);
        assertThrows(IllegalArgumentException.class, () -> client("localhost:1").updateManyAsync(List.of(update(1)), result -> { }, 0));
    }

    private void takesNoMoreThan(int most) throws Exception {
        Member member = member(Member.LEADING);
        AtomicInteger taken = new AtomicInteger();
        AtomicInteger received = new AtomicInteger();
        CountDownLatch release = new CountDownLatch(1);
        Iterable<Update> source = () -> IntStream.range(0, 20_000).mapToObj(number -> {
            taken.incrementAndGet();
            return update(number);
        }).iterator();
        CompletableFuture<Void> done = client(member.address()).updateManyAsync(source, result -> {
            try {
                release.await();
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
            received.incrementAndGet();
        }, most);
        until(() -> taken.get() >= most);
        Thread.sleep(300);
        assertTrue(taken.get() <= most + 1, taken + " changes were taken");
        release.countDown();
        done.get(50, TimeUnit.SECONDS);
        assertEquals(20_000, received.get());
    }

    @Test
    void anExceptionOfTheSourceOrTheListenerEndsManyChanges() throws Exception {
        Member member = member(Member.LEADING);
        Iterable<Update> broken = () -> IntStream.range(0, 10).mapToObj(number -> {
            if (number == 5) {
                throw new UnsupportedOperationException("no more");
            }
            return update(number);
        }).iterator();
        TopicPoliciesClient client = client(member.address());
        assertThrows(UnsupportedOperationException.class, () -> client.updateMany(broken));
        CompletableFuture<Void> done = client.updateManyAsync(updates(10), result -> {
            throw new IllegalStateException("not that");
        });
        assertInstanceOf(IllegalStateException.class, assertThrows(ExecutionException.class, () -> done.get(20, TimeUnit.SECONDS)).getCause());
    }

    @Test
    void anErrorOfTheSourceTheListenerOrAnInterceptorEndsManyChangesAndReachesTheThreadsHandler() throws Exception {
        Member member = member(Member.LEADING);
        TopicPoliciesClient client = client(member.address());
        TopicPoliciesClient throwing = client(member, new AssertionError("not a stream"));
        Iterable<Update> broken = () -> IntStream.range(0, 10).mapToObj(number -> {
            if (number == 5) {
                throw new AssertionError("not a change");
            }
            return update(number);
        }).iterator();
        List<String> handled = new CopyOnWriteArrayList<>();
        Thread.UncaughtExceptionHandler before = Thread.getDefaultUncaughtExceptionHandler();
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> handled.add(error.getMessage()));
        try {
            CompletableFuture<Void> taken = client.updateManyAsync(broken, result -> { });
            CompletableFuture<Void> listened = client.updateManyAsync(updates(10), result -> {
                throw new AssertionError("not a result");
            });
            CompletableFuture<Void> opened = throwing.updateManyAsync(updates(10), result -> { });
            for (CompletableFuture<Void> done : List.of(taken, listened, opened)) {
                ExecutionException failed = assertThrows(ExecutionException.class, () -> done.get(20, TimeUnit.SECONDS));
                assertInstanceOf(AssertionError.class, failed.getCause());
            }
            until(() -> handled.containsAll(List.of("not a change", "not a result", "not a stream")));
            assertEquals(3, handled.size(), handled.toString());
            assertThrows(AssertionError.class, () -> client.updateMany(broken));
        } finally {
            Thread.setDefaultUncaughtExceptionHandler(before);
        }
    }

    @Test
    void ifNoStreamCanBeOpenedAllChangesFailWithoutGrowingTheStack() throws Exception {
        Member member = member(Member.LEADING);
        TopicPoliciesClient client = client(member, new UnsupportedOperationException("the caller's interceptor"));
        AtomicInteger taken = new AtomicInteger();
        Iterable<Update> source = () -> IntStream.range(0, 20_000).mapToObj(number -> {
            taken.incrementAndGet();
            return update(number);
        }).iterator();
        List<String> messages = new ArrayList<>();
        Set<Long> depths = new HashSet<>();
        client.updateManyAsync(source, result -> {
            messages.add(failure(result).getMessage());
            while (taken.get() < Math.min(20_000, messages.size() + 3000)) { // there is always another batch at hand
                Thread.onSpinWait();
            }
            depths.add(StackWalker.getInstance().walk(Stream::count));
        }).get(50, TimeUnit.SECONDS);
        assertEquals(20_000, messages.size());
        assertTrue(messages.stream().allMatch(message -> message.contains("the caller's interceptor")), messages.get(0));
        assertEquals(1, depths.size(), depths.toString());
    }

    @Test
    void changesSentBeforeAnInterceptorThrewHaveAnUnknownOutcome() throws Exception {
        Member member = member(attempt -> Member.SILENCE);
        ClientInterceptor throwing = new ClientInterceptor() {
            @Override
            public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
                return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
                    @Override
                    public void sendMessage(Q message) {
                        if (member.changeCount() > 0) {
                            throw new UnsupportedOperationException("the caller's interceptor");
                        }
                        super.sendMessage(message);
                    }
                };
            }
        };
        Channel channel = ClientInterceptors.intercept(channelTo(member), throwing);
        TopicPoliciesClient client = closing(TopicPoliciesClient.on(channel, ClientOptions.of("unused").build()));
        List<Update> changes = updates(2);
        Iterable<Update> source = () -> changes.stream().peek(change -> {
            try {
                until(() -> change == changes.get(0) || member.changeCount() == 1);
            } catch (InterruptedException stopped) {
                throw new IllegalStateException(stopped);
            }
        }).iterator();
        List<ChangeResult> results = client.updateMany(source);
        assertEquals(changes.get(0).requestId(), assertInstanceOf(OutcomeUnknownException.class, failure(results.get(0))).requestId());
        assertEquals(List.of(2, 1), List.of(results.size(), member.changeCount()));
    }

    /** Returns a client on a channel whose interceptor throws at each call. */
    private TopicPoliciesClient client(Member member, Throwable error) {
        ClientInterceptor throwing = new ClientInterceptor() {
            @Override
            public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
                if (error instanceof Error fatal) {
                    throw fatal;
                }
                throw (RuntimeException) error;
            }
        };
        Channel channel = ClientInterceptors.intercept(channelTo(member), throwing);
        return closing(TopicPoliciesClient.on(channel, ClientOptions.of("unused").build()));
    }

    @Test
    void cancellingEndsTheStreamAndTheReadingOfChanges() throws Exception {
        Member member = member(attempt -> Member.SILENCE);
        List<Thread> takers = new CopyOnWriteArrayList<>();
        BlockingQueue<Update> never = new LinkedBlockingQueue<>();
        Iterable<Update> source = () -> IntStream.range(0, 2).mapToObj(number -> {
            takers.add(Thread.currentThread());
            try {
                return number == 0 ? update(0) : never.take();
            } catch (InterruptedException stopped) {
                throw new IllegalStateException(stopped);
            }
        }).iterator();
        CompletableFuture<Void> done = client(member.address()).updateManyAsync(source, result -> { });
        until(() -> member.changeCount() == 1);
        done.cancel(false);
        until(() -> member.cancelled.get() > 0);
        takers.get(0).join(20_000);
        assertFalse(takers.get(0).isAlive());
    }

    @Test
    void closingTheClientEndsManyChanges() throws Exception {
        Member member = member(attempt -> Member.SILENCE);
        TopicPoliciesClient client = client(member.address());
        CompletableFuture<Void> done = client.updateManyAsync(updates(3), result -> { });
        until(() -> member.changeCount() == 3);
        client.close();
        assertTrue(done.isDone());
        until(() -> member.cancelled.get() > 0);
        assertThrows(TopicPoliciesException.class, () -> client.updateMany(updates(1)));
    }
}
