package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Calls to a server that requires client certificates. The environment variable {@value #CERTIFICATES} names their directory. */
@Timeout(60)
final class TlsTest {
    private static final String CERTIFICATES = "JAVA_TESTS_CERTIFICATES";
    private static final String TOPIC = "persistent://public/default/tls";

    @TempDir
    static Path directory;
    private static RunningServer server;

    private static Path file(String name) {
        return Path.of(System.getenv(CERTIFICATES), name);
    }

    @BeforeAll
    static void start() throws Exception {
        server = new RunningServer(directory, "--tls-certificate", file("server.pem").toString(), "--tls-key", file("server-key.pem").toString(),
                "--tls-client-ca", file("authority.pem").toString());
        server.start();
    }

    @AfterAll
    static void stop() {
        server.close();
    }

    private static void call(Tls tls) {
        ClientOptions options = ClientOptions.of(server.target()).tls(tls).timeout(Duration.ofSeconds(3)).build();
        try (TopicPoliciesClient client = TopicPoliciesClient.open(options)) {
            assertFalse(client.get(TOPIC, Scope.LOCAL).exists());
        }
    }

    private static Tls mutual() {
        return Tls.trusting(file("authority.pem")).certificate(file("client.pem"), file("client-key.pem"));
    }

    @Test
    void aCallSucceedsWithTheRightCertificates() {
        call(mutual());
        call(mutual().serverName("localhost"));
    }

    @Test
    void aCallFailsIfACertificateOrTheServerNameIsWrong() {
        assertThrows(TopicPoliciesException.class, () -> call(Tls.trusting(file("authority.pem"))), "without a client certificate");
        assertThrows(TopicPoliciesException.class, () -> call(Tls.DEFAULT), "with an authority that Java does not trust");
        assertThrows(TopicPoliciesException.class, () -> call(mutual().serverName("elsewhere")), "with another server name");
    }
}
