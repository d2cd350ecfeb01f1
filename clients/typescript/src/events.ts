import type { TopicPoliciesError } from "./errors.js";
import type { TopicPolicies } from "./generated/topicpolicies/v1/policies_pb.js";
import type { ChangeOrigin } from "./generated/topicpolicies/v1/service_pb.js";
import type { WatchToken } from "./tokens.js";
import type { Document } from "./types.js";

/** Where an event stands, and who caused it. */
interface Place {
  /** `tenant/namespace`. */
  readonly namespace: string;
  /** Empty in what was loaded from the log. */
  readonly previousVersion: string;
  /** The partition of the change log, and the event's position in it. */
  readonly partition: number;
  readonly position: string;
  /** Who changed the document, as far as the log tells. */
  readonly origin: ChangeOrigin | undefined;
  /** Whether it belongs to the snapshot before `synced`; otherwise it is a change. */
  readonly snapshot: boolean;
}

/** There is a document: of the snapshot, or because it changed. */
export interface Changed extends Document, Place {
  readonly kind: "changed";
  readonly policies: TopicPolicies;
}

/** There is no document: it was deleted, or, in a snapshot, a topic that was asked for has none. */
export interface Deleted extends Document, Place {
  readonly kind: "deleted";
  readonly policies: undefined;
}

/** The snapshot of a namespace is complete, or a resumed watch has caught up with it. */
export interface Synced {
  readonly kind: "synced";
  readonly namespace: string;
  readonly token: WatchToken;
}

/** Nothing before this place is owed any more; sent from time to time. */
export interface Bookmark {
  readonly kind: "bookmark";
  readonly namespace: string;
  readonly token: WatchToken;
}

/**
 * A namespace begins again with a snapshot: what is not told again before `synced` is gone. It comes before every snapshot but the first of a
 * watch that was begun without a token.
 */
export interface Restarted {
  readonly kind: "restarted";
  readonly namespace: string;
  readonly reason: string;
}

/** The service is still reading the change log of a namespace. */
export interface NamespaceLoading {
  readonly kind: "loading";
  readonly namespace: string;
  readonly message: string;
}

/** The service can't read the change log of a namespace for now; it tries again, and so nothing is lost. */
export interface NamespaceUnavailable {
  readonly kind: "unavailable";
  readonly namespace: string;
  readonly message: string;
  /** Machine-readable, as in an error: `TOPIC_POLICIES_DISABLED`, for example. */
  readonly reason: string;
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
 * A consumer that mirrors documents needs four kinds: on `changed` and `deleted` it moves along; on `restarted` it begins to note which documents
 * of the namespace are told again; on `synced` it drops those that were not. `PolicyCache` is that consumer.
 */
export type WatchEvent = Changed | Deleted | Synced | Bookmark | Restarted | NamespaceLoading | NamespaceUnavailable | Interrupted;
