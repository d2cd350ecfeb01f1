package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

final class ClientOptionsTest {
    @Test
    void tlsIsTheDefaultForAnotherMachineAndCanBeTurnedOff() {
        for (String elsewhere : List.of("sidecar:6680", "10.0.0.1:6680", "dns:///sidecar:6680", "localhost:6680,sidecar:6680")) {
            assertTrue(ClientOptions.of(elsewhere).build().tls().isPresent(), elsewhere);
            assertTrue(ClientOptions.of(elsewhere).withoutTls().build().tls().isEmpty(), elsewhere);
        }
        for (String here : List.of("localhost:6680", "127.0.0.1:6680", "[::1]:6680", "unix:/run/sidecar", "localhost:1,127.0.0.1:2")) {
            assertTrue(ClientOptions.of(here).build().tls().isEmpty(), here);
            assertTrue(ClientOptions.of(here).tls(Tls.DEFAULT).build().tls().isPresent(), here);
        }
    }

    @Test
    void aTokenIsNotSentToAnotherMachineWithoutTls() {
        for (String elsewhere : List.of("sidecar:6680", "localhost:6680,sidecar:6680")) {
            ClientOptions.Builder open = ClientOptions.of(elsewhere).withoutTls().token(() -> "secret");
            assertTrue(assertThrows(IllegalArgumentException.class, open::build).getMessage().contains(elsewhere));
            assertTrue(ClientOptions.of(elsewhere).token(() -> "secret").build().tls().isPresent());
        }
        assertTrue(ClientOptions.of("localhost:6680").token(() -> "secret").build().tls().isEmpty(), "TLS is not the default on this machine");
    }

    @Test
    void invalidOptionsAreRefusedAndTheTokenIsNotShown() {
        assertThrows(IllegalArgumentException.class, () -> ClientOptions.of("here").timeout(Duration.ZERO));
        assertThrows(IllegalArgumentException.class, () -> Update.of("t/n/x").timeout(Duration.ofSeconds(-1)));
        assertThrows(IllegalArgumentException.class, () -> Selection.ofTopics().build());
        assertFalse(ClientOptions.of("localhost").token(() -> "secret").build().toString().contains("secret"));
    }

    @Test
    void tlsSettingsAreAddedToOneAnother() {
        Tls tls = Tls.trusting(Path.of("ca")).certificate(Path.of("own"), Path.of("key")).serverName("sidecar");
        assertEquals(List.of(Path.of("ca"), Path.of("own"), Path.of("key")),
                List.of(tls.authorities().orElseThrow(), tls.certificate().orElseThrow(), tls.key().orElseThrow()));
        assertEquals("sidecar", tls.serverName().orElseThrow());
    }
}
