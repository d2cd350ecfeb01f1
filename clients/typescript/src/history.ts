import { timestampDate, type Timestamp } from "@bufbuild/protobuf/wkt";

import { isKnown, maybeDocument, type Document } from "./documents.js";
import type { PulsarEvent } from "./generated/topicpolicies/v1/events_pb.js";
import {
  HistoryKind,
  type ActorStanding, type ChangeOrigin, type HistoryEntry as EntryMessage, type HistoryGap as GapMessage, type HistoryGapReason,
  type HistoryOutcome,
} from "./generated/topicpolicies/v1/service_pb.js";

/** Where an event came from, as far as the log tells. */
export interface Origin {
  /** Who asked for it, as far as it is known (`actorStanding`); empty if nobody said. */
  readonly actor: string;
  readonly actorStanding: ActorStanding;
  /** Why; empty if nobody said. */
  readonly reason: string;
  /** Empty of a broker's event, and of a repair. */
  readonly requestId: string;
  /** What the request named; of a broker's event, in the history, what it was taken to change. Undefined if that is not known. */
  readonly updateMask: readonly string[] | undefined;
  readonly producerName: string;
  /** When it was published, by its writer's word. */
  readonly publishTime: Date | undefined;
  /** The event itself, while it is at hand. */
  readonly event: PulsarEvent | undefined;
  /** Whose credentials the service had verified: the actor's own, or those of a proxy that called for the actor; empty: nobody's. */
  readonly principal: string;
  /** The name that the caller gave, where the actor was authenticated and has another one: nobody checked it. */
  readonly claimedActor: string;
  /** The trace in which it was asked for, as W3C's `traceparent`; empty: in none that is known. */
  readonly traceParent: string;
}

/** One event of the change log, and what it did. */
export interface HistoryEntry {
  /** The document after it; undefined if the event could not be read, and it is not known whose it was. */
  readonly document: Document | undefined;
  /** The document before it; undefined if that is not known. */
  readonly previous: Document | undefined;
  readonly kind: HistoryKind;
  readonly outcome: HistoryOutcome;
  /** When it happened, as the history has it in order. */
  readonly time: Date | undefined;
  /** The partition of the change log, and the event's position in it. */
  readonly partition: number;
  readonly position: string;
  readonly origin: Origin | undefined;
  /** Paths that differ between the two documents. */
  readonly changed: readonly string[];
  /** Whether it was computed from something else than the document that it met. */
  readonly stale: boolean;
  /** Whether no recent document explains this event of a broker. */
  readonly unexplained: boolean;
  /** Whether two recent documents explain this event of a broker differently. */
  readonly ambiguous: boolean;
  /** Whether it came from another cluster. */
  readonly replicated: boolean;
  /** Why it could not be read; empty if it could. */
  readonly problem: string;
}

/** A time in which the record of a namespace may miss events. */
export interface HistoryGap {
  /** Undefined: from the beginning of the log. */
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

/** An entry; undefined of one whose kind or scope this package does not know. */
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
