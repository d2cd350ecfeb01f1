package topicpolicies.broker;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Supplier;
import topicpolicies.client.ClientOptions;
import topicpolicies.client.Tls;

/**
 * The settings of the plug-in in {@code broker.conf}: properties that begin with {@code topicPoliciesSidecar}.
 *
 * @param client how the sidecar is reached, and the time limit of one call
 * @param loadTimeout how long loading a topic waits for its namespace's policies before it fails
 * @param idle how long a copy of a namespace is kept without being needed
 */
record PluginSettings(ClientOptions client, Duration loadTimeout, Duration idle) {
    static final String PREFIX = "topicPoliciesSidecar";
    private static final String ADDRESS = PREFIX + "Address";
    private static final String TLS = PREFIX + "TlsEnabled";
    private static final String TRUST = PREFIX + "TlsTrustCertsFilePath";
    private static final String CERTIFICATE = PREFIX + "TlsCertificateFilePath";
    private static final String KEY = PREFIX + "TlsKeyFilePath";
    private static final String SERVER_NAME = PREFIX + "TlsServerName";
    private static final String TOKEN = PREFIX + "TokenFilePath";
    private static final String REQUEST_TIMEOUT = PREFIX + "RequestTimeoutSeconds";
    private static final String LOAD_TIMEOUT = PREFIX + "LoadTimeoutSeconds";
    private static final String IDLE = PREFIX + "NamespaceIdleSeconds";
    private static final long MOST_SECONDS = Duration.ofDays(365).toSeconds();
    private static final Set<String> KNOWN =
            Set.of(ADDRESS, TLS, TRUST, CERTIFICATE, KEY, SERVER_NAME, TOKEN, REQUEST_TIMEOUT, LOAD_TIMEOUT, IDLE);

    /**
     * Reads the settings.
     *
     * @param properties the broker's properties; those of others than the plug-in are ignored
     * @param actor the name of the broker as an actor
     * @throws IllegalArgumentException if settings are wrong; the message names every problem
     */
    static PluginSettings of(Properties properties, String actor) {
        List<String> problems = new ArrayList<>();
        for (String name : new TreeSet<>(properties.stringPropertyNames())) {
            if (name.startsWith(PREFIX) && !KNOWN.contains(name)) {
                problems.add(name + " is not known; there are " + String.join(", ", new TreeSet<>(KNOWN)));
            }
        }
        ClientOptions.Builder client = ClientOptions.of(text(properties, ADDRESS).orElse(ClientOptions.DEFAULT_TARGET)).actor(actor);
        client.timeout(seconds(properties, REQUEST_TIMEOUT, 20, problems));
        Optional<Path> token = file(properties, TOKEN, problems);
        token.ifPresent(file -> client.token(fileContent(file)));
        boolean tls = flag(properties, TLS, problems);
        Optional<Path> certificate = file(properties, CERTIFICATE, problems);
        Optional<Path> key = file(properties, KEY, problems);
        Optional<Path> trust = file(properties, TRUST, problems);
        if (certificate.isPresent() != key.isPresent()) {
            problems.add(CERTIFICATE + " and " + KEY + " belong together: give both or none");
        } else if (tls) {
            client.tls(tls(trust, certificate, key, text(properties, SERVER_NAME)));
        } else {
            client.withoutTls();
            if (trust.isPresent() || certificate.isPresent()) {
                problems.add("files for TLS are given, but " + TLS + " is not true");
            }
        }
        Duration load = seconds(properties, LOAD_TIMEOUT, 30, problems);
        Duration idle = seconds(properties, IDLE, 600, problems);
        if (idle.compareTo(load) <= 0) { // otherwise a copy would be dropped while a topic waits for it
            problems.add(IDLE + " (" + idle.toSeconds() + ") must be longer than " + LOAD_TIMEOUT + " (" + load.toSeconds() + ")");
        }
        Optional<ClientOptions> options = Optional.empty();
        try {
            options = Optional.of(client.build());
        } catch (IllegalArgumentException error) {
            problems.add(error.getMessage() + "; set " + TLS);
        }
        if (!problems.isEmpty()) {
            throw new IllegalArgumentException("The settings of the topic policies plug-in are wrong: " + String.join("; ", problems) + ".");
        }
        return new PluginSettings(options.orElseThrow(), load, idle);
    }

    private static Tls tls(Optional<Path> trust, Optional<Path> certificate, Optional<Path> key, Optional<String> serverName) {
        Tls tls = trust.map(Tls::trusting).orElse(Tls.DEFAULT);
        tls = certificate.isPresent() && key.isPresent() ? tls.certificate(certificate.get(), key.get()) : tls;
        return serverName.isPresent() ? tls.serverName(serverName.get()) : tls;
    }

    private static Optional<String> text(Properties properties, String name) {
        return Optional.ofNullable(properties.getProperty(name)).map(String::strip).filter(value -> !value.isEmpty());
    }

    private static boolean flag(Properties properties, String name, List<String> problems) {
        String value = text(properties, name).orElse("false").toLowerCase(Locale.ROOT);
        if (!value.equals("true") && !value.equals("false")) {
            problems.add(name + " is true or false, not " + value);
        }
        return value.equals("true");
    }

    private static Optional<Path> file(Properties properties, String name, List<String> problems) {
        Optional<Path> path = text(properties, name).map(Path::of);
        path.filter(each -> !Files.isReadable(each)).ifPresent(each -> problems.add(name + ": the file " + each + " can't be read"));
        return path;
    }

    private static Duration seconds(Properties properties, String name, long otherwise, List<String> problems) {
        String value = text(properties, name).orElse(String.valueOf(otherwise));
        try {
            long seconds = Long.parseLong(value);
            if (seconds > 0 && seconds <= MOST_SECONDS) {
                return Duration.ofSeconds(seconds);
            }
        } catch (NumberFormatException error) {
            // reported below
        }
        problems.add(name + " is a positive number of seconds, at most " + MOST_SECONDS + " (a year), not " + value);
        return Duration.ofSeconds(otherwise);
    }

    /** Returns a supplier that reads the token for each call: token files are replaced while brokers run. */
    private static Supplier<String> fileContent(Path path) {
        return () -> {
            try {
                return Files.readString(path).strip();
            } catch (IOException error) {
                throw new UncheckedIOException("the file " + path + " can't be read", error);
            }
        };
    }
}
