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
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import topicpolicies.v1.GetPolicyRequest;
import topicpolicies.v1.GetPolicyResponse;
import topicpolicies.v1.TopicPolicies;
import topicpolicies.v1.TopicPoliciesServiceGrpc;
import topicpolicies.v1.WatchPoliciesRequest;
import topicpolicies.v1.WatchPoliciesResponse;

/** Calls, watches and caches that are in progress when their client is closed. */
@Timeout(60)
final class ClosingTest extends ClosedAfterwards {
    private static final Update CHANGE = Update.of(TOPIC)
            .policies(TopicPolicies.newBuilder().setMaxProducerPerTopic(3).build()).mask("max_producer_per_topic").build();
    private static final String UNREACHABLE = "127.0.0.1:1";

    private static Throwable failure(CompletableFuture<?> call) {
        assertTrue(call.isDone());
        return assertThrows(ExecutionException.class, call::get).getCause();
    }

    @Test
    void onAGivenChannelCallsEndAtOnceAndAreCancelledAtTheService() throws Exception {
        Member member = silent();
        ManagedChannel channel = channelTo(member);
        TopicPoliciesClient client = closing(TopicPoliciesClient.on(channel, ClientOptions.of("unused").timeout(Duration.ofMinutes(5)).build()));
        CompletableFuture<?> update = client.updateAsync(CHANGE);
        CompletableFuture<?> deletion = client.deleteAsync(Delete.of(TOPIC).build());
        CompletableFuture<?> read = client.getAsync(Read.of(TOPIC).build());
        until(() -> member.changeCount() == 2 && member.reads.get() == 1);
        client.close();
        assertInstanceOf(OutcomeUnknownException.class, failure(update));
        assertInstanceOf(OutcomeUnknownException.class, failure(deletion));
        assertInstanceOf(TopicPoliciesException.class, failure(read));
        until(() -> member.cancelled.get() == 3);
        assertFalse(channel.isShutdown());
    }

    @Test
    void closingTheClientEndsChangesEvenIfTheExecutorWasShutDown() throws Exception {
        Member member = silent();
        ExecutorService executor = Executors.newSingleThreadExecutor();
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(ClientOptions.of(member.address()).executor(executor).build()));
        CompletableFuture<?> update = client.updateAsync(CHANGE);
        until(() -> member.changeCount() == 1);
        executor.shutdownNow();
        client.close();
        assertInstanceOf(OutcomeUnknownException.class, failure(update));
    }

    @Test
    void aCallbackMayCloseAClientThatIsAlreadyClosing() {
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(ClientOptions.of(UNREACHABLE).executor(Runnable::run).build()));
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
    void callbacksRunWithoutBlockingOtherThreadsThatUseTheClient() throws Exception {
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(ClientOptions.of(UNREACHABLE).executor(Runnable::run).build()));
        CountDownLatch inCallback = new CountDownLatch(1);
        CountDownLatch called = new CountDownLatch(1);
        AtomicReference<Boolean> another = new AtomicReference<>();
        client.updateAsync(CHANGE).whenComplete((answer, error) -> {
            inCallback.countDown();
            try {
                another.set(called.await(20, TimeUnit.SECONDS));
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        });
        Thread caller = new Thread(() -> {
            try {
                inCallback.await();
                client.getAsync(Read.of(TOPIC).build()).exceptionally(error -> null);
                called.countDown();
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        });
        caller.start();
        client.close();
        caller.join();
        assertEquals(Boolean.TRUE, another.get());
    }

    @Test
    void aWatchThatIsOpenedWhileTheClientClosesEndsWithIt() throws Exception {
        Member member = silent();
        for (int turn = 0; turn < 300; turn++) {
            TopicPoliciesClient client = closing(TopicPoliciesClient.open(ClientOptions.of(member.address()).executor(Runnable::run).build()));
            CountDownLatch both = new CountDownLatch(2);
            AtomicReference<Watch> begun = new AtomicReference<>();
            Thread watching = new Thread(() -> {
                both.countDown();
                try {
                    both.await();
                    begun.set(client.watch(Selection.ofNamespaces("t/n").build(), event -> { }));
                } catch (TopicPoliciesException | InterruptedException late) {
                    // the watch was refused
                }
            });
            watching.start();
            both.countDown();
            both.await();
            client.close();
            watching.join();
            assertTrue(begun.get() == null || begun.get().isEnded(), "in turn " + turn);
        }
    }

    @Test
    void aCallCancelledWhileItStartsIsCancelledOnceItHasStarted() throws Exception {
        List<String> happened = new CopyOnWriteArrayList<>();
        CountDownLatch starting = new CountDownLatch(1);
        CountDownLatch cancelled = new CountDownLatch(1);
        ClientCall<WatchPoliciesRequest, WatchPoliciesResponse> call = recording(happened, () -> {
            starting.countDown();
            try {
                cancelled.await();
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        });
        Thread starter = new Thread(() -> call.start(new ClientCall.Listener<>() { }, new Metadata()));
        starter.start();
        starting.await();
        call.cancel("once", null);
        call.cancel("twice", null);
        cancelled.countDown();
        starter.join();
        call.cancel("later", null);
        assertEquals(List.of("started", "once", "later"), happened);
    }

    @Test
    void aCallCancelledBeforeItStartsIsCancelledOnceItHasStarted() {
        List<String> happened = new ArrayList<>();
        ClientCall<WatchPoliciesRequest, WatchPoliciesResponse> call = recording(happened, () -> { });
        call.cancel("once", null);
        call.cancel("twice", null);
        assertEquals(List.of(), happened);
        call.start(new ClientCall.Listener<>() { }, new Metadata());
        call.cancel("later", null);
        assertEquals(List.of("started", "once", "later"), happened);
    }

    @Test
    void aCancelledCallWhoseStartFailsIsCancelledToo() {
        List<String> happened = new ArrayList<>();
        ClientCall<WatchPoliciesRequest, WatchPoliciesResponse> call = recording(happened, () -> {
            throw new UnsupportedOperationException("the caller's interceptor");
        });
        call.cancel("once", null);
        assertThrows(UnsupportedOperationException.class, () -> call.start(new ClientCall.Listener<>() { }, new Metadata()));
        call.cancel("later", null);
        assertEquals(List.of("once", "later"), happened);
    }

    /** Returns a call that delays cancellations, and records what reaches the channel. */
    private static ClientCall<WatchPoliciesRequest, WatchPoliciesResponse> recording(List<String> happened, Runnable starting) {
        Channel channel = new Channel() {
            @Override
            public <Q, A> ClientCall<Q, A> newCall(MethodDescriptor<Q, A> method, CallOptions options) {
                return new ClientCall<>() {
                    @Override
                    public void start(Listener<A> listener, Metadata headers) {
                        starting.run();
                        happened.add("started");
                    }

                    @Override
                    public void cancel(String message, Throwable cause) {
                        happened.add(message);
                    }

                    @Override
                    public void request(int messages) { }

                    @Override
                    public void halfClose() { }

                    @Override
                    public void sendMessage(Q message) { }
                };
            }

            @Override
            public String authority() {
                return "none";
            }
        };
        return ClientInterceptors.intercept(channel, new CancelAfterStart())
                .newCall(TopicPoliciesServiceGrpc.getWatchPoliciesMethod(), CallOptions.DEFAULT);
    }

    @Test
    void aCallWhoseClientIsClosedBeforeItStartsFailsAsClosed() throws Exception {
        Member member = silent();
        Line line = closing(Line.to(ClientOptions.of(member.address()).build(), QUICK));
        line.stub(member.address()).getPolicy(GetPolicyRequest.getDefaultInstance(), new Attempt<>());
        until(() -> member.reads.get() == 1); // from here on calls go to a connection at once
        Pauses pauses = new Pauses(Runnable::run);
        Calls calls = new Calls(line, QUICK, pauses);
        ClientInterceptor closing = new ClientInterceptor() { // closes the client at the moment in which another thread might
            @Override
            public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
                return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
                    @Override
                    public void start(Listener<A> listener, Metadata headers) {
                        line.close();
                        calls.close();
                        pauses.close();
                        super.start(listener, headers);
                    }
                };
            }
        };
        Calls.Method<GetPolicyRequest, GetPolicyResponse> method = (stub, request, answer) ->
                stub.withInterceptors(closing).getPolicy(request, answer);
        CompletableFuture<GetPolicyResponse> read = calls.read(new Calls.Question<>(method, GetPolicyRequest.getDefaultInstance(),
                Answered::message, Duration.ofMinutes(5)));
        Throwable error = assertThrows(ExecutionException.class, () -> read.get(20, TimeUnit.SECONDS)).getCause();
        assertEquals(TopicPoliciesException.clientClosed().toString(), error.toString());
    }

    @Test
    void somethingAddedAfterClosingIsClosedAndRefused() {
        OpenThings things = new OpenThings();
        AtomicReference<String> closed = new AtomicReference<>("");
        things.add(() -> closed.updateAndGet(text -> text + "first"), new CompletableFuture<>());
        things.close();
        assertThrows(TopicPoliciesException.class, () -> things.add(() -> closed.updateAndGet(text -> text + " second"), new CompletableFuture<>()));
        assertEquals("first second", closed.get());
    }

    @Test
    void waitingForACacheFailsWhenItIsClosedBeforeItIsSynced() throws Exception {
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(UNREACHABLE));
        PolicyCache alone = client.cache("t/n");
        PolicyCache withTheClient = client.cache("t/m");
        assertFalse(alone.whenSynced().isDone());
        alone.close();
        assertInstanceOf(TopicPoliciesException.class, failure(alone.whenSynced()));
        client.close();
        assertInstanceOf(TopicPoliciesException.class, failure(withTheClient.whenSynced()));
        assertTrue(alone.ended() && withTheClient.ended() && !alone.synced());
    }

    @Test
    void closingTheClientEndsThePauseOfAnEdit() throws Exception {
        Member member = member(attempt -> Member.error(Status.Code.ABORTED, "ETAG_MISMATCH"));
        TopicPoliciesClient client = closing(TopicPoliciesClient.open(ClientOptions.of(member.address()).timeout(Duration.ofMinutes(5)).build()));
        CompletableFuture<?> edit = client.editAsync(Edit.of(TOPIC, policies -> policies.setMaxProducerPerTopic(1)).build());
        until(() -> member.changeCount() >= 8); // from here on each pause takes from 250 to 500 ms
        Thread.sleep(100); // for the answer to come: a call that is under way ends a little later than a pause
        client.close();
        assertInstanceOf(TopicPoliciesException.class, failure(edit));
    }

    @Test
    void anExceptionOfAnInterceptorAtARepeatEndsTheCall() throws Exception {
        Member member = member(Member.LEADING);
        member.reading = attempt -> Status.UNAVAILABLE.asRuntimeException();
        AtomicInteger calls = new AtomicInteger();
        ClientInterceptor throwing = new ClientInterceptor() {
            @Override
            public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
                if (calls.incrementAndGet() > 1) {
                    throw new UnsupportedOperationException("the caller's interceptor");
                }
                return next.newCall(method, options);
            }
        };
        ManagedChannel channel = channelTo(member);
        TopicPoliciesClient client = closing(
                TopicPoliciesClient.on(ClientInterceptors.intercept(channel, throwing), ClientOptions.of("unused").build()));
        CompletableFuture<Document> read = client.getAsync(Read.of(TOPIC).build());
        Throwable error = assertThrows(ExecutionException.class, () -> read.get(20, TimeUnit.SECONDS)).getCause();
        assertTrue(error.getMessage().contains("the caller's interceptor"), error.getMessage());
    }

    @Test
    void aCallWhoseRepeatTheExecutorRejectsFailsWithItsLastError() throws Exception {
        Member member = member(attempt -> Member.refusal(""));
        ManagedChannel channel = channelTo(member);
        ExecutorService executor = Executors.newSingleThreadExecutor();
        TopicPoliciesClient client = closing(TopicPoliciesClient.on(channel,
                ClientOptions.of("unused").executor(executor).timeout(Duration.ofMinutes(5)).build()));
        CompletableFuture<?> update = client.updateAsync(CHANGE);
        until(() -> member.changeCount() == 1);
        executor.shutdownNow();
        TopicPoliciesException error = TopicPoliciesException.of(assertThrows(ExecutionException.class, () -> update.get(20, TimeUnit.SECONDS)));
        assertEquals("NOT_LEADER", error.reason());
    }

    @Test
    void callsInFlightSurviveTheEvictionOfTheirConnection() throws Exception {
        CountDownLatch answer = new CountDownLatch(1);
        Member member = member(Member.LEADING);
        member.reading = attempt -> {
            try {
                answer.await();
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
            return null;
        };
        Line line = closing(Line.to(ClientOptions.of(UNREACHABLE).build(), QUICK));
        Attempt<GetPolicyRequest, GetPolicyResponse> attempt = new Attempt<>();
        line.stub(member.address()).getPolicy(GetPolicyRequest.getDefaultInstance(), attempt);
        until(() -> member.reads.get() == 1);
        for (int port = 1; port <= 200; port++) {
            line.stub("127.0.0.2:" + port);
        }
        answer.countDown();
        attempt.answered().get(20, TimeUnit.SECONDS);
    }
}
