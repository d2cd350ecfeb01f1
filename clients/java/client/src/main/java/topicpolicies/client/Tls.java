package topicpolicies.client;

import java.nio.file.Path;
import java.util.Optional;

/**
 * TLS of a connection. All files are PEM.
 *
 * @param authorities what the server's certificate is checked against; empty: Java's own
 * @param certificate the client's own certificate, if the server asks for one (mutual TLS)
 * @param key its private key
 * @param serverName the name that the server's certificate carries, where it differs from the address
 */
public record Tls(Optional<Path> authorities, Optional<Path> certificate, Optional<Path> key, Optional<String> serverName) {
    /** TLS with Java's own authorities. */
    public static final Tls DEFAULT = new Tls(Optional.empty(), Optional.empty(), Optional.empty(), Optional.empty());

    /** Checks that a certificate has its key. */
    public Tls {
        if (certificate.isPresent() != key.isPresent()) {
            throw new IllegalArgumentException("a client's certificate and its private key belong together: give both or none");
        }
    }

    /** TLS with the authorities of a file. */
    public static Tls trusting(Path authorities) {
        return new Tls(Optional.of(authorities), Optional.empty(), Optional.empty(), Optional.empty());
    }
}
