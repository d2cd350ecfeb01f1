package topicpolicies.client;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

/** The error of a call: of the service, or of the connection. docs/api.md lists the reasons. */
public class TopicPoliciesException extends RuntimeException {
    private static final String DOMAIN = "topicpolicies";
    /** The reasons of the service after which a change may have happened. */
    private static final Set<String> UNKNOWN = Set.of("OUTCOME_UNKNOWN", "INTERNAL");
    /** The codes after which a change may have happened, if the service gave no reason. */
    private static final Set<Status.Code> OPEN = EnumSet.of(Status.Code.UNAVAILABLE, Status.Code.DEADLINE_EXCEEDED, Status.Code.CANCELLED,
            Status.Code.INTERNAL, Status.Code.UNKNOWN, Status.Code.DATA_LOSS);

    private final Status.Code code;
    private final ErrorInfo info;
    private final List<BadRequest.FieldViolation> violations;
    private final Duration retryDelay;

    TopicPoliciesException(TopicPoliciesException other) {
        this(other.code, other.getMessage(), other.info, other.violations, other.retryDelay, other.getCause());
    }

    private TopicPoliciesException(Status.Code code, String message, ErrorInfo info, List<BadRequest.FieldViolation> violations,
                                   Duration retryDelay, Throwable cause) {
        super(message, cause);
        this.code = code;
        this.info = info;
        this.violations = violations;
        this.retryDelay = retryDelay;
    }

    /** gRPC's status code. */
    public Status.Code code() {
        return code;
    }

    /** The name of an {@code ErrorReason} without its prefix; empty if the error is not the service's own. */
    public String reason() {
        return info.getReason();
    }

    /** Further facts, by key; {@code ErrorReason} says which keys each reason has. */
    public Map<String, String> metadata() {
        return info.getMetadataMap();
    }

    /** Everything that is wrong with the request, if the request is at fault. */
    public List<BadRequest.FieldViolation> violations() {
        return violations;
    }

    /** The time after which a repeat may succeed, if the service named one. */
    public Optional<Duration> retryDelay() {
        return Optional.ofNullable(retryDelay);
    }

    /** The exception of an error in the results of a batch. */
    public static TopicPoliciesException of(com.google.rpc.Status status) {
        TopicPoliciesException error = read(Status.fromCodeValue(status.getCode()).getCode(), status.getMessage(), status, null);
        return specific(error, error.metadata().getOrDefault("request_id", ""));
    }

    /** Converts whatever a call or a future failed with. */
    public static TopicPoliciesException of(Throwable error) {
        return of(error, "");
    }

    /** Converts the failure of a call; {@code requestId} is that of a change, and empty for everything else. */
    static TopicPoliciesException of(Throwable error, String requestId) {
        Throwable cause = error;
        while ((cause instanceof CompletionException || cause instanceof ExecutionException) && cause.getCause() != null) {
            cause = cause.getCause();
        }
        if (cause instanceof TopicPoliciesException known) {
            return known;
        }
        Status status = Status.fromThrowable(cause);
        String message = status.getDescription() == null ? status.getCode() + ": " + cause.getMessage() : status.getDescription();
        return specific(read(status.getCode(), message, StatusProto.fromThrowable(cause), cause), requestId);
    }

    static TopicPoliciesException of(Status status) {
        return of(status.asRuntimeException(), "");
    }

    /** The error for one change of a batch whose call failed with this error. */
    com.google.rpc.Status status(String requestId) {
        com.google.rpc.Status.Builder status = com.google.rpc.Status.newBuilder().setCode(code.value()).setMessage(getMessage());
        ErrorInfo own = info;
        if (mayHaveHappened()) {
            own = ErrorInfo.newBuilder().setDomain(DOMAIN).setReason("OUTCOME_UNKNOWN").putMetadata("request_id", requestId).build();
        }
        if (!own.getReason().isEmpty()) {
            status.addDetails(Any.pack(own));
        }
        if (!violations.isEmpty()) {
            status.addDetails(Any.pack(BadRequest.newBuilder().addAllFieldViolations(violations).build()));
        }
        return status.build();
    }

    private boolean mayHaveHappened() {
        return reason().isEmpty() ? OPEN.contains(code) : UNKNOWN.contains(reason());
    }

    private static TopicPoliciesException specific(TopicPoliciesException error, String requestId) {
        if (!requestId.isEmpty() && error.mayHaveHappened()) {
            return new OutcomeUnknownException(error, requestId);
        }
        return error.reason().equals("PRECONDITION_FAILED") ? new PreconditionFailedException(error) : error;
    }

    private static TopicPoliciesException read(Status.Code code, String message, com.google.rpc.Status details, Throwable cause) {
        ErrorInfo info = ErrorInfo.getDefaultInstance();
        Duration delay = null;
        List<BadRequest.FieldViolation> violations = List.of();
        for (Any detail : details == null ? List.<Any>of() : details.getDetailsList()) {
            try {
                if (detail.is(ErrorInfo.class) && detail.unpack(ErrorInfo.class).getDomain().equals(DOMAIN)) {
                    info = detail.unpack(ErrorInfo.class);
                } else if (detail.is(RetryInfo.class)) {
                    com.google.protobuf.Duration given = detail.unpack(RetryInfo.class).getRetryDelay();
                    delay = Duration.ofSeconds(given.getSeconds(), given.getNanos());
                } else if (detail.is(BadRequest.class)) {
                    violations = detail.unpack(BadRequest.class).getFieldViolationsList();
                }
            } catch (InvalidProtocolBufferException unreadable) {
                continue; // of another service: code and message remain
            }
        }
        return new TopicPoliciesException(code, message, info, violations, delay, cause);
    }
}
