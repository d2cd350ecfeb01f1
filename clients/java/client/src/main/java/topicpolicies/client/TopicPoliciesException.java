package topicpolicies.client;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

/** The error of a failed call: of the service, or of the connection. */
public class TopicPoliciesException extends RuntimeException {
    /** The status codes of changes that met another document than they require. */
    private static final Set<Status.Code> CONFLICTS = EnumSet.of(Status.Code.ABORTED, Status.Code.ALREADY_EXISTS);
    private static final String DOMAIN = "topicpolicies";

    /**
     * One thing that is wrong with a request.
     *
     * @param field the path of the field in the request, such as {@code update_mask.paths[1]}
     * @param reason machine-readable, such as {@code UNKNOWN_PATH}; empty if the service gave none
     * @param description a sentence that says what is wrong and what to do
     */
    public record Violation(String field, String reason, String description) {
    }

    private final Status.Code code;
    private final String reason;
    private final Map<String, String> metadata;
    private final List<Violation> violations;
    private final boolean fromService;
    private final Duration retryAfter;

    TopicPoliciesException(Status.Code code, String message, Throwable cause) {
        this(code, message, "", Map.of(), List.of(), false, null, cause);
    }

    /** The error of calls of a closed client. */
    static TopicPoliciesException clientClosed() {
        return new TopicPoliciesException(Status.Code.CANCELLED, "The client was closed.", null);
    }

    /** The error of what needs the client's executor, which rejected its task. */
    static TopicPoliciesException rejected(Throwable rejected) {
        return new TopicPoliciesException(Status.Code.CANCELLED, "The client's executor does not accept tasks.", rejected);
    }

    /** The error of a call whose answer can't be used. */
    static TopicPoliciesException unexpected(String message) {
        return new TopicPoliciesException(Status.Code.INTERNAL, message, null);
    }

    TopicPoliciesException(TopicPoliciesException other) {
        this(other.code, other.getMessage(), other.reason, other.metadata, other.violations, other.fromService, other.retryAfter, other);
    }

    private TopicPoliciesException(Status.Code code, String message, String reason, Map<String, String> metadata,
                                   List<Violation> violations, boolean fromService, Duration retryAfter, Throwable cause) {
        super(message, cause);
        this.code = code;
        this.reason = reason;
        this.metadata = metadata;
        this.violations = violations;
        this.fromService = fromService;
        this.retryAfter = retryAfter;
    }

    /** gRPC's status code. */
    public Status.Code code() {
        return code;
    }

    /** Machine-readable, in UPPER_SNAKE_CASE; empty if the error is not the service's own (a broken connection, a proxy). */
    public String reason() {
        return reason;
    }

    /** Further facts for programs, by key; {@code ErrorReason} says which keys each reason has. */
    public Map<String, String> metadata() {
        return metadata;
    }

    /** Everything that is wrong with the request, if the request is at fault. */
    public List<Violation> violations() {
        return violations;
    }

    /** Whether the service itself returned the error, not gRPC, a proxy or this client. */
    public boolean fromService() {
        return fromService;
    }

    /** The time after which a retry may succeed, from {@code google.rpc.RetryInfo}; empty if the error has none. */
    public Optional<Duration> retryAfter() {
        return Optional.ofNullable(retryAfter);
    }

    /** Whether a limit was reached and the service says when to retry. Nothing was done. */
    boolean isPassingLimit() {
        return code == Status.Code.RESOURCE_EXHAUSTED && retryAfter != null;
    }

    /** Converts whatever a call or a future failed with. */
    public static TopicPoliciesException of(Throwable error) {
        Throwable cause = error;
        while ((cause instanceof CompletionException || cause instanceof ExecutionException) && cause.getCause() != null) {
            cause = cause.getCause();
        }
        if (cause instanceof TopicPoliciesException known) {
            return known;
        }
        Status status = Status.fromThrowable(cause);
        String message = status.getDescription() == null ? status.getCode() + ": " + cause.getMessage() : status.getDescription();
        com.google.rpc.Status wireStatus = StatusProto.fromThrowable(cause);
        List<Any> details = wireStatus == null ? List.of() : wireStatus.getDetailsList();
        if (details.isEmpty()) {
            message = message.lines().findFirst().orElse(""); // gRPC appends details of its state in further lines; the cause keeps them
        }
        return of(status.getCode(), message, details, cause);
    }

    static TopicPoliciesException of(com.google.rpc.Status status) {
        return of(Status.fromCodeValue(status.getCode()).getCode(), status.getMessage(), status.getDetailsList(), null);
    }

    private static TopicPoliciesException of(Status.Code code, String message, List<Any> details, Throwable cause) {
        ErrorInfo info = ErrorInfo.getDefaultInstance();
        Duration retryAfter = null;
        List<Violation> violations = new ArrayList<>();
        for (Any detail : details) {
            try {
                if (detail.is(ErrorInfo.class)) {
                    info = detail.unpack(ErrorInfo.class);
                } else if (detail.is(RetryInfo.class)) {
                    com.google.protobuf.Duration delay = detail.unpack(RetryInfo.class).getRetryDelay();
                    Duration wait = Duration.ofSeconds(delay.getSeconds(), delay.getNanos());
                    retryAfter = wait.isNegative() ? Duration.ZERO : wait;
                } else if (detail.is(BadRequest.class)) {
                    for (BadRequest.FieldViolation each : detail.unpack(BadRequest.class).getFieldViolationsList()) {
                        violations.add(new Violation(each.getField(), each.getReason(), each.getDescription()));
                    }
                }
            } catch (InvalidProtocolBufferException unreadable) {
                violations.add(new Violation("", "", "a detail of the error could not be read"));
            }
        }
        boolean own = info.getDomain().equals(DOMAIN);
        TopicPoliciesException made = new TopicPoliciesException(
                code, message, info.getReason(), info.getMetadataMap(), List.copyOf(violations), own, retryAfter, cause);
        return CONFLICTS.contains(code) ? new ConflictException(made) : made;
    }
}
