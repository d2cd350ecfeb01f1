package topicpolicies.client;

import com.google.protobuf.Timestamp;
import java.time.Duration;
import java.time.Instant;

/** Converts times and durations to messages and back. */
final class Times {
    private Times() {
    }

    static Timestamp message(Instant time) {
        return Timestamp.newBuilder().setSeconds(time.getEpochSecond()).setNanos(time.getNano()).build();
    }

    static com.google.protobuf.Duration message(Duration duration) {
        return com.google.protobuf.Duration.newBuilder().setSeconds(duration.getSeconds()).setNanos(duration.getNano()).build();
    }

    static Instant of(Timestamp message) {
        return Instant.ofEpochSecond(message.getSeconds(), message.getNanos());
    }
}
