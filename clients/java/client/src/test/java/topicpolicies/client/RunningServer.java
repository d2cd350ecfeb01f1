package topicpolicies.client;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;

/**
 * The real server in a separate process, on a port that stays the same across restarts. The environment variable {@value #COMMAND} has the
 * command that starts it, without its address and its data, one argument a line; without it the tests fail instead of being skipped.
 */
final class RunningServer implements AutoCloseable {
    static final String COMMAND = "JAVA_TESTS_SERVER";
    private static final Duration READY_TIME = Duration.ofSeconds(120);

    private final List<String> command = new ArrayList<>();
    private final Path output;
    private final int port;
    private Process process;

    RunningServer(Path directory, String... options) throws IOException {
        String given = System.getenv(COMMAND);
        if (given == null) {
            throw new IllegalStateException(COMMAND + " does not say how to start the server; run tests/clients/test_java.py");
        }
        port = freePort();
        command.addAll(given.lines().toList());
        command.addAll(List.of("--listen", target(), "--data", directory.resolve("policies.db").toString()));
        command.addAll(List.of(options));
        output = directory.resolve("server.log");
    }

    String target() {
        return "127.0.0.1:" + port;
    }

    void start() throws IOException, InterruptedException {
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
        builder.environment().keySet().removeIf(name -> name.startsWith("TOPICPOLICIES_")); // the server's own options
        process = builder.redirectOutput(ProcessBuilder.Redirect.appendTo(output.toFile())).start();
        long deadline = System.nanoTime() + READY_TIME.toNanos();
        while (!listens()) {
            if (!process.isAlive() || System.nanoTime() > deadline) {
                process.destroyForcibly();
                throw new IllegalStateException("the server does not serve; it printed:\n" + Files.readString(output));
            }
            Thread.sleep(50);
        }
    }

    void kill() {
        process.destroyForcibly().onExit().join();
    }

    @Override
    public void close() {
        if (process != null) {
            kill();
        }
    }

    /** Returns a port at which nothing listens. It is below the range of outgoing connections, so that none of them takes it meanwhile. */
    private static int freePort() throws IOException {
        for (int attempt = 1;; attempt++) {
            int port = ThreadLocalRandom.current().nextInt(20_000, 32_000);
            try (ServerSocket probe = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
                return probe.getLocalPort();
            } catch (IOException taken) {
                if (attempt == 100) {
                    throw taken;
                }
            }
        }
    }

    private boolean listens() {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            return socket.isConnected();
        } catch (IOException error) {
            return false;
        }
    }
}
