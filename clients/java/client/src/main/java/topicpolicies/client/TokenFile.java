package topicpolicies.client;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.function.Supplier;

/**
 * A bearer token that is read from a file, for {@link ClientOptions.Builder#token}. The file is read again when it changes; while it can't
 * be read, or has no token in it, the last token stays in use. Threads and clients can share one.
 */
public final class TokenFile implements Supplier<String> {
    private static final Duration LOOK = Duration.ofSeconds(1);

    private final Path path;
    private final long lookNanos;
    private List<Object> seen;
    private String token;
    private long looked;

    /**
     * Reads the file.
     *
     * @throws UncheckedIOException if the file can't be read
     * @throws IllegalArgumentException if the file has no token in it
     */
    public TokenFile(Path path) {
        this(path, LOOK);
    }

    /** {@code look} is the time between two checks of the file. */
    TokenFile(Path path, Duration look) {
        this.path = path;
        this.lookNanos = look.toNanos();
        this.seen = stamp();
        this.token = read();
        this.looked = System.nanoTime();
    }

    /** The present token. */
    @Override
    public synchronized String get() {
        if (System.nanoTime() - looked >= lookNanos) {
            looked = System.nanoTime();
            renew();
        }
        return token;
    }

    private void renew() {
        try {
            List<Object> stamp = stamp();
            if (!stamp.equals(seen)) {
                token = read();
                seen = stamp;
            }
        } catch (UncheckedIOException | IllegalArgumentException error) {
            return; // the file is checked again: its writer may be in the middle of writing
        }
    }

    /** The file's key, modification time and size, which change when the file is replaced or written. */
    private List<Object> stamp() {
        try {
            BasicFileAttributes found = Files.readAttributes(path, BasicFileAttributes.class);
            return List.of(Objects.requireNonNullElse(found.fileKey(), path), found.lastModifiedTime(), found.size());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private String read() {
        try {
            String found = new String(Files.readAllBytes(path), StandardCharsets.UTF_8).strip();
            if (found.isEmpty() || found.chars().anyMatch(each -> each <= ' ' || each > '~')) {
                throw new IllegalArgumentException("the file " + path + " has no bearer token in it");
            }
            return found;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
