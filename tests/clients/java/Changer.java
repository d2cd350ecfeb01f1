import io.grpc.Metadata;
import io.grpc.stub.MetadataUtils;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import topicpolicies.client.PreconditionFailedException;
import topicpolicies.client.TopicPoliciesClient;
import topicpolicies.v1.ChangeResult;
import topicpolicies.v1.DispatchRate;
import topicpolicies.v1.SubscriptionPolicies;
import topicpolicies.v1.TopicPolicies;

/** The Java part of tests with all languages at once: it changes settings of its own in one document and prints each change. */
public final class Changer {
    /** A key that has to be quoted with backticks. */
    private static final String ENTRY = "of java.1";

    private Changer() {
    }

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int turns = Integer.parseInt(arguments[2]);
        AtomicInteger runs = new AtomicInteger();
        // Each call carries the trace, as instrumentation would add it.
        Metadata trace = new Metadata();
        Metadata.Key<String> parent = Metadata.Key.of("traceparent", Metadata.ASCII_STRING_MARSHALLER);
        Optional.ofNullable(System.getenv("TRACEPARENT")).ifPresent(given -> trace.put(parent, given));
        try (TopicPoliciesClient client = TopicPoliciesClient.builder(arguments[0]).actor("java")
                .intercept(MetadataUtils.newAttachHeadersInterceptor(trace)).build()) {
            client.get(topic);
            System.out.println("ready");
            new BufferedReader(new InputStreamReader(System.in)).readLine();
            for (int turn = 1; turn <= turns; turn++) {
                ChangeResult result = change(client, topic, turn, runs);
                System.out.printf("changed %d %s %s%n", turn, result.getPreviousVersion(), result.getVersion());
                Thread.sleep(ThreadLocalRandom.current().nextInt(60));
            }
        }
        System.out.println("runs " + runs);
    }

    /** Makes one change: in an odd turn an update of a field, in an even one an edit of an entry of a map. */
    private static ChangeResult change(TopicPoliciesClient client, String topic, int turn, AtomicInteger runs) {
        if (turn % 2 == 1) {
            TopicPolicies values = TopicPolicies.newBuilder().setMaxSubscriptionsPerTopic(turn).build();
            return client.update(topic, values, "max_subscriptions_per_topic");
        }
        DispatchRate rate = DispatchRate.newBuilder().setDispatchThrottlingRateInMsg(turn).build();
        while (true) {
            try {
                return client.edit(topic, policies -> {
                    runs.incrementAndGet();
                    policies.putSubscriptionPolicies(ENTRY, SubscriptionPolicies.newBuilder().setDispatchRate(rate).build());
                });
            } catch (PreconditionFailedException tooLate) {
                continue; // the edit was refused and not made: it is repeated
            }
        }
    }
}
