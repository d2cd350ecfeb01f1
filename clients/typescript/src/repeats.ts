import { status as Code } from "@grpc/grpc-js";

import type { TopicPoliciesError } from "./errors.js";
import { AGAIN, delayMs, neverSent, type RetryPolicy } from "./retries.js";
import { refusedByFollower } from "./routes.js";

/** How often one call goes from a sidecar to the one that it names; more than that is sidecars that name each other. */
export const MOST_HOPS = 16;

/** The attempts of one call: whether there is another one, and how long to wait before it. */
export class Repeats {
  readonly #policy: RetryPolicy;
  readonly #change: boolean;
  readonly #byGrpc: boolean;
  #failures = 0;
  /** Failures of the service, or of a connection after something was sent. */
  #answered = 0;
  #hops = 0;

  /**
   * @param change whether it changes something
   * @param byGrpc whether gRPC has made all the attempts already that the policy allows
   */
  constructor(policy: RetryPolicy, change: boolean, byGrpc: boolean) {
    this.#policy = policy;
    this.#change = change;
    this.#byGrpc = byGrpc;
  }

  /**
   * An attempt has failed: how many milliseconds to wait before the next one; undefined if there is none.
   *
   * `redirected`: the error named who can answer; the first time there is no pause before that is tried. `chance` is at least 0 and less than 1.
   */
  failed(error: TopicPoliciesError, redirected: boolean, chance: number): number | undefined {
    if (this.#policy.maxAttempts === 1) return undefined;
    if (redirected) {
      this.#hops += 1;
      if (this.#hops > MOST_HOPS) return undefined;
      if (this.#hops === 1) return 0;
    } else if (!refusedByFollower(error) && !neverSent(error)) { // with those nothing was done: until the deadline
      // A change without its outcome is repeated to learn it, whether the attempt took too long or the service did not learn it in time.
      const again = AGAIN.has(error.code) || (this.#change && error.code === Code.DEADLINE_EXCEEDED);
      this.#answered += 1;
      if (!again || this.#byGrpc || this.#answered >= this.#policy.maxAttempts) return undefined;
    }
    this.#failures += 1;
    return delayMs(this.#policy, this.#failures, chance);
  }
}
