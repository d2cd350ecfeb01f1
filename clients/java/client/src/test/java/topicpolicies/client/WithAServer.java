package topicpolicies.client;

import java.nio.file.Path;
import java.util.UUID;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.io.TempDir;
import topicpolicies.v1.TopicPolicies;

/** Tests against a server that the tests of a class share; each test has its own namespace. */
abstract class WithAServer {
    @TempDir
    static Path directory;
    static RunningServer server;
    static TopicPoliciesClient client;

    final String namespace = "public/java-" + UUID.randomUUID();
    final String topic = "persistent://" + namespace + "/orders";

    @BeforeAll
    static void start() throws Exception {
        server = new RunningServer(directory);
        server.start();
        client = TopicPoliciesClient.builder(server.target()).actor("java tests").build();
    }

    @AfterAll
    static void stop() {
        client.close();
        server.close();
    }

    static TopicPolicies producers(int count) {
        return TopicPolicies.newBuilder().setMaxProducerPerTopic(count).build();
    }
}
