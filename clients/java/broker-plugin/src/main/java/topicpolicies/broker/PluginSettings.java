package topicpolicies.broker;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.io.IOException;
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
import java.util.concurrent.Executor;
import topicpolicies.client.TopicPoliciesClient;

/**
 * The settings of the plug-in in {@code broker.conf}: properties that begin with {@code topicPoliciesSidecar}.
 *
 * @param client how the sidecar is reached
 * @param target the address of the sidecar
 * @param requestTimeout how long a request of the broker may take, all its calls together
 * @param loadTimeout how long loading a topic waits for its namespace's policies before it fails
 * @param idle how long a copy of a namespace is kept without being needed
 */
record PluginSettings(TopicPoliciesClient.Builder client, String target, Duration requestTimeout, Duration loadTimeout, Duration idle) {
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
        String target = text(properties, ADDRESS).orElse(TopicPoliciesClient.DEFAULT_TARGET);
        TopicPoliciesClient.Builder client = TopicPoliciesClient.builder(target).actor(actor);
        file(properties, TOKEN, problems).ifPresent(client::tokenFile);
        boolean tls = flag(properties, TLS, problems);
        Optional<Path> certificate = file(properties, CERTIFICATE, problems);
        Optional<Path> key = file(properties, KEY, problems);
        Optional<Path> trust = file(properties, TRUST, problems);
        if (certificate.isPresent() != key.isPresent()) {
            problems.add(CERTIFICATE + " and " + KEY + " belong together: give both or none");
        } else if (tls) {
            client.credentials(tls(trust, certificate, key, problems));
            text(properties, SERVER_NAME).ifPresent(client::overrideAuthority);
        } else {
            client.credentials(InsecureChannelCredentials.create());
            if (trust.isPresent() || certificate.isPresent()) {
                problems.add("files for TLS are given, but " + TLS + " is not true");
            }
        }
        Duration load = seconds(properties, LOAD_TIMEOUT, 30, problems);
        Duration idle = seconds(properties, IDLE, 600, problems);
        if (idle.compareTo(load) <= 0) { // otherwise a copy would be dropped while a topic waits for it
            problems.add(IDLE + " (" + idle.toSeconds() + ") must be longer than " + LOAD_TIMEOUT + " (" + load.toSeconds() + ")");
        }
        Duration request = seconds(properties, REQUEST_TIMEOUT, 20, problems);
        if (!problems.isEmpty()) {
            throw new IllegalArgumentException("The settings of the topic policies plug-in are wrong: " + String.join("; ", problems) + ".");
        }
        return new PluginSettings(client, target, request, load, idle);
    }

    /** Opens the client, whose futures complete on {@code executor}. */
    TopicPoliciesClient open(Executor executor) {
        try {
            return client.executor(executor).build();
        } catch (IllegalArgumentException error) {
            throw new IllegalArgumentException(error.getMessage() + "; set " + TLS, error);
        }
    }

    private static ChannelCredentials tls(Optional<Path> trust, Optional<Path> certificate, Optional<Path> key, List<String> problems) {
        TlsChannelCredentials.Builder tls = TlsChannelCredentials.newBuilder();
        try {
            if (trust.isPresent()) {
                tls.trustManager(trust.get().toFile());
            }
            if (certificate.isPresent() && key.isPresent()) {
                tls.keyManager(certificate.get().toFile(), key.get().toFile());
            }
        } catch (IOException error) {
            problems.add("a file for TLS can't be read: " + error.getMessage());
        }
        return tls.build();
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
}
