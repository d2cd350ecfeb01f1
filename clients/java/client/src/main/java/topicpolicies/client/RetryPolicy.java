package topicpolicies.client;

import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.time.Duration;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import topicpolicies.v1.TopicPoliciesServiceGrpc;

/**
 * How calls are repeated. Only what is safe is: reads, and changes, because each carries a request id that the service remembers.
 *
 * <p>Reads of a client with one address are repeated by gRPC, which a service config tells how; it repeats none whose answer had begun. All
 * else is repeated by {@link Calls}: of several addresses gRPC would stay at the one that fails, and of a change it tells only how the last
 * attempt failed, so that one which broke on the way and was refused when it was repeated would look as if it was certainly not made.
 *
 * @param maxAttempts counts the first one too; 1 repeats nothing. Attempts that found no connection are not counted, nor those that were
 *     refused because another sidecar writes the namespace: these go on until the call's time is over
 * @param pauses the pauses between attempts
 * @param attemptTimeout how long one attempt of a change may take before it is repeated, perhaps elsewhere; reads may take all the time
 */
record RetryPolicy(int maxAttempts, Backoff pauses, Duration attemptTimeout) {
    static final RetryPolicy DEFAULT = new RetryPolicy(5, Backoff.RECONNECT, Duration.ofSeconds(10));
    static final RetryPolicy NONE = new RetryPolicy(1, Backoff.RECONNECT, Duration.ofDays(1));
    /** How a read fails that is repeated. */
    static final Set<Status.Code> PASSING = EnumSet.of(Status.Code.UNAVAILABLE, Status.Code.CANCELLED);

    private static final List<MethodDescriptor<?, ?>> READS = List.of(TopicPoliciesServiceGrpc.getGetPolicyMethod(),
            TopicPoliciesServiceGrpc.getGetEffectivePolicyMethod(), TopicPoliciesServiceGrpc.getListPoliciesMethod(),
            TopicPoliciesServiceGrpc.getListHistoryMethod(), TopicPoliciesServiceGrpc.getGetServerInfoMethod());

    boolean repeats() {
        return maxAttempts > 1;
    }

    /** The service config with which gRPC repeats reads, and nothing else, as this policy says; only for one that repeats. */
    Map<String, ?> ofReads() {
        Map<String, ?> policy = Map.of("maxAttempts", (double) maxAttempts, "initialBackoff", seconds(pauses.first()),
                "maxBackoff", seconds(pauses.longest()), "backoffMultiplier", pauses.factor(),
                "retryableStatusCodes", PASSING.stream().map(Enum::name).toList());
        List<?> names = READS.stream().map(read -> Map.of("service", read.getServiceName(), "method", read.getBareMethodName())).toList();
        return Map.of("methodConfig", List.of(Map.of("name", names, "retryPolicy", policy)));
    }

    /** As Protobuf's JSON has durations. */
    private static String seconds(Duration duration) {
        return String.format(Locale.ROOT, "%d.%09ds", duration.toSeconds(), duration.toNanosPart());
    }
}
