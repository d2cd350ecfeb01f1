import type { DescMethod } from "@bufbuild/protobuf";
import { status as Code } from "@grpc/grpc-js";

import { invalid, type TopicPoliciesError } from "./errors.js";
import { TopicPoliciesService } from "./generated/topicpolicies/v1/service_pb.js";

/**
 * How failed calls are retried.
 *
 * A call is retried only if that is safe. Reads are safe. Changes are safe because they carry a request id: the service remembers it and
 * answers a repeat with the outcome of the first time. An error that a retry can't cure (a wrong request, a conflict, a limit) is thrown at
 * once, except a limit for which the service says when to retry (`google.rpc.RetryInfo`): the call waits that long. While there is no
 * connection, or no leader of the namespace, calls keep trying until their deadline.
 *
 * Reads of a client with one address are retried by gRPC itself, which gets this policy as its service config and varies the pauses by a
 * fifth. All other calls are retried by the client: gRPC would stay at an address that fails, and of a change it reports only how the last
 * attempt ended, whereas an earlier one may have made it.
 */
export interface RetryPolicy {
  /**
   * The maximum number of attempts, from 1 (no retries) to 5. Attempts that found no connection, or were refused because another sidecar
   * writes the namespace, do not count.
   */
  readonly maxAttempts: number;
  /** The upper limit of the first pause. */
  readonly initialBackoffMs: number;
  /** The upper limit of every pause. */
  readonly maxBackoffMs: number;
  /** The factor by which pauses grow. */
  readonly multiplier: number;
  /**
   * How long one attempt of a change may take before the change is sent again, perhaps to another address; by default as long as the call.
   * A read's attempt may take all of the call's time.
   */
  readonly attemptTimeoutMs?: number;
}

/** How pauses grow. */
export type Pauses = Pick<RetryPolicy, "initialBackoffMs" | "maxBackoffMs" | "multiplier">;

/** The policy of a client that was given none. */
export const DEFAULT_RETRIES: RetryPolicy = {
  maxAttempts: 5, initialBackoffMs: 100, maxBackoffMs: 5000, multiplier: 2, attemptTimeoutMs: 10_000,
};
/** No retries: every call is made once and does not wait for a connection. A leader that an error names is used from the next call on. */
export const NO_RETRIES: RetryPolicy = { ...DEFAULT_RETRIES, maxAttempts: 1 };

/** Throws an InvalidArgumentError if a policy's values are out of range. */
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

/**
 * Returns the pause in ms after a failed attempt, counted from 1. It lies in the upper half below the attempt's ceiling, at random, so that
 * clients do not retry in step.
 */
export function delayMs(policy: Pauses, attempt: number, chance: number): number {
  const ceiling = Math.min(policy.maxBackoffMs, policy.initialBackoffMs * policy.multiplier ** Math.min(attempt - 1, 64));
  return (ceiling * (1 + chance)) / 2;
}

/** The status codes of attempts that are retried. */
export const AGAIN: ReadonlySet<Code> = new Set([Code.UNAVAILABLE, Code.CANCELLED]);

const { getPolicy, getEffectivePolicy, listPolicies, listHistory, getServerInfo } = TopicPoliciesService.method;
const READS: readonly DescMethod[] = [getPolicy, getEffectivePolicy, listPolicies, listHistory, getServerInfo];
/** The maximum pause in a service config: Node's timers can't wait longer than about 24 days. */
const LONGEST_BACKOFF_MS = 1e9;

/** Whether gRPC retries a method itself, given a `serviceConfig`. Dry runs are not included, because their methods make changes. */
export function isRead(method: DescMethod): boolean {
  return READS.includes(method);
}

/** Returns the service config with which gRPC retries the reads, and nothing else. The policy must allow more than one attempt. */
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

/** Whether a limit was reached and the service says when to retry. Nothing was done. */
export function passingLimit(error: TopicPoliciesError): boolean {
  return error.code === Code.RESOURCE_EXHAUSTED && error.retryAfterMs !== undefined;
}

/** The status codes of a lost connection. If the service itself returns one of them, nothing was done. */
const LOST: ReadonlySet<Code> = new Set([Code.UNAVAILABLE, Code.CANCELLED]);
/** The status codes that leave open whether the call had an effect. */
const UNSAID: ReadonlySet<Code> = new Set([Code.DEADLINE_EXCEEDED, Code.INTERNAL, Code.UNKNOWN]);

/** Whether a change that failed with this error may have been made. */
export function ambiguous(error: TopicPoliciesError): boolean {
  if (neverSent(error)) return false;
  return UNSAID.has(error.code) || (LOST.has(error.code) && !error.fromService);
}

/** The status codes of refusals that also mean that the change was not made before: the service looks up the request id first. */
const SETTLED: ReadonlySet<Code> = new Set([Code.ABORTED, Code.ALREADY_EXISTS, Code.INVALID_ARGUMENT]);

/** Whether this error of a repeat says that the change was not made before. */
export function settled(error: TopicPoliciesError): boolean {
  return SETTLED.has(error.code);
}

/** Whether it is certain that the request was not sent. grpc-js says so only in the message of the error. */
export function neverSent(error: TopicPoliciesError): boolean {
  return unconnected(error) && !error.message.includes("previous attempts");
}

/** How the messages begin of attempts for which there was no connection, or no token. */
const UNCONNECTED = /^(No connection established|Name resolution failed|Channel closed before call started|There was no token)/;

/** Whether the last attempt found no connection. Earlier attempts may have been sent. */
export function unconnected(error: TopicPoliciesError): boolean {
  if (error.fromService) return false;
  if (error.code === Code.DEADLINE_EXCEEDED) {
    return error.message.startsWith("Deadline exceeded after") && !error.message.includes("remote_addr");
  }
  return error.code === Code.UNAVAILABLE && UNCONNECTED.test(error.message);
}
