import { status as Code } from "@grpc/grpc-js";

import { OutcomeUnknownError, UnavailableError, type TopicPoliciesError } from "./errors.js";
import { AGAIN, ambiguous, delayMs, neverSent, passingLimit, settled, unconnected, type RetryPolicy } from "./retries.js";
import { refusedByFollower, type Routes } from "./routes.js";

/** How often one call goes from a sidecar to the one that it names; more than that is sidecars that name each other. */
export const MOST_HOPS = 16;

/** What a call changes. */
export interface Change {
  readonly namespace: string;
  readonly requestId: string;
}

/** The attempts of one call, without I/O: where the next one goes, whether there is one, and what the call fails with in the end. */
export class Attempts {
  readonly #policy: RetryPolicy;
  readonly #routes: Routes;
  readonly #change: Change | undefined;
  readonly #byGrpc: boolean;
  /** Who was named to answer this read. */
  #named: string | undefined;
  #failures = 0;
  /** Failures of the service, or of a connection after something was sent. */
  #answered = 0;
  #hops = 0;
  /** Whether an attempt may have made the change. */
  #unknown = false;

  /**
   * @param change what the call changes; undefined for a read
   * @param byGrpc whether gRPC has made all the attempts already that the policy allows
   */
  constructor(policy: RetryPolicy, routes: Routes, change: Change | undefined, byGrpc: boolean) {
    this.#policy = policy;
    this.#routes = routes;
    this.#change = change;
    this.#byGrpc = byGrpc;
  }

  /** Where the next attempt goes. */
  get address(): string {
    return this.#named ?? (this.#change === undefined ? this.#routes.address : this.#routes.writer(this.#change.namespace));
  }

  /**
   * The attempt at this address has failed: how many milliseconds to wait before the next one; undefined if there is none. `chance` is at
   * least 0 and less than 1.
   */
  failed(address: string, error: TopicPoliciesError, chance: number): number | undefined {
    this.#unknown ||= ambiguous(error);
    const redirected = this.#redirected(address, error);
    if (this.#policy.maxAttempts === 1) return undefined;
    if (redirected) {
      this.#hops += 1;
      if (this.#hops > MOST_HOPS) return undefined;
      if (this.#hops === 1) return 0;
    } else if (!refusedByFollower(error) && !neverSent(error) && !passingLimit(error)) { // with those nothing was done: until the deadline
      // A change without its outcome is repeated to learn it, whether the attempt took too long or the service did not learn it in time.
      const again = AGAIN.has(error.code) || (this.#change !== undefined && error.code === Code.DEADLINE_EXCEEDED);
      this.#answered += 1;
      if (!again || this.#byGrpc || this.#answered >= this.#policy.maxAttempts) return undefined;
    }
    this.#failures += 1;
    return delayMs(this.#policy, this.#failures, chance) + (error.retryAfterMs ?? 0);
  }

  /** What the call fails with, whose last attempt failed like this. */
  ended(error: TopicPoliciesError): TopicPoliciesError {
    const unknown = this.#unknown || ambiguous(error);
    if (this.#change !== undefined && unknown && !settled(error)) return new OutcomeUnknownError(error, this.#change.requestId);
    if (!unconnected(error)) return error;
    return new UnavailableError(`There was no connection to the service in time: ${error.message}`, { code: error.code, cause: error });
  }

  /** Takes note of where to go. Gives whether the error names who can answer, so that there is no need to wait before that is tried. */
  #redirected(address: string, error: TopicPoliciesError): boolean {
    if (this.#change !== undefined) return this.#routes.failed(address, error, this.#change.namespace);
    const leader = refusedByFollower(error) ? (error.metadata["leader"] ?? "") : "";
    this.#named = leader === "" ? undefined : leader; // for this call; other reads stay
    if (leader === "") this.#routes.failed(address, error);
    return leader !== "" && leader !== address;
  }
}
