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
 * How failed calls are retried. Only calls for which that is safe are: reads, and changes, because each carries a request id that the
 * service remembers.
 *
 * <p>Reads of a client with one address are retried by gRPC, as a service config says; gRPC retries none whose answer had begun. All other
 * calls are retried by {@link Calls}: with several addresses, gRPC would stay at the one that fails, and of a change it reports only how
 * the last attempt failed. A change that broke on the first attempt and was refused on the second would then seem certainly not made.
 *
 * @param maxAttempts the maximum number of attempts, the first one included; 1 means no retries. Attempts that found no connection, or were
 *     refused because another sidecar writes the namespace, do not count: they are repeated until the call's time is over
 * @param pauses the pauses between attempts
 * @param attemptTimeout how long one attempt of a change may take before the change is sent again, perhaps to another address; a read's
 *     attempt may take all of the call's time
 */
record RetryPolicy(int maxAttempts, Backoff pauses, Duration attemptTimeout) {
    static final RetryPolicy DEFAULT = new RetryPolicy(5, Backoff.RECONNECT, Duration.ofSeconds(10));
    static final RetryPolicy NONE = new RetryPolicy(1, Backoff.RECONNECT, Duration.ofDays(1));
    /** The status codes with which gRPC retries a read. */
    static final Set<Status.Code> PASSING = EnumSet.of(Status.Code.UNAVAILABLE, Status.Code.CANCELLED);

    private static final List<MethodDescriptor<?, ?>> READS = List.of(TopicPoliciesServiceGrpc.getGetPolicyMethod(),
            TopicPoliciesServiceGrpc.getGetEffectivePolicyMethod(), TopicPoliciesServiceGrpc.getListPoliciesMethod(),
            TopicPoliciesServiceGrpc.getListHistoryMethod(), TopicPoliciesServiceGrpc.getGetServerInfoMethod());

    boolean repeats() {
        return maxAttempts > 1;
    }

    /**
     * Returns the service config with which gRPC retries reads, and nothing else, as this policy says. The policy must allow more than one
     * attempt.
     */
    Map<String, ?> ofReads() {
        Map<String, ?> policy = Map.of("maxAttempts", (double) maxAttempts, "initialBackoff", seconds(pauses.first()),
                "maxBackoff", seconds(pauses.longest()), "backoffMultiplier", pauses.factor(),
                "retryableStatusCodes", PASSING.stream().map(Enum::name).toList());
        List<?> names = READS.stream().map(read -> Map.of("service", read.getServiceName(), "method", read.getBareMethodName())).toList();
        return Map.of("methodConfig", List.of(Map.of("name", names, "retryPolicy", policy)));
    }

    /** The duration in Protobuf's JSON form. */
    private static String seconds(Duration duration) {
        return String.format(Locale.ROOT, "%d.%09ds", duration.toSeconds(), duration.toNanosPart());
    }
}
