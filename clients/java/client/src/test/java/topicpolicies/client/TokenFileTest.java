package topicpolicies.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A bearer token that is read from a file. */
final class TokenFileTest {
    @TempDir
    private Path folder;

    private Path path() {
        return folder.resolve("token");
    }

    private void put(String content) throws IOException {
        Path other = folder.resolve("new");
        Files.writeString(other, content);
        Files.move(other, path(), StandardCopyOption.REPLACE_EXISTING);
    }

    @Test
    void theFileIsReadAgainWhenItChangesAndTheLastValidTokenIsKept() throws IOException {
        put("first\n");
        TokenFile token = new TokenFile(path(), Duration.ZERO);
        assertEquals("first", token.get());
        put(" second \n");
        assertEquals("second", token.get());
        for (String wrong : new String[] {"", "\n", "two words", "tökén", "a\nb", "a\0b"}) {
            put(wrong);
            assertEquals("second", token.get());
            assertThrows(IllegalArgumentException.class, () -> new TokenFile(path()));
        }
        Files.delete(path());
        assertEquals("second", token.get());
        assertThrows(UncheckedIOException.class, () -> new TokenFile(path()));
        put("third");
        assertEquals("third", token.get());
    }

    @Test
    void theFileIsNotCheckedForEachCall() throws IOException {
        put("first");
        TokenFile token = new TokenFile(path(), Duration.ofHours(1));
        put("second");
        assertEquals("first", token.get());
    }
}
