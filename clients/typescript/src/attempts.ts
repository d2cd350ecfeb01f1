import { status as Code } from "@grpc/grpc-js";

import { fromServiceError, OutcomeUnknownError, UnavailableError, type TopicPoliciesError } from "./errors.js";
import { AGAIN, ambiguous, delayMs, neverSent, passingLimit, settled, unconnected, type RetryPolicy } from "./retries.js";
import { refusedByFollower, type Routes } from "./routes.js";

/** How many times one call follows the leader that an error names. A call that needs more hops meets sidecars that name each other. */
export const MOST_HOPS = 16;

/** What a call changes: the namespace of the topic, and the id of the request. */
export interface Change {
  readonly namespace: string;
  readonly requestId: string;
}

/**
 * The attempts of one call, without I/O: the address of the next attempt, whether there is one, and the error that the call fails with in
 * the end.
 */
export class Attempts {
  readonly #policy: RetryPolicy;
  readonly #routes: Routes;
  readonly #change: Change | undefined;
  readonly #byGrpc: boolean;
  /** The leader that the last NOT_LEADER error named, to which this read goes next. */
  #named: string | undefined;
  #failures = 0;
  /** How many attempts failed in the service, or on a connection after something was sent. */
  #answered = 0;
  #hops = 0;
  /** Whether an attempt may have made the change, although it failed. */
  #unknown = false;

  /**
   * @param change what the call changes; undefined for a read
   * @param byGrpc whether gRPC itself has already made all the attempts that the policy allows
   */
  constructor(policy: RetryPolicy, routes: Routes, change: Change | undefined, byGrpc: boolean) {
    this.#policy = policy;
    this.#routes = routes;
    this.#change = change;
    this.#byGrpc = byGrpc;
  }

  /** The address of the next attempt. */
  get address(): string {
    return this.#named ?? (this.#change === undefined ? this.#routes.address : this.#routes.writer(this.#change.namespace));
  }

  /**
   * Records that the attempt at this address failed. Returns how many milliseconds to wait before the next attempt, or undefined if
   * there is to be none. `chance` is a random number, at least 0 and less than 1.
   */
  failed(address: string, error: TopicPoliciesError, chance: number): number | undefined {
    this.#unknown ||= ambiguous(error);
    const redirected = this.#redirected(address, error);
    if (this.#policy.maxAttempts === 1) return undefined;
    if (redirected) {
      this.#hops += 1;
      if (this.#hops > MOST_HOPS) return undefined;
      if (this.#hops === 1) return 0;
    } else if (!refusedByFollower(error) && !neverSent(error) && !passingLimit(error)) { // nothing was done: retried until the deadline
      // A change whose outcome is unknown is repeated to learn it, whether the attempt ran into its time limit or the service did not learn
      // the outcome in time.
      const again = AGAIN.has(error.code) || (this.#change !== undefined && error.code === Code.DEADLINE_EXCEEDED);
      this.#answered += 1;
      if (!again || this.#byGrpc || this.#answered >= this.#policy.maxAttempts) return undefined;
    }
    this.#failures += 1;
    return delayMs(this.#policy, this.#failures, chance) + (error.retryAfterMs ?? 0);
  }

  /** Returns what the call throws if its last attempt could not be sent, given what it threw, such as the error of a token function. */
  unsent(error: unknown): unknown {
    return this.#change !== undefined && this.#unknown ? new OutcomeUnknownError(fromServiceError(error), this.#change.requestId) : error;
  }

  /** Returns the error that the call fails with, given the error of its last attempt. */
  ended(error: TopicPoliciesError): TopicPoliciesError {
    const unknown = this.#unknown || ambiguous(error);
    if (this.#change !== undefined && unknown && !settled(error)) return new OutcomeUnknownError(error, this.#change.requestId);
    if (!unconnected(error)) return error;
    return new UnavailableError(`There was no connection to the service in time: ${error.message}`, { code: error.code, cause: error });
  }

  /** Records where the next attempt goes. Returns whether the error names the leader, so that the next attempt needs no pause. */
  #redirected(address: string, error: TopicPoliciesError): boolean {
    if (this.#change !== undefined) return this.#routes.failed(address, error, this.#change.namespace);
    const leader = refusedByFollower(error) ? (error.metadata["leader"] ?? "") : "";
    this.#named = leader === "" ? undefined : leader; // for this call only; other reads stay where they are
    if (leader === "") this.#routes.failed(address, error);
    return leader !== "" && leader !== address;
  }
}
