import { fromBinary, type DescMessage, type MessageShape } from "@bufbuild/protobuf";
import { anyUnpack, type Any } from "@bufbuild/protobuf/wkt";
import { status as Code, type ServiceError } from "@grpc/grpc-js";

import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./generated/google/rpc/error_details_pb.js";
import { StatusSchema } from "./generated/google/rpc/status_pb.js";

/** The domain of the service's own reasons. */
const DOMAIN = "topicpolicies";

/** One violation: something that is wrong with a request. */
export interface Violation {
  /** The path of the field in the request, such as `update_mask.paths[1]` or `policies.retention_policies`. */
  readonly field: string;
  /** Machine-readable, such as `UNKNOWN_PATH`; empty if the service gave none. */
  readonly reason: string;
  /** A sentence that says what is wrong and what to do. */
  readonly description: string;
}

interface Details {
  readonly code: Code;
  readonly reason?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly violations?: readonly Violation[];
  readonly fromService?: boolean;
  readonly retryAfterMs?: number | undefined;
  readonly cause?: unknown;
}

/** The error of a failed call. There is one subclass for each kind of failure that a caller would handle differently. */
export class TopicPoliciesError extends Error {
  /** gRPC's status code. */
  readonly code: Code;
  /** Machine-readable, in UPPER_SNAKE_CASE; empty if the error is not the service's own (a broken connection, a proxy). */
  readonly reason: string;
  /** Further facts for programs, by key; `ErrorReason` says which keys each reason has. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Everything that is wrong with the request, if the request is at fault. */
  readonly violations: readonly Violation[];
  /** Whether the service itself returned the error, not gRPC, a proxy or this client. */
  readonly fromService: boolean;
  /** After how many milliseconds a retry may succeed, from `google.rpc.RetryInfo`; undefined if the error has none. */
  readonly retryAfterMs: number | undefined;

  constructor(message: string, details: Details) {
    super(message, { cause: details.cause });
    this.name = new.target.name;
    this.code = details.code;
    this.reason = details.reason ?? "";
    this.metadata = details.metadata ?? {};
    this.violations = details.violations ?? [];
    this.fromService = details.fromService ?? false;
    this.retryAfterMs = details.retryAfterMs;
  }
}

/** The request is invalid and stays so (INVALID_ARGUMENT); also thrown before anything is sent. */
export class InvalidArgumentError extends TopicPoliciesError {}
/** The topic, namespace or tenant does not exist (NOT_FOUND). */
export class NotFoundError extends TopicPoliciesError {}
/**
 * The document is not at the version that the etag requires, or changes too often (ABORTED); nothing was changed. Read the document again
 * and decide again.
 */
export class ConflictError extends TopicPoliciesError {}
/** There is a document although `mustNotExist` is set (ALREADY_EXISTS); nothing was changed. */
export class AlreadyExistsError extends TopicPoliciesError {}
/** The request does not fit the present state (FAILED_PRECONDITION), for example because topic policies are disabled. */
export class FailedPreconditionError extends TopicPoliciesError {}
/** The history can't say with certainty what the document was (OUT_OF_RANGE). */
export class OutOfRangeError extends TopicPoliciesError {}
/** A limit of the service was reached (RESOURCE_EXHAUSTED); nothing was done. */
export class ResourceExhaustedError extends TopicPoliciesError {}
/** The caller is not authenticated, or lacks a permission (UNAUTHENTICATED, PERMISSION_DENIED). */
export class PermissionDeniedError extends TopicPoliciesError {}
/** The service, or the change log behind it, can't be reached (UNAVAILABLE); nothing was done. */
export class UnavailableError extends TopicPoliciesError {}
/** A read, a watch or a stream of many changes was not answered in time, or an edit's function took too long (DEADLINE_EXCEEDED). */
export class DeadlineExceededError extends TopicPoliciesError {}
/**
 * The client was closed, or a proxy or the service cancelled the call (CANCELLED). A call that the caller's own signal ends fails with the
 * signal's reason instead.
 */
export class CancelledError extends TopicPoliciesError {}

/**
 * It is not known whether a change was made: its answer was lost, or did not arrive in time.
 *
 * To learn the outcome, repeat the same call with `requestId`: a change that was made is not made again.
 */
export class OutcomeUnknownError extends TopicPoliciesError {
  /** The id of the request whose outcome is unknown. */
  readonly requestId: string;

  constructor(cause: TopicPoliciesError, requestId: string) {
    const { code, reason, metadata, fromService } = cause;
    const why = /[.!?]$/.test(cause.message) ? cause.message : `${cause.message}.`; // gRPC's own messages have no full stop
    super(`It is not known whether the change was made: ${why} Repeat it with request id ${requestId} to learn it.`, {
      code, reason, metadata, fromService, cause,
    });
    this.requestId = requestId;
  }
}

const CLASSES: ReadonlyMap<Code, typeof TopicPoliciesError> = new Map([
  [Code.CANCELLED, CancelledError],
  [Code.INVALID_ARGUMENT, InvalidArgumentError],
  [Code.NOT_FOUND, NotFoundError],
  [Code.ABORTED, ConflictError],
  [Code.ALREADY_EXISTS, AlreadyExistsError],
  [Code.FAILED_PRECONDITION, FailedPreconditionError],
  [Code.OUT_OF_RANGE, OutOfRangeError],
  [Code.RESOURCE_EXHAUSTED, ResourceExhaustedError],
  [Code.UNAUTHENTICATED, PermissionDeniedError],
  [Code.PERMISSION_DENIED, PermissionDeniedError],
  [Code.UNAVAILABLE, UnavailableError],
  [Code.DEADLINE_EXCEEDED, DeadlineExceededError],
]);

const CODES = Object.values(Code).filter((each): each is Code => typeof each === "number");

/** Returns a detail of this type; undefined if it is of another one, or can't be decoded. */
function unpacked<D extends DescMessage>(detail: Any, schema: D): MessageShape<D> | undefined {
  try {
    return anyUnpack(detail, schema);
  } catch {
    return undefined; // perhaps from a proxy: the code and the message are still good
  }
}

/** Converts a status with its `google.rpc` details to an error. Details of other types are ignored. */
export function fromStatus(number: number, message: string, details: readonly Any[], cause?: unknown): TopicPoliciesError {
  const code = CODES.find((known) => known.valueOf() === number) ?? Code.UNKNOWN;
  let reason = "";
  let metadata: Record<string, string> = {};
  let fromService = false;
  let retryAfterMs: number | undefined;
  const violations: Violation[] = [];
  for (const detail of details) {
    const info = unpacked(detail, ErrorInfoSchema);
    if (info !== undefined) {
      ({ reason, metadata } = info);
      fromService = info.domain === DOMAIN;
    }
    const delay = unpacked(detail, RetryInfoSchema)?.retryDelay;
    if (delay !== undefined) retryAfterMs = Math.max(0, Number(delay.seconds) * 1000 + delay.nanos / 1e6);
    for (const each of unpacked(detail, BadRequestSchema)?.fieldViolations ?? []) {
      violations.push({ field: each.field, reason: each.reason, description: each.description });
    }
  }
  const kind = CLASSES.get(code) ?? TopicPoliciesError;
  return new kind(message, { code, reason, metadata, violations, fromService, retryAfterMs, cause });
}

/** Converts whatever a call threw to a TopicPoliciesError. */
export function fromServiceError(error: unknown): TopicPoliciesError {
  if (error instanceof TopicPoliciesError) return error;
  if (!isServiceError(error)) {
    return new TopicPoliciesError(error instanceof Error ? error.message : String(error), { code: Code.UNKNOWN, cause: error });
  }
  const [written] = error.metadata.get("grpc-status-details-bin");
  let details: readonly Any[] = [];
  if (written instanceof Uint8Array) {
    try {
      details = fromBinary(StatusSchema, written).details;
    } catch {
      details = []; // perhaps from a proxy: the code and the message are still good
    }
  }
  return fromStatus(error.code, error.details || Code[error.code], details, error);
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && "code" in error && "details" in error && "metadata" in error;
}

/** Creates the error of a request that was refused before it was sent. */
export function invalid(field: string, reason: string, description: string): InvalidArgumentError {
  return new InvalidArgumentError(description, { code: Code.INVALID_ARGUMENT, reason, violations: [{ field, reason, description }] });
}
