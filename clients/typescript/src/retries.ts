import type { DescMethod } from "@bufbuild/protobuf";
import { status as Code } from "@grpc/grpc-js";

import { invalid, type TopicPoliciesError } from "./errors.js";
import { TopicPoliciesService } from "./generated/topicpolicies/v1/service_pb.js";

/**
 * How calls are repeated.
 *
 * Only what is safe is repeated. Reads are. A change is, because it carries a request id: the service remembers it and answers a repeat
 * with what happened the first time. What can't help to repeat (a wrong request, a conflict, a limit) is thrown at once; a limit of
 * which the service says when there is room again (`google.rpc.RetryInfo`) is waited for. While there is no
 * connection, or nobody who writes the namespace, calls wait for that until their deadline.
 *
 * Reads of a client with one address are repeated by gRPC itself, which is given this policy as its service config and lets the pauses vary
 * by a fifth. All else is repeated by the client: gRPC would stay at an address that fails, and of a change it tells only how the last
 * attempt ended, whereas an earlier one may have made it.
 */
export interface RetryPolicy {
  /**
   * Counts the first one too; 1 repeats nothing, and 5 is the most. Attempts that found no connection are not counted, nor those that were
   * refused because another sidecar writes the namespace.
   */
  readonly maxAttempts: number;
  /** The longest first pause. */
  readonly initialBackoffMs: number;
  /** No pause is longer. */
  readonly maxBackoffMs: number;
  /** By how much pauses grow. */
  readonly multiplier: number;
  /**
   * How long one attempt of a change may take before it is repeated, perhaps elsewhere; without it, as long as the call. Reads may take all
   * the time that there is.
   */
  readonly attemptTimeoutMs?: number;
}

/** How pauses grow. */
export type Pauses = Pick<RetryPolicy, "initialBackoffMs" | "maxBackoffMs" | "multiplier">;

/** What a client has that was told nothing else. */
export const DEFAULT_RETRIES: RetryPolicy = {
  maxAttempts: 5, initialBackoffMs: 100, maxBackoffMs: 5000, multiplier: 2, attemptTimeoutMs: 10_000,
};
/** Every call is made once, does not wait for a connection, and goes to no leader that an error names before the next call. */
export const NO_RETRIES: RetryPolicy = { ...DEFAULT_RETRIES, maxAttempts: 1 };

/** Refuses a policy that makes no sense. */
export function checkRetries(policy: RetryPolicy): void {
  const { maxAttempts, initialBackoffMs, maxBackoffMs, multiplier, attemptTimeoutMs = Infinity } = policy;
  const wrong =
    !(Number.isInteger(maxAttempts) && maxAttempts >= 1 && maxAttempts <= 5) ? "maxAttempts is a whole number from 1 to 5."
    : !(initialBackoffMs > 0 && maxBackoffMs >= initialBackoffMs && maxBackoffMs < Infinity)
      ? "initialBackoffMs is more than 0, and maxBackoffMs at least that."
    : !(multiplier >= 1 && multiplier <= 1000) ? "multiplier is from 1 to 1000."
    : !(attemptTimeoutMs > 0) ? "attemptTimeoutMs is more than 0."
    : "";
  if (wrong) throw invalid("retries", "WRONG_RETRY_POLICY", wrong);
}

/** The pause after this failed attempt, counted from 1: in the upper half of its ceiling, so that clients do not march in step. */
export function delayMs(policy: Pauses, attempt: number, chance: number): number {
  const ceiling = Math.min(policy.maxBackoffMs, policy.initialBackoffMs * policy.multiplier ** Math.min(attempt - 1, 64));
  return (ceiling * (1 + chance)) / 2;
}

/** How attempts fail that are made again. */
export const AGAIN: ReadonlySet<Code> = new Set([Code.UNAVAILABLE, Code.CANCELLED]);

const { getPolicy, getEffectivePolicy, listPolicies, listHistory, getServerInfo } = TopicPoliciesService.method;
const READS: readonly DescMethod[] = [getPolicy, getEffectivePolicy, listPolicies, listHistory, getServerInfo];
/** Node's timers hold no more than 24 days. */
const LONGEST_BACKOFF_MS = 1e9;

/**
 * Whether a method is one of those that gRPC repeats where it was given a `serviceConfig`. A dry run is not, since its method changes
 * things.
 */
export function isRead(method: DescMethod): boolean {
  return READS.includes(method);
}

/** The service config that makes gRPC repeat reads, and nothing else, as a policy says that repeats anything. */
export function serviceConfig({ maxAttempts, initialBackoffMs, maxBackoffMs, multiplier }: RetryPolicy): string {
  const seconds = (ms: number): string => `${(Math.min(ms, LONGEST_BACKOFF_MS) / 1000).toFixed(9)}s`;
  const retryPolicy = {
    maxAttempts,
    initialBackoff: seconds(initialBackoffMs),
    maxBackoff: seconds(maxBackoffMs),
    backoffMultiplier: multiplier,
    retryableStatusCodes: [...AGAIN].map((code) => Code[code]),
  };
  const name = READS.map((method) => ({ service: method.parent.typeName, method: method.name }));
  return JSON.stringify({ methodConfig: [{ name, retryPolicy }] });
}

/** Whether a limit was met of which it is said when there is room again. Nothing was done. */
export function passingLimit(error: TopicPoliciesError): boolean {
  return error.code === Code.RESOURCE_EXHAUSTED && error.retryAfterMs !== undefined;
}

/** How a connection is lost; the service's own word of it is that nothing was done. */
const LOST: ReadonlySet<Code> = new Set([Code.UNAVAILABLE, Code.CANCELLED]);
/** How a call ends of which nobody says what it has done. */
const UNSAID: ReadonlySet<Code> = new Set([Code.DEADLINE_EXCEEDED, Code.INTERNAL, Code.UNKNOWN]);

/** Whether a change that failed like this may have been made all the same. */
export function ambiguous(error: TopicPoliciesError): boolean {
  if (neverSent(error)) return false;
  return UNSAID.has(error.code) || (LOST.has(error.code) && !error.fromService);
}

/** How a change is refused that was not made before either: the service looks its id up first. */
const SETTLED: ReadonlySet<Code> = new Set([Code.ABORTED, Code.ALREADY_EXISTS, Code.INVALID_ARGUMENT]);

/** Whether this answer, which a repeat got, says that the change was not made before. */
export function settled(error: TopicPoliciesError): boolean {
  return SETTLED.has(error.code);
}

/** Whether it is certain that the request was not sent: gRPC says so in words. */
export function neverSent(error: TopicPoliciesError): boolean {
  return unconnected(error) && !error.message.includes("previous attempts");
}

/** Whether the last attempt found no connection; there may have been others that were sent. */
export function unconnected(error: TopicPoliciesError): boolean {
  if (error.fromService) return false;
  if (error.code === Code.DEADLINE_EXCEEDED) {
    return error.message.startsWith("Deadline exceeded after") && !error.message.includes("remote_addr");
  }
  return error.code === Code.UNAVAILABLE && /^(No connection established|Name resolution failed)/.test(error.message);
}
