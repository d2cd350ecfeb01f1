package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import com.google.rpc.ErrorInfo;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import topicpolicies.v1.GetPolicyRequest;
import topicpolicies.v1.GetPolicyResponse;
import topicpolicies.v1.PolicyChangeRequest;
import topicpolicies.v1.PolicyChangeResult;
import topicpolicies.v1.UpdatePolicyRequest;
import topicpolicies.v1.UpdatePolicyResponse;

/** Whether calls, changes of a batch and watches are repeated: the vectors of all clients. */
final class RetryVectorsTest extends ClosedAfterwards {
    private static final String REQUEST_ID = "0123456789abcdef0123456789abcdef";
    private static final String TWO = "127.0.0.1:1,127.0.0.1:2"; // with several addresses gRPC itself repeats nothing
    private static final RetryPolicy SLOW =
            new RetryPolicy(5, new Backoff(Duration.ofMinutes(1), Duration.ofMinutes(1), 1), Duration.ofMinutes(5));
    private static final RetryPolicy SOON = new RetryPolicy(5, SHORT, Duration.ofMinutes(5));

    private static StatusRuntimeException error(JsonObject failure) {
        ErrorInfo.Builder info = ErrorInfo.newBuilder().setReason(Vectors.text(failure, "reason"))
                .setDomain(failure.get("service").getAsBoolean() ? "topicpolicies" : "example.org");
        if (failure.has("metadata")) {
            failure.getAsJsonObject("metadata").entrySet().forEach(each -> info.putMetadata(each.getKey(), each.getValue().getAsString()));
        }
        return Member.error(Status.Code.valueOf(failure.get("code").getAsString()), info.build());
    }

    @TestFactory
    Stream<DynamicTest> callsAreRepeatedAsTheSharedVectorsSay() throws IOException {
        return Vectors.in("retries.json").filter(vector -> !Vectors.text(vector, "call").equals("watch"))
                .map(vector -> DynamicTest.dynamicTest(Vectors.text(vector, "name"), () -> call(vector)));
    }

    private void call(JsonObject vector) throws Exception {
        List<JsonObject> failures = Vectors.objects(vector.get("failures")).toList();
        boolean change = Vectors.text(vector, "call").equals("change");
        List<String> addresses = new ArrayList<>();
        List<String> ids = new ArrayList<>();
        RetryPolicy policy = Vectors.text(vector, "then").equals("repeat at once") ? SLOW : SOON;
        Line line = closing(Line.to(ClientOptions.of(TWO).build(), policy));
        Calls calls = new Calls(line, policy, new Pauses(Runnable::run));
        CompletableFuture<?> done;
        if (change) {
            done = calls.change(new Calls.Question<UpdatePolicyRequest, UpdatePolicyResponse, UpdatePolicyResponse>((stub, request, answer) -> {
                addresses.add(stub.getChannel().authority());
                ids.add(request.getRequestId());
                answer(failures, addresses.size(), (Attempt<?, ?>) answer, () -> answer.onNext(UpdatePolicyResponse.getDefaultInstance()));
            }, UpdatePolicyRequest.newBuilder().setRequestId(REQUEST_ID).build(), Answered::message, Duration.ofMinutes(5)), "t/n", REQUEST_ID);
        } else {
            done = calls.read(new Calls.Question<GetPolicyRequest, GetPolicyResponse, GetPolicyResponse>((stub, request, answer) -> {
                addresses.add(stub.getChannel().authority());
                answer(failures, addresses.size(), (Attempt<?, ?>) answer, () -> answer.onNext(GetPolicyResponse.getDefaultInstance()));
            }, GetPolicyRequest.getDefaultInstance(), Answered::message, Duration.ofMinutes(5)));
        }
        switch (Vectors.text(vector, "then")) {
            case "repeat" -> done.get(20, TimeUnit.SECONDS);
            case "repeat at once" -> {
                done.get(20, TimeUnit.SECONDS);
                assertEquals(Vectors.text(vector, "at"), addresses.get(addresses.size() - 1));
            }
            default -> verdict(vector, assertThrows(ExecutionException.class, () -> done.get(20, TimeUnit.SECONDS)).getCause());
        }
        assertEquals(failures.size() + (Vectors.text(vector, "then").startsWith("repeat") ? 1 : 0), addresses.size());
        assertTrue(ids.stream().allMatch(REQUEST_ID::equals));
    }

    private static void answer(List<JsonObject> failures, int attempt, Attempt<?, ?> answer, Runnable success) {
        if (attempt > failures.size()) {
            success.run();
            answer.onCompleted();
            return;
        }
        JsonObject failure = failures.get(attempt - 1);
        if (!failure.has("neverSent")) {
            answer.sent().note();
        }
        answer.onError(error(failure));
    }

    private static void verdict(JsonObject vector, Throwable error) {
        if (Vectors.text(vector, "then").equals("outcome unknown")) {
            assertEquals(REQUEST_ID, assertInstanceOf(OutcomeUnknownException.class, error).requestId());
            assertTrue(error.getMessage().contains(". Repeat it with request id " + REQUEST_ID + " to learn it."), error.getMessage());
        } else {
            TopicPoliciesException given = assertInstanceOf(TopicPoliciesException.class, error);
            assertEquals(Status.Code.valueOf(Vectors.text(vector, "code")), given.code());
            assertTrue(!(given instanceof OutcomeUnknownException), given.getMessage());
        }
    }

    @TestFactory
    Stream<DynamicTest> changesOfABatchAreRepeatedAsTheSharedVectorsSay() throws IOException {
        return Vectors.in("retries.json").filter(vector -> Vectors.text(vector, "call").equals("change"))
                .map(vector -> DynamicTest.dynamicTest(Vectors.text(vector, "name"), () -> ofABatch(vector)));
    }

    private static void ofABatch(JsonObject vector) {
        Routes routes = new Routes(List.of("127.0.0.1:1", "127.0.0.1:2"), true);
        Pipeline pipeline = new Pipeline(routes, SOON, Duration.ofMinutes(5));
        Update update = Update.of("t/n/x").requestId(REQUEST_ID).build();
        PolicyChangeRequest message = update.inBatch().setSequence(7).build();
        pipeline.add(update, message);
        long later = System.nanoTime() + Duration.ofMinutes(10).toNanos();
        List<JsonObject> failures = Vectors.objects(vector.get("failures")).toList();
        List<ChangeResult> results = new ArrayList<>();
        for (JsonObject failure : failures) {
            String address = pipeline.ready(later).iterator().next();
            assertEquals(List.of(message), pipeline.batch(address, later).getChangesList(), "the same request, with the same id");
            StatusRuntimeException error = error(failure);
            if (failure.get("service").getAsBoolean() && Vectors.text(failure, "reason").equals("NOT_LEADER")) {
                pipeline.settle(address, PolicyChangeResult.newBuilder().setSequence(7).setError(StatusProto.fromThrowable(error)).build())
                        .ifPresent(results::add);
            } else {
                results.addAll(pipeline.broke(address, TopicPoliciesException.of(error), !failure.has("neverSent")));
            }
        }
        switch (Vectors.text(vector, "then")) {
            case "repeat" -> assertEquals(1, pipeline.ready(later).size());
            case "repeat at once" -> assertEquals(List.of(Vectors.text(vector, "at")), List.copyOf(pipeline.ready(System.nanoTime())));
            default -> {
                assertTrue(pipeline.isIdle());
                verdict(vector, ((ChangeResult.Failed) results.get(0)).error());
            }
        }
        assertEquals(Vectors.text(vector, "then").startsWith("repeat") ? 0 : 1, results.size());
    }

    @TestFactory
    Stream<DynamicTest> watchesReconnectOrEndAsTheSharedVectorsSay() throws IOException {
        return Vectors.in("retries.json").filter(vector -> Vectors.text(vector, "call").equals("watch"))
                .map(vector -> DynamicTest.dynamicTest(Vectors.text(vector, "name"), () -> {
                    WatchSession session = new WatchSession(Selection.ofNamespaces("t/n").build());
                    session.connect(new ArrayList<>());
                    JsonObject failure = Vectors.objects(vector.get("failures")).findFirst().orElseThrow();
                    assertEquals(Map.of("repeat", true, "give up", false).get(Vectors.text(vector, "then")),
                            session.broke(TopicPoliciesException.of(error(failure)), 0).isPresent());
                }));
    }
}
