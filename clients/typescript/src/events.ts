import type { Document } from "./documents.js";
import type { TopicPoliciesError } from "./errors.js";
import type { TopicPolicies } from "./generated/topicpolicies/v1/policies_pb.js";
import type { NamespaceState } from "./generated/topicpolicies/v1/service_pb.js";
import type { HistoryEntry, HistoryGap, Origin } from "./history.js";
import type { WatchToken } from "./tokens.js";

interface Told {
  /** `tenant/namespace`. */
  readonly namespace: string;
}

/** What is told of a document besides itself. */
interface Change extends Told {
  /** Empty in a snapshot, and where it is not known. */
  readonly previousVersion: string;
  /** The document before; undefined if it was not asked for (`includePrevious`), or is not known. */
  readonly previous: Document | undefined;
  /** The partition of the change log, and the event's position in it; empty if the log has no event of it. */
  readonly partition: number;
  readonly position: string;
  /** Where the change came from; undefined if that is not known. */
  readonly origin: Origin | undefined;
  /** Whether it belongs to the snapshot before `synced`; otherwise it is a change. */
  readonly snapshot: boolean;
}

/** There is a document: of the snapshot, or because it changed. */
export interface Changed extends Change {
  readonly kind: "changed";
  readonly document: Document & { readonly policies: TopicPolicies };
}

/** There is no document: it was deleted, or, in a snapshot, a topic that was asked for has none. */
export interface Deleted extends Change {
  readonly kind: "deleted";
  readonly document: Document & { readonly policies: undefined };
}

/** An event of the log (mode ENTRIES). */
export interface Entry extends Told {
  readonly kind: "entry";
  readonly entry: HistoryEntry;
}

interface Confirmation extends Told {
  /** Where to go on from here. */
  readonly token: WatchToken;
  /** As of when everything was told, by the server's clock. */
  readonly confirmedTime: Date | undefined;
  /** How far that lies behind the newest such time that the stream has told of any namespace. */
  readonly lagMs: number;
}

/** The snapshot of a namespace is complete, or a resumed watch has caught up with it. */
export interface Synced extends Confirmation {
  readonly kind: "synced";
}

/** Everything up to this place was told; sent from time to time while the namespace is followed. */
export interface Bookmark extends Confirmation {
  readonly kind: "bookmark";
}

/** The namespace begins again: what was told of it counts no more, and what is not told again before `synced` is gone. */
export interface Reset extends Told {
  readonly kind: "reset";
  /** Machine-readable, such as `LOG_REPLACED`; empty if the stream broke before `synced`, or `resume` does not cover the namespace. */
  readonly reason: string;
  readonly message: string;
}

/** The namespace's state has changed. What is told of one that is not READY may be old. */
export interface Status extends Told {
  readonly kind: "status";
  readonly state: NamespaceState;
  /** Machine-readable, such as `LOG_UNREACHABLE`; empty for READY. */
  readonly reason: string;
  readonly message: string;
}

/** Events may be missing from the history here, before what follows. */
export interface Gap extends Told {
  readonly kind: "gap";
  readonly gap: HistoryGap;
}

/** The stream broke; the watch tries again by itself, from where it was. */
export interface Interrupted {
  readonly kind: "interrupted";
  readonly error: TopicPoliciesError;
  /** How many times in a row, counted from 1. */
  readonly attempt: number;
  readonly retryInMs: number;
}

/**
 * What a watch tells.
 *
 * A consumer that mirrors documents needs four kinds: on `changed` and `deleted` it moves along; on `reset`, as in the beginning, it notes
 * which documents of the namespace are told from then on; on `synced` it drops those that were not. `PolicyCache` is that consumer.
 */
export type WatchEvent = Changed | Deleted | Entry | Synced | Bookmark | Reset | Status | Gap | Interrupted;
