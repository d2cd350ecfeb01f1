import { maybeDocument, type Document } from "./documents.js";
import type { TopicPoliciesError } from "./errors.js";
import type { DeleteOutcome, DeletePolicyResponse, UpdateOutcome, UpdatePolicyResponse } from "./generated/topicpolicies/v1/service_pb.js";
import type { Deletion, Update } from "./requests.js";

interface ChangeResult {
  /**
   * The document after the change; of a dry run the one that it would be, with the present version. Undefined only if this answers a repeat
   * whose own event is no longer known.
   */
  readonly document: Document | undefined;
  /** The version after the change; of a dry run the present one. Empty only if this answers a repeat of which it is no longer known. */
  readonly version: string;
  /**
   * The version that the change was applied to. Along all changes of a document each version is the next one's previous one. Empty: not
   * known any more.
   */
  readonly previousVersion: string;
  /** The document that the change was applied to; undefined if it was not asked for (`includePrevious`), or is not known any more. */
  readonly previous: Document | undefined;
  /** Of the caller or of the client: 32 hexadecimal digits. Empty if nothing had to be sent. */
  readonly requestId: string;
  /** Whether this is the answer to an earlier request of the same id, given again. */
  readonly replayed: boolean;
}

/** What became of an update. */
export interface UpdateResult extends ChangeResult {
  readonly outcome: UpdateOutcome;
}

/** What became of a deletion; its document is the absence. */
export interface DeleteResult extends ChangeResult {
  readonly outcome: DeleteOutcome;
}

interface Place<C> {
  /** The change, as it was given. */
  readonly change: C;
  /** Its number among all changes, from 0. */
  readonly index: number;
}

/** One of many changes is settled. */
export type Settled =
  | (Place<Update> & { readonly kind: "updated"; readonly result: UpdateResult })
  | (Place<Deletion> & { readonly kind: "deleted"; readonly result: DeleteResult })
  | (Place<Update | Deletion> & {
    /** It failed, alone. */
    readonly kind: "failed";
    readonly error: TopicPoliciesError;
    /** To repeat it with; empty if it was not sent. */
    readonly requestId: string;
  });

export function updateResult({ outcome, ...rest }: UpdatePolicyResponse): UpdateResult {
  return { outcome, ...common(rest) };
}

export function deleteResult({ outcome, ...rest }: DeletePolicyResponse): DeleteResult {
  return { outcome, ...common(rest) };
}

type Answer = Pick<UpdatePolicyResponse, "document" | "version" | "previousVersion" | "previous" | "requestId" | "replayed">;

function common({ document, version, previousVersion, previous, requestId, replayed }: Answer): ChangeResult {
  return { document: maybeDocument(document), version, previousVersion, previous: maybeDocument(previous), requestId, replayed };
}
