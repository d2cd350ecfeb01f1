package topicpolicies.client;

import java.time.Instant;
import java.util.Optional;

/**
 * An answer of the service.
 *
 * @param message the answer
 * @param unconfirmedSince since when the server can't reach the change log, so that it could not confirm the answer; empty if it was
 *     confirmed
 */
record Answered<A>(A message, Optional<Instant> unconfirmedSince) {
}
