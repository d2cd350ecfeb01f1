import type { Document } from "./documents.js";
import type { TopicPoliciesError } from "./errors.js";
import type { TopicPolicies } from "./generated/topicpolicies/v1/policies_pb.js";
import type { NamespaceState } from "./generated/topicpolicies/v1/service_pb.js";
import type { HistoryEntry, HistoryGap, Origin } from "./history.js";
import type { WatchToken } from "./tokens.js";

interface OfNamespace {
  /** `tenant/namespace`. */
  readonly namespace: string;
}

/** What the events `changed` and `deleted` have besides the document. */
interface Change extends OfNamespace {
  /** The version before this one; empty in a snapshot, and if it is not known. */
  readonly previousVersion: string;
  /** The document before the change; undefined if it was not requested (`includePrevious`), or is not known. */
  readonly previous: Document | undefined;
  /** The partition of the change log, and the position of the event in it; the position is empty if the log has no such event. */
  readonly partition: number;
  readonly position: string;
  /** Who made the change, and how; undefined if that is not known. */
  readonly origin: Origin | undefined;
  /** Whether the event belongs to the snapshot before `synced`; otherwise it is a change. */
  readonly snapshot: boolean;
}

/** A document of the snapshot, or one that was created or changed. */
export interface Changed extends Change {
  readonly kind: "changed";
  readonly document: Document & { readonly policies: TopicPolicies };
}

/** A document was deleted, or, in a snapshot, a topic that was selected by name has none. */
export interface Deleted extends Change {
  readonly kind: "deleted";
  readonly document: Document & { readonly policies: undefined };
}

/** An event of the change log (mode ENTRIES). */
export interface Entry extends OfNamespace {
  readonly kind: "entry";
  readonly entry: HistoryEntry;
}

interface Confirmation extends OfNamespace {
  /** The place in the change log from which a later watch can resume. */
  readonly token: WatchToken;
  /** The time, by the server's clock, up to which every change has been sent. */
  readonly confirmedTime: Date | undefined;
  /**
   * How many milliseconds `confirmedTime` lies behind the newest confirmed time that this stream has sent for any namespace; infinite if
   * the server sent none.
   */
  readonly lagMs: number;
}

/** The snapshot of a namespace is complete, or a resumed watch has caught up with the namespace. */
export interface Synced extends Confirmation {
  readonly kind: "synced";
}

/** Every change up to `token` has been sent. Bookmarks come from time to time while the namespace is followed. */
export interface Bookmark extends Confirmation {
  readonly kind: "bookmark";
}

/** The namespace starts over: documents that are not sent again before `synced` no longer exist. */
export interface Reset extends OfNamespace {
  readonly kind: "reset";
  /** Machine-readable, such as `LOG_REPLACED`; empty if the stream broke before `synced`, or `resume` does not cover the namespace. */
  readonly reason: string;
  readonly message: string;
}

/** The state of a namespace has changed. Documents of a namespace that is not READY may be stale. */
export interface Status extends OfNamespace {
  readonly kind: "status";
  readonly state: NamespaceState;
  /** Machine-readable, such as `LOG_UNREACHABLE`; empty for READY. */
  readonly reason: string;
  readonly message: string;
}

/** The history may lack events here, before those that follow. */
export interface Gap extends OfNamespace {
  readonly kind: "gap";
  readonly gap: HistoryGap;
}

/** The stream broke. The watch connects again by itself and resumes where it was. */
export interface Interrupted {
  readonly kind: "interrupted";
  readonly error: TopicPoliciesError;
  /** How many attempts in a row have failed, counted from 1. */
  readonly attempt: number;
  readonly retryInMs: number;
}

/**
 * An event of a watch.
 *
 * A consumer that mirrors documents needs four kinds: on `changed` and `deleted` it updates its copy; on `reset`, and at the start, it
 * begins to record which documents of the namespace are sent; on `synced` it removes those that were not. `PolicyCache` is such a consumer.
 */
export type WatchEvent = Changed | Deleted | Entry | Synced | Bookmark | Reset | Status | Gap | Interrupted;
