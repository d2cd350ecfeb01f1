package topicpolicies.broker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class PluginSettingsTest {
    @TempDir
    Path directory;

    private static Properties properties(String... pairs) {
        Properties properties = new Properties();
        for (int at = 0; at < pairs.length; at += 2) {
            properties.setProperty(pairs[at], pairs[at + 1]);
        }
        return properties;
    }

    @Test
    void withoutSettingsTheSidecarIsAtLocalhost() {
        PluginSettings settings = PluginSettings.of(properties("clusterName", "standalone"), "broker one");
        assertEquals("localhost:6680", settings.target());
        assertEquals(Duration.ofSeconds(20), settings.requestTimeout());
        assertEquals(Duration.ofSeconds(30), settings.loadTimeout());
    }

    @Test
    void allMistakesAreReportedAtOnce() {
        IllegalArgumentException error = assertThrows(IllegalArgumentException.class, () -> PluginSettings.of(properties(
                "topicPoliciesSidecarAdress", "here:1", "topicPoliciesSidecarLoadTimeoutSeconds", "soon",
                "topicPoliciesSidecarTlsEnabled", "perhaps", "topicPoliciesSidecarTokenFilePath", "/not/there",
                "topicPoliciesSidecarTlsKeyFilePath", "/not/there/either"), "broker"));
        for (String part : new String[] {"topicPoliciesSidecarAdress is not known", "LoadTimeoutSeconds is a positive number", "true or false",
            "/not/there can't be read", "belong together"}) {
            assertTrue(error.getMessage().contains(part), error.getMessage());
        }
    }

    @Test
    void aCopyIsKeptForLongerThanATopicMayWaitForIt() {
        String load = "topicPoliciesSidecarLoadTimeoutSeconds";
        String idle = "topicPoliciesSidecarNamespaceIdleSeconds";
        for (String seconds : new String[] {"5", "30"}) {
            String message = assertThrows(IllegalArgumentException.class,
                    () -> PluginSettings.of(properties(idle, seconds), "broker")).getMessage();
            assertTrue(message.contains(idle + " (" + seconds + ") must be longer than " + load + " (30)"), message);
        }
        assertEquals(Duration.ofSeconds(6), PluginSettings.of(properties(load, "5", idle, "6"), "broker").idle());
    }

    @Test
    void aTimeOfMoreThanAYearIsRefused() {
        for (String name : new String[] {"LoadTimeout", "RequestTimeout", "NamespaceIdle"}) {
            String setting = "topicPoliciesSidecar" + name + "Seconds";
            String message = assertThrows(IllegalArgumentException.class,
                    () -> PluginSettings.of(properties(setting, String.valueOf(Long.MAX_VALUE)), "broker")).getMessage();
            assertTrue(message.contains(setting) && message.contains("a year"), message);
        }
    }

    @Test
    void aTokenIsNotSentToAnotherMachineWithoutTls() throws IOException {
        Path file = Files.writeString(directory.resolve("token"), "secret");
        Properties elsewhere = properties("topicPoliciesSidecarAddress", "sidecar:6680", "topicPoliciesSidecarTokenFilePath", file.toString());
        String message = assertThrows(IllegalArgumentException.class, () -> PluginSettings.of(elsewhere, "broker").open(Runnable::run)).getMessage();
        assertTrue(message.contains("without TLS") && message.contains("set topicPoliciesSidecarTlsEnabled"), message);
        elsewhere.setProperty("topicPoliciesSidecarTlsEnabled", "true");
        PluginSettings.of(elsewhere, "broker").open(Runnable::run).close();
        Properties open = properties("topicPoliciesSidecarAddress", "sidecar:6680");
        PluginSettings.of(open, "broker").open(Runnable::run).close();
    }
}
