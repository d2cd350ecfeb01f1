import { maybeDocument, type Document } from "./documents.js";
import type { TopicPoliciesError } from "./errors.js";
import type { DeleteOutcome, DeletePolicyResponse, UpdateOutcome, UpdatePolicyResponse } from "./generated/topicpolicies/v1/service_pb.js";
import type { Deletion, Update } from "./requests.js";

interface ChangeResult {
  /**
   * The document after the change; for a dry run, the document as it would be, with the present version. Undefined only in the answer to a
   * repeat, if later changes have replaced the document.
   */
  readonly document: Document | undefined;
  /** The version after the change; for a dry run, the present one. Empty only in the answer to a repeat, if it is no longer known. */
  readonly version: string;
  /**
   * The version that the change was applied to. Along all changes of a document, each version is the next one's previous version. Empty if
   * it is no longer known.
   */
  readonly previousVersion: string;
  /** The document that the change was applied to; undefined if it was not requested (`includePrevious`), or is no longer known. */
  readonly previous: Document | undefined;
  /** The id of the request, the caller's or one that the client made: 32 hexadecimal digits. Empty if nothing had to be sent. */
  readonly requestId: string;
  /** Whether this is the answer to an earlier request with the same id, returned again. */
  readonly replayed: boolean;
}

/** The result of an update. */
export interface UpdateResult extends ChangeResult {
  readonly outcome: UpdateOutcome;
}

/** The result of a deletion; its document has no policies. */
export interface DeleteResult extends ChangeResult {
  readonly outcome: DeleteOutcome;
}

interface Place<C> {
  /** The change, as it was given. */
  readonly change: C;
  /** The number of the change among all changes, counted from 0. */
  readonly index: number;
}

/** The result of one of many changes. */
export type Settled =
  | (Place<Update> & { readonly kind: "updated"; readonly result: UpdateResult })
  | (Place<Deletion> & { readonly kind: "deleted"; readonly result: DeleteResult })
  | (Place<Update | Deletion> & {
    /** The change failed; the others are not affected. */
    readonly kind: "failed";
    readonly error: TopicPoliciesError;
    /** The id with which to repeat the change; empty if it was not sent. */
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
