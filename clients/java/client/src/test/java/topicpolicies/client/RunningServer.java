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
 * The real server in a process of its own, on one port that it keeps from one life to the next. The command to start it, without its
 * address and its data, is in the environment variable {@value #COMMAND}, one argument a line; without it the tests fail, and are not
 * skipped.
 */
final class RunningServer implements AutoCloseable {
    static final String COMMAND = "JAVA_TESTS_SERVER";
    private static final Duration PATIENCE = Duration.ofSeconds(30);

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
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (!listens()) {
            if (!process.isAlive() || System.nanoTime() > deadline) {
                process.destroyForcibly();
                throw new IllegalStateException("the server does not serve; it said:\n" + Files.readString(output));
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

    /** One at which nobody listens now, and below those that outgoing connections get, so that none takes it meanwhile. */
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
