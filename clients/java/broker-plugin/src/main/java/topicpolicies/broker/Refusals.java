package topicpolicies.broker;

import io.grpc.Status;
import java.util.EnumSet;
import java.util.Set;
import javax.ws.rs.core.Response;
import org.apache.pulsar.broker.web.RestException;
import topicpolicies.client.OutcomeUnknownException;
import topicpolicies.client.TopicPoliciesException;

/** Converts the sidecar's errors to the exceptions with which the broker's admin API responds. */
final class Refusals {
    private static final Set<Status.Code> REFUSED = EnumSet.of(Status.Code.INVALID_ARGUMENT, Status.Code.FAILED_PRECONDITION,
            Status.Code.NOT_FOUND, Status.Code.PERMISSION_DENIED, Status.Code.OUT_OF_RANGE);

    private static final Set<String> GONE = Set.of("NAMESPACE_NOT_FOUND", "TOPIC_NOT_FOUND");

    private Refusals() {
    }

    /** Whether the sidecar refused this request itself: another request may succeed. */
    static boolean refused(TopicPoliciesException error) {
        return REFUSED.contains(error.code());
    }

    /** Whether the namespace or the topic does not exist according to the sidecar, so that its policies do not exist either. */
    static boolean gone(TopicPoliciesException error) {
        return GONE.contains(error.reason());
    }

    /** Creates the exception for the broker. */
    static RestException forBroker(TopicPoliciesException error) {
        RestException made = new RestException(status(error), error.getMessage());
        made.addSuppressed(error);
        return made;
    }

    private static Response.Status status(TopicPoliciesException error) {
        if (error instanceof OutcomeUnknownException) {
            return Response.Status.SERVICE_UNAVAILABLE;
        }
        return switch (error.code()) {
            case INVALID_ARGUMENT, FAILED_PRECONDITION -> Response.Status.PRECONDITION_FAILED;
            case NOT_FOUND -> Response.Status.NOT_FOUND;
            case ABORTED -> Response.Status.CONFLICT;
            case UNAVAILABLE, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, CANCELLED, UNAUTHENTICATED, PERMISSION_DENIED ->
                    Response.Status.SERVICE_UNAVAILABLE;
            default -> Response.Status.INTERNAL_SERVER_ERROR;
        };
    }
}
