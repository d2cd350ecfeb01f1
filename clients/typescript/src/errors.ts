import { fromBinary, type DescMessage, type MessageShape } from "@bufbuild/protobuf";
import { anyUnpack, type Any } from "@bufbuild/protobuf/wkt";
import { status as Code, type Metadata } from "@grpc/grpc-js";

import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema, type BadRequest_FieldViolation } from "./generated/google/rpc/error_details_pb.js";
import { StatusSchema } from "./generated/google/rpc/status_pb.js";

/** The domain of the service's own reasons. */
const DOMAIN = "topicpolicies";

/**
 * What kind of error it is. `conflict`: the precondition does not hold, or the document changes too often; read it again and decide anew.
 * `outcome unknown`: the change may have happened; repeat it with the error's `requestId` to learn that, nothing is done twice. After all
 * other kinds nothing has been changed.
 */
export type ErrorKind =
  | "invalid" | "not found" | "conflict" | "failed precondition" | "out of range" | "limit" | "denied" | "unavailable" | "timeout" | "failed"
  | "outcome unknown";

const KINDS: Readonly<Partial<Record<Code, ErrorKind>>> = {
  [Code.INVALID_ARGUMENT]: "invalid",
  [Code.NOT_FOUND]: "not found",
  [Code.ABORTED]: "conflict",
  [Code.FAILED_PRECONDITION]: "failed precondition",
  [Code.OUT_OF_RANGE]: "out of range",
  [Code.RESOURCE_EXHAUSTED]: "limit",
  [Code.UNAUTHENTICATED]: "denied",
  [Code.PERMISSION_DENIED]: "denied",
  [Code.UNAVAILABLE]: "unavailable",
  [Code.DEADLINE_EXCEEDED]: "timeout",
};

/** The codes after which a change may have happened, unless the service itself says otherwise. */
const AMBIGUOUS: ReadonlySet<Code> = new Set([Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED, Code.INTERNAL, Code.UNKNOWN]);

/** The codes with which a watch ends for good. */
const FINAL: ReadonlySet<Code> = new Set([
  Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.PERMISSION_DENIED, Code.FAILED_PRECONDITION, Code.UNIMPLEMENTED,
]);

/** How a call ended. */
interface Status {
  readonly code: Code;
  readonly details: string;
  /** Has the details of the error, if there are any. */
  readonly metadata?: Metadata;
}

/** The error of a call that failed. */
export class TopicPoliciesError extends Error {
  override readonly name = "TopicPoliciesError";
  readonly kind: ErrorKind;
  /** gRPC's status code. */
  readonly code: Code;
  /** The name of an `ErrorReason`, such as `PRECONDITION_FAILED`. Empty: the error is not the service's own. */
  readonly reason: string;
  /** Everything that is wrong with the request, each with a field, a reason and a sentence. */
  readonly violations: readonly BadRequest_FieldViolation[];
  /** Further facts, by the keys that `ErrorReason` names. */
  readonly metadata: Readonly<Record<string, string>>;
  /** When the service suggests to try again, in milliseconds. 0: it suggests nothing. */
  readonly retryAfterMs: number;
  /** The id of the change that failed. Empty for other calls. */
  readonly requestId: string;

  /** @param requestId the id of the change; undefined if the call is none */
  constructor(code: Code, message: string, details: readonly Any[], requestId: string | undefined, options?: ErrorOptions) {
    super(message, options);
    const info = find(details, ErrorInfoSchema);
    const own = info?.domain === DOMAIN ? info : undefined;
    const delay = find(details, RetryInfoSchema)?.retryDelay;
    this.code = code;
    this.reason = own?.reason ?? "";
    this.metadata = own?.metadata ?? {};
    this.violations = find(details, BadRequestSchema)?.fieldViolations ?? [];
    this.retryAfterMs = delay === undefined ? 0 : Number(delay.seconds) * 1000 + delay.nanos / 1e6;
    this.requestId = requestId ?? "";
    const ambiguous = this.reason === "" ? AMBIGUOUS.has(code) : this.reason === "OUTCOME_UNKNOWN" || this.reason === "INTERNAL";
    this.kind = requestId !== undefined && ambiguous ? "outcome unknown" : (KINDS[code] ?? "failed");
  }

  /**
   * Whether a watch that ended like this goes on: not if the request is at fault, or the caller may not watch. A token that expires while a
   * watch runs (`began`) may have been renewed.
   */
  resumable(began: boolean): boolean {
    if (this.code === Code.UNAUTHENTICATED) return began && this.reason === "CREDENTIALS_EXPIRED";
    return !FINAL.has(this.code);
  }
}

/** Converts an error of grpc-js; any other stays as it is. */
export function converted(error: unknown, requestId?: string): Error {
  if (error instanceof TopicPoliciesError || !isStatus(error)) return error instanceof Error ? error : new Error(String(error));
  const [bytes] = error.metadata?.get("grpc-status-details-bin") ?? [];
  const details = Buffer.isBuffer(bytes) ? fromBinary(StatusSchema, bytes).details : [];
  return new TopicPoliciesError(error.code, error.details, details, requestId, { cause: error });
}

function isStatus(error: unknown): error is Status {
  return error instanceof Error && "code" in error && typeof error.code === "number" && "details" in error;
}

function find<D extends DescMessage>(details: readonly Any[], schema: D): MessageShape<D> | undefined {
  for (const each of details) {
    const message = anyUnpack(each, schema);
    if (message !== undefined) return message;
  }
  return undefined;
}
