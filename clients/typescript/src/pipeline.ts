import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { status as Code } from "@grpc/grpc-js";

import { encoded, recordHead } from "./encoding.js";
import { fromStatus, invalid, OutcomeUnknownError, TopicPoliciesError } from "./errors.js";
import {
  PolicyChangeRequestSchema, UpdatePoliciesRequestSchema, type PolicyChangeResult,
} from "./generated/topicpolicies/v1/service_pb.js";
import { namespaceOf } from "./names.js";
import { deleteRequest, updateRequest, type Deletion, type Update } from "./requests.js";
import { deleteResult, updateResult, type Settled } from "./results.js";
import { ambiguous, delayMs, settled, type RetryPolicy } from "./retries.js";
import { refusedByFollower, type Routes } from "./routes.js";

/** The maximum number of changes, and of bytes, in one batch. Only a single change may be larger than `BATCH_BYTES`. */
export const MOST_CHANGES = 1000;
export const BATCH_BYTES = 1 << 20;
/** The maximum size of a change, in bytes: larger than any document that the service accepts. */
const MOST_CHANGE_BYTES = 2 << 20;
/** The maximum size of all outstanding changes, in bytes. */
const MOST_BYTES = 64 << 20;
/** The status codes with which a stream may break that is then opened again. */
const AGAIN: ReadonlySet<Code> = new Set([Code.UNAVAILABLE, Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.INTERNAL, Code.UNKNOWN]);

/** The error with which a stream is left when other changes have to go to another address. */
const ELSEWHERE = new TopicPoliciesError("Other changes go to another address.", { code: Code.UNAVAILABLE });

interface Bounds {
  /** How many changes may be outstanding, or have an unread result. */
  readonly maxInFlight: number;
  /** How long to continue without any result, in ms. */
  readonly patienceMs: number;
}

/** A change that has no result yet. */
interface Outstanding {
  readonly change: Update | Deletion;
  readonly index: number;
  readonly namespace: string;
  readonly requestId: string;
  /** The encoded change, as a record of a batch. */
  readonly record: Buffer;
  /** Whether a stream broke that may have made the change. */
  lost: boolean;
  /** Whether a sidecar has already named another one for this change. */
  redirected: boolean;
}

/**
 * Many changes over one stream, without I/O: which changes go into the next batch, what a result means, and what happens to the changes
 * when the stream breaks.
 *
 * A change is outstanding until its result has arrived. When the stream breaks, all outstanding changes are sent again over the next one,
 * in their order and with the same request ids: for a change that was already made, the service returns the first result again.
 *
 * A stream goes to one address. If a sidecar refuses a change because another one writes its namespace, or because it is stopping, the
 * change stays outstanding. Then no further changes are sent on this stream; when the changes already sent have their results, the next
 * stream goes to the address where the refused ones belong.
 */
export class Pipeline {
  readonly #policy: RetryPolicy;
  readonly #routes: Routes;
  readonly #most: number;
  readonly #patienceMs: number;
  readonly #outstanding = new Map<bigint, Outstanding>();
  /** Sequences that have not been sent on the open stream yet, in order. */
  #waiting: bigint[] = [];
  /** Sequences that were sent on the open stream and have no result. */
  readonly #here = new Set<bigint>();
  /** Why the open stream is to be left, and whether the next one may be opened at once. */
  #leaving: { readonly error: TopicPoliciesError; readonly atOnce: boolean } | undefined;
  #address = "";
  #bytes = 0;
  #next = 0;
  #failed = 0;
  #quietSince: number;

  /** Throws an InvalidArgumentError if `maxInFlight` is not a whole number from 1. */
  constructor(policy: RetryPolicy, routes: Routes, options: Bounds & { readonly now: number }) {
    if (!Number.isInteger(options.maxInFlight) || options.maxInFlight < 1) {
      throw invalid("maxInFlight", "OUT_OF_BOUNDS", `maxInFlight is a whole number from 1, not ${options.maxInFlight}.`);
    }
    this.#policy = policy;
    this.#routes = routes;
    this.#most = options.maxInFlight;
    this.#patienceMs = options.patienceMs;
    this.#quietSince = options.now;
  }

  /** How many changes have no result. */
  get outstanding(): number {
    return this.#outstanding.size;
  }

  /** Whether another change may be added while `untold` results wait to be read. */
  hasRoom(untold: number): boolean {
    return this.#outstanding.size + untold < this.#most && this.#bytes < MOST_BYTES;
  }

  /** When patience ends, if no result arrives before. */
  get patientUntil(): number {
    return this.#quietSince + this.#patienceMs;
  }

  /** Restarts the patience: a result arrived, or the caller was busy with one. */
  restartPatience(now: number): void {
    this.#quietSince = now;
  }

  /** Adds a change. Returns its result if it can't be sent at all. */
  add(change: Update | Deletion, now: number): Settled | undefined {
    const index = this.#next++;
    const sequence = BigInt(index);
    let written;
    try {
      written = writtenChange(change, sequence);
    } catch (error) {
      if (!(error instanceof TopicPoliciesError)) throw error;
      return { kind: "failed", change, index, error, requestId: "" };
    }
    if (this.#outstanding.size === 0) this.#quietSince = now;
    this.#outstanding.set(sequence, { change, index, namespace: namespaceOf(change.topic), ...written, lost: false, redirected: false });
    this.#bytes += written.record.length;
    if (this.#leaving === undefined) this.#waiting.push(sequence);
    return undefined;
  }

  /** Prepares for a new stream, to be opened while changes are outstanding. Returns its address. */
  connect(): string {
    const [first] = this.#outstanding.values();
    this.#address = this.#routes.writer(first?.namespace ?? "");
    this.#leaving = undefined;
    this.#here.clear();
    this.#waiting = [...this.#outstanding.keys()];
    return this.#address;
  }

  /** Returns the next batch for the open stream; undefined if there is nothing to send. */
  take(): Buffer | undefined {
    const records: Buffer[] = [];
    let bytes = 0;
    let passed = 0;
    for (; passed < this.#waiting.length && records.length < MOST_CHANGES; passed += 1) {
      const sequence = this.#waiting[passed] ?? 0n;
      const each = this.#outstanding.get(sequence);
      if (each === undefined) continue;
      if (this.#routes.writer(each.namespace) !== this.#address) {
        this.#leave(ELSEWHERE, true);
        continue;
      }
      if (records.length > 0 && bytes + each.record.length > BATCH_BYTES) break;
      records.push(each.record);
      bytes += each.record.length;
      this.#here.add(sequence);
    }
    this.#waiting.splice(0, passed);
    return records.length === 0 ? undefined : Buffer.concat(records);
  }

  /** Why the open stream has nothing more to do although changes are outstanding; otherwise undefined. */
  get left(): TopicPoliciesError | undefined {
    return this.#here.size === 0 && this.#waiting.length === 0 ? this.#leaving?.error : undefined;
  }

  /**
   * Takes a result of the service. Returns the result of the change; undefined if no such change is outstanding, or the change has to go to
   * another sidecar.
   */
  settle(answer: PolicyChangeResult, now: number): Settled | undefined {
    const each = this.#outstanding.get(answer.sequence);
    this.#here.delete(answer.sequence);
    if (each === undefined) return undefined;
    const { change, index, requestId } = each;
    if (answer.result.case === "error") {
      const { code, message, details } = answer.result.value;
      const error = fromStatus(code, message, details);
      if (this.#goesElsewhere(each, error)) return undefined;
      this.#done(answer.sequence, now);
      return { kind: "failed", change, index, requestId, error: outcome(each, error, ambiguous(error)) };
    }
    this.#done(answer.sequence, now);
    const result = answer.result;
    if ("policies" in change) {
      if (result.case === "updated") return { kind: "updated", change, index, result: updateResult(result.value) };
    } else if (result.case === "deleted") return { kind: "deleted", change, index, result: deleteResult(result.value) };
    const error = result.case === undefined
      ? new TopicPoliciesError("The service gave a result that this client does not know.", { code: Code.UNKNOWN })
      : new TopicPoliciesError("The service returned the result of another kind of change.", { code: Code.INTERNAL });
    return { kind: "failed", change, index, requestId, error: outcome(each, error, true) };
  }

  /**
   * Records that the stream ended with changes outstanding. Returns how long to wait before opening the next one, in ms; undefined: give
   * up, with `abandon`.
   */
  broke(error: TopicPoliciesError, now: number, chance: number): number | undefined {
    const leaving = this.left === error ? this.#leaving : undefined;
    if (leaving?.atOnce === true) return 0;
    if (leaving === undefined) {
      this.#markLost(error);
      this.#here.clear(); // what ends the call later says nothing of these
      const namespaces = new Set([...this.#outstanding.values()].map((each) => each.namespace));
      for (const namespace of namespaces) this.#routes.failed(this.#address, error, namespace);
    }
    this.#failed += 1;
    const pause = delayMs(this.#policy, this.#failed, chance);
    return this.#policy.maxAttempts === 1 || !AGAIN.has(error.code) || now + pause > this.patientUntil ? undefined : pause;
  }

  /** Returns the results of all outstanding changes, once retrying can't help. */
  abandon(error: TopicPoliciesError): Settled[] {
    this.#markLost(error);
    const abandoned = [...this.#outstanding.values()].map((each): Settled => {
      const { change, index, requestId } = each;
      return { kind: "failed", change, index, requestId, error: outcome(each, error, false) };
    });
    this.#outstanding.clear();
    this.#waiting = [];
    return abandoned;
  }

  /**
   * Whether a change stays outstanding because another sidecar has to make it. In that case this sidecar made no later change of the same
   * namespace either.
   */
  #goesElsewhere(each: Outstanding, error: TopicPoliciesError): boolean {
    if (this.#policy.maxAttempts === 1 || !error.fromService) return false;
    if (refusedByFollower(error)) {
      const named = this.#routes.failed(this.#address, error, each.namespace);
      this.#leave(error, named && !each.redirected);
      each.redirected = true;
      return true;
    }
    if (error.reason !== "SHUTTING_DOWN") return false;
    this.#routes.failed(this.#address, error, each.namespace);
    this.#waiting = [];
    this.#leave(error, false);
    return true;
  }

  #leave(error: TopicPoliciesError, atOnce: boolean): void {
    this.#leaving = { error: this.#leaving?.error ?? error, atOnce: atOnce && (this.#leaving?.atOnce ?? true) };
  }

  #done(sequence: bigint, now: number): void {
    this.#bytes -= this.#outstanding.get(sequence)?.record.length ?? 0;
    this.#outstanding.delete(sequence);
    this.#failed = 0;
    this.#quietSince = now;
  }

  /** Marks the changes sent on the stream as possibly made, unless it is certain that nothing was sent. */
  #markLost(error: TopicPoliciesError): void {
    if (!ambiguous(error)) return;
    for (const sequence of this.#here) {
      const each = this.#outstanding.get(sequence);
      if (each !== undefined) each.lost = true;
    }
  }
}

/** Returns the error of a failed change. `unknown` says whether this error leaves open if the change was made. */
function outcome({ lost, requestId }: Outstanding, error: TopicPoliciesError, unknown: boolean): TopicPoliciesError {
  return (lost || unknown) && !settled(error) ? new OutcomeUnknownError(error, requestId) : error;
}

/** Encodes a change as a record of the batch's repeated field. Concatenated records are a valid batch. */
function writtenChange(change: Update | Deletion, sequence: bigint): { requestId: string; record: Buffer } {
  const { request, requestId } = requestOf(change);
  const bytes = encoded(PolicyChangeRequestSchema, create(PolicyChangeRequestSchema, { sequence, change: request }));
  if (bytes.length > MOST_CHANGE_BYTES) throw invalid("policies", "DOCUMENT_TOO_LARGE", "The change is larger than any document may be.");
  return { requestId, record: Buffer.concat([recordHead(UpdatePoliciesRequestSchema.field.changes.number, bytes.length), bytes]) };
}

type Requested = NonNullable<MessageInitShape<typeof PolicyChangeRequestSchema>["change"]>;

function requestOf(change: Update | Deletion): { request: Requested; requestId: string } {
  if ("policies" in change) {
    const value = updateRequest(change.topic, change.policies, change);
    return { request: { case: "update", value }, requestId: value.requestId };
  }
  const value = deleteRequest(change.topic, change);
  return { request: { case: "delete", value }, requestId: value.requestId };
}
