package topicpolicies.example;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import topicpolicies.client.PolicyCache;
import topicpolicies.client.TopicPoliciesClient;
import topicpolicies.v1.ChangeResult;
import topicpolicies.v1.DispatchRate;
import topicpolicies.v1.PolicyDocument;
import topicpolicies.v1.SubscriptionPolicies;
import topicpolicies.v1.TopicPolicies;

/** Changes, reads and follows the policies of one topic. Start {@code topicpolicies serve} first; the argument is its address. */
public final class Tour {
    private static final String TOPIC = "persistent://public/default/orders";

    private Tour() {
    }

    /** Runs the tour. */
    public static void main(String[] arguments) throws Exception {
        String target = arguments.length > 0 ? arguments[0] : TopicPoliciesClient.DEFAULT_TARGET;
        try (TopicPoliciesClient client = TopicPoliciesClient.builder(target).actor("tour").build();
                PolicyCache cache = client.cache("public/default")) {

            // A cache is a local copy that stays current; its listeners are called for the existing documents and every change since.
            CompletableFuture<Void> edited = new CompletableFuture<>();
            cache.listen(change -> change.after().filter(after -> after.getPolicies().getMaxProducerPerTopic() == 6)
                    .ifPresent(after -> edited.complete(null)));

            // An update changes the fields that its mask names. A named field that is not set is cleared: here the time to live.
            ChangeResult updated = client.update(TOPIC, TopicPolicies.newBuilder().setMaxProducerPerTopic(5).build(),
                    "max_producer_per_topic", "message_ttl_in_seconds");
            System.out.println("updated " + updated.getVersion() + ", was " + updated.getPreviousVersion());

            // An edit changes a copy and sends the difference. If another writer was faster, the function runs again.
            client.edit(TOPIC, policies -> policies.setMaxProducerPerTopic(policies.getMaxProducerPerTopic() + 1)
                    .putSubscriptionPolicies("billing", SubscriptionPolicies.newBuilder()
                            .setDispatchRate(DispatchRate.newBuilder().setDispatchThrottlingRateInMsg(100)).build()));
            System.out.println("producers " + client.get(TOPIC).getPolicies().getMaxProducerPerTopic());

            // The cache's listener was called for the edit; then the cache has it, too.
            edited.get(10, TimeUnit.SECONDS);
            System.out.println("cached " + cache.get(TOPIC).map(PolicyDocument::getVersion).orElse("nothing"));

            client.delete(TOPIC);
            System.out.println("exists " + client.get(TOPIC).hasPolicies());
        }
    }
}
