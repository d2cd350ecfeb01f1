package topicpolicies.client;

import java.nio.file.Path;
import java.util.Optional;

/** The TLS settings of a connection. All files are PEM. Immutable: each method returns changed settings. */
public final class Tls {
    /** TLS with Java's own certificate authorities. */
    public static final Tls DEFAULT = new Tls(Optional.empty(), Optional.empty(), Optional.empty(), Optional.empty());

    private final Optional<Path> authorities;
    private final Optional<Path> certificate;
    private final Optional<Path> key;
    private final Optional<String> serverName;

    private Tls(Optional<Path> authorities, Optional<Path> certificate, Optional<Path> key, Optional<String> serverName) {
        this.authorities = authorities;
        this.certificate = certificate;
        this.key = key;
        this.serverName = serverName;
    }

    /** TLS with the certificate authorities of a file, against which the server's certificate is checked. */
    public static Tls trusting(Path authorities) {
        return new Tls(Optional.of(authorities), Optional.empty(), Optional.empty(), Optional.empty());
    }

    /** Adds the client's certificate and its private key, if the server requires one (mutual TLS). */
    public Tls certificate(Path certificateFile, Path keyFile) {
        return new Tls(authorities, Optional.of(certificateFile), Optional.of(keyFile), serverName);
    }

    /** Sets the name in the server's certificate, if it differs from the address. */
    public Tls serverName(String value) {
        return new Tls(authorities, certificate, key, Optional.of(value));
    }

    /** The file of the certificate authorities; empty: Java's own. */
    public Optional<Path> authorities() {
        return authorities;
    }

    /** The file of the client's certificate. */
    public Optional<Path> certificate() {
        return certificate;
    }

    /** The file of the client's private key. */
    public Optional<Path> key() {
        return key;
    }

    /** The name in the server's certificate; empty: the address. */
    public Optional<String> serverName() {
        return serverName;
    }
}
