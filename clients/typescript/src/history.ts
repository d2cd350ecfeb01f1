import { timestampDate, type Timestamp } from "@bufbuild/protobuf/wkt";

import { isKnown, maybeDocument, type Document } from "./documents.js";
import type { PulsarEvent } from "./generated/topicpolicies/v1/events_pb.js";
import {
  HistoryKind,
  type ActorStanding, type ChangeOrigin, type HistoryEntry as EntryMessage, type HistoryGap as GapMessage, type HistoryGapReason,
  type HistoryOutcome,
} from "./generated/topicpolicies/v1/service_pb.js";

/** Who or what made an event, as far as the log records it. */
export interface Origin {
  /** Who requested the change; `actorStanding` says how reliable that is. Empty if no actor was given. */
  readonly actor: string;
  readonly actorStanding: ActorStanding;
  /** Why the change was requested; empty if no reason was given. */
  readonly reason: string;
  /** The id of the request; empty for an event of a broker, and for a repair. */
  readonly requestId: string;
  /**
   * The paths that the request named. In the history, for an event of a broker: the paths that the change is inferred to concern. Undefined
   * if not known.
   */
  readonly updateMask: readonly string[] | undefined;
  readonly producerName: string;
  /** When the event was published, by the clock of its writer. */
  readonly publishTime: Date | undefined;
  /** The event itself, as long as the server still has it. */
  readonly event: PulsarEvent | undefined;
  /** The principal whose credentials the service verified: the actor, or a proxy that called for the actor; empty if none were verified. */
  readonly principal: string;
  /** The name that the caller gave as actor, if the actor was authenticated under another name; it was not verified. */
  readonly claimedActor: string;
  /** The trace of the request, as a W3C `traceparent`; empty if not known. */
  readonly traceParent: string;
}

/** One event of the change log, and its effect. */
export interface HistoryEntry {
  /** The document after the event; undefined if the event could not be read and its document is not known. */
  readonly document: Document | undefined;
  /** The document before the event; undefined if it is not known. */
  readonly previous: Document | undefined;
  readonly kind: HistoryKind;
  readonly outcome: HistoryOutcome;
  /** The time of the event; the history is ordered by it. */
  readonly time: Date | undefined;
  /** The partition of the change log, and the event's position in it. */
  readonly partition: number;
  readonly position: string;
  readonly origin: Origin | undefined;
  /** The paths that differ between the two documents. */
  readonly changed: readonly string[];
  /** Whether the writer computed the event from a document other than the one that the event found. */
  readonly stale: boolean;
  /** Whether no recent document explains this event of a broker: applying it may have undone another change. */
  readonly unexplained: boolean;
  /** Whether two recent documents explain this event of a broker differently; the newer one was assumed. */
  readonly ambiguous: boolean;
  /** Whether the event came from another cluster. */
  readonly replicated: boolean;
  /** Why the event could not be read; empty if it could. */
  readonly problem: string;
}

/** A period for which the history of a namespace may lack events. */
export interface HistoryGap {
  /** The start of the period; undefined if it is the beginning of the log. */
  readonly startTime: Date | undefined;
  readonly endTime: Date | undefined;
  readonly reason: HistoryGapReason;
}

export function originOf(message: ChangeOrigin | undefined): Origin | undefined {
  if (message === undefined) return undefined;
  const { actor, actorStanding, reason, requestId, updateMask, producerName, publishTime, event, principal, claimedActor, traceParent } =
    message;
  return {
    actor, actorStanding, reason, requestId, updateMask: updateMask?.paths, producerName, publishTime: dateOf(publishTime), event,
    principal, claimedActor, traceParent,
  };
}

/** Converts an entry; undefined if its kind or scope is unknown to this package. */
export function entryOf(message: EntryMessage): HistoryEntry | undefined {
  const { document, previous, kind, outcome, time, partition, position, origin, changed } = message;
  const { stale, unexplained, ambiguous, replicated, problem } = message;
  if (!(kind in HistoryKind) || (document !== undefined && !isKnown(document.scope))) return undefined;
  return {
    document: maybeDocument(document), previous: maybeDocument(previous), kind, outcome, time: dateOf(time), partition, position,
    origin: originOf(origin), changed: changed?.paths ?? [], stale, unexplained, ambiguous, replicated, problem,
  };
}

export function gapOf({ startTime, endTime, reason }: GapMessage): HistoryGap {
  return { startTime: dateOf(startTime), endTime: dateOf(endTime), reason };
}

export function dateOf(time: Timestamp | undefined): Date | undefined {
  return time === undefined ? undefined : timestampDate(time);
}
