package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The first example of the README is a whole program, and does what its comments say. */
@Timeout(120)
final class ReadmeTest extends WithAServer {
    @Test
    void theFirstExampleRuns() throws Exception {
        String program = Files.readString(Path.of("README.md")).split("```java\n")[1].split("```")[0];
        Path source = Files.writeString(directory.resolve("Orders.java"), program.replace("localhost:6680", server.target()));
        Path java = Path.of(System.getProperty("java.home"), "bin", "java");
        Process run = new ProcessBuilder(java.toString(), "-cp", System.getProperty("java.class.path"), source.toString())
                .redirectErrorStream(true).start();
        List<String> lines = run.inputReader().lines().filter(line -> !line.contains("JDK_JAVA_OPTIONS")).toList();
        assertTrue(run.waitFor(60, TimeUnit.SECONDS));
        assertEquals(0, run.exitValue(), lines::toString);
        assertTrue(lines.containsAll(List.of("persistent://public/default/orders has changed", "6")), lines::toString);
    }
}
