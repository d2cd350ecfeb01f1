import { clone, create } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { status as Code } from "@grpc/grpc-js";

import { documentOf, isKnown, maybeDocument } from "./documents.js";
import { invalid, type TopicPoliciesError } from "./errors.js";
import type { Changed, Deleted, Interrupted, Reset, Status, WatchEvent } from "./events.js";
import { Freshness } from "./freshness.js";
import { ErrorReason } from "./generated/topicpolicies/v1/errors_pb.js";
import type { Scope } from "./generated/topicpolicies/v1/policies_pb.js";
import {
  BookmarkKind, NamespaceState, WatchMode, WatchPoliciesRequestSchema,
  type Bookmark, type HistoryEntry, type NamespaceStatus, type PolicyChange, type WatchEvent as Message,
  type WatchPoliciesRequest, type WatchPoliciesResponse,
} from "./generated/topicpolicies/v1/service_pb.js";
import { dateOf, entryOf, gapOf, originOf } from "./history.js";
import { namespaceOf } from "./names.js";
import { delayMs, passingLimit } from "./retries.js";
import { folded, messageOf, ResumeToken, tokenOf, type WatchToken } from "./tokens.js";

/** What to watch, and how. */
export interface Selection {
  /** Single topics. */
  readonly topics?: readonly string[];
  /** Namespaces, `tenant/namespace`, of which all topics are watched. */
  readonly namespaces?: readonly string[];
  /** By default both. */
  readonly scopes?: readonly Scope[];
  /** By default LATEST: a reader that falls behind gets only the newest state of each document. */
  readonly mode?: WatchMode;
  /** The token of an earlier watch, to resume from there; by default the watch begins with a snapshot. */
  readonly resume?: ResumeToken;
  /** Begins with the first change in the history instead of with a snapshot (mode EVERY; ENTRIES always does). */
  readonly fromBeginning?: boolean;
  /** Ends the watch when every namespace is synced. */
  readonly endWhenSynced?: boolean;
  /** Adds the document before each change (mode EVERY). */
  readonly includePrevious?: boolean;
  /** The time between two bookmarks of a namespace; by default 10 seconds, at least 1 second. */
  readonly bookmarkIntervalMs?: number;
  /**
   * How long the service may be silent or unreachable before the watch gives up; by default without limit. It must be longer than
   * `bookmarkIntervalMs`.
   */
  readonly patienceMs?: number;
  /** Ends the watch, which then throws the signal's reason. */
  readonly signal?: AbortSignal;
}

/**
 * The status codes of streams that it makes no sense to open again. CANCELLED is not among them: a watch that its reader ends never gets
 * here.
 */
const FINAL: ReadonlySet<Code> = new Set([
  Code.INVALID_ARGUMENT, Code.UNAUTHENTICATED, Code.PERMISSION_DENIED, Code.UNIMPLEMENTED, Code.FAILED_PRECONDITION,
]);
const PAUSES = { initialBackoffMs: 100, maxBackoffMs: 10_000, multiplier: 2 };
/** For a service that is full, already the first pause is the longest. */
const LONG_PAUSES = { ...PAUSES, initialBackoffMs: PAUSES.maxBackoffMs };

/** One namespace of a watch. */
class Part {
  /** Whether the events before `synced` are changes, from the first one on, instead of a snapshot. */
  beginning = false;
  /** Whether any event came while there was no token: if the stream breaks then, a `reset` is due. */
  hasEvents = false;
  synced = false;

  /**
   * @param token the place of the watch; undefined before `synced` (in the mode ENTRIES: before the first bookmark), unless the watch was
   * resumed
   * @param uncovered whether the watch is resumed from a token that lacks this namespace, and its `reset` was not sent yet
   */
  constructor(public token?: WatchToken, public uncovered = false) {}
}

/**
 * A watch that outlives its streams, without I/O: what to request, what a message means, and what to do when the stream breaks.
 *
 * The session keeps one token per namespace: the place of the watch. It begins as the token that was given, or as that of the SYNCED
 * bookmark; from then on the position of every event is folded into it, so that a stream that breaks between two bookmarks is resumed where
 * it broke. Before SYNCED there is no token: a snapshot has no order in which a position could be a place, so a broken one is started over,
 * after a `reset`. In the mode ENTRIES, where events come in the log's order and without a snapshot, the token of every bookmark is taken.
 */
export class WatchSession {
  readonly #request: WatchPoliciesRequest;
  readonly #parts = new Map<string, Part>();
  /** How long the service may be silent or unreachable. */
  readonly patienceMs: number;
  #freshness = new Freshness();
  #quietSince: number | undefined;
  #failed = 0;

  constructor(selection: Selection) {
    const { topics = [], namespaces = [], scopes = [], resume, bookmarkIntervalMs } = selection;
    const { fromBeginning = false, endWhenSynced = false, includePrevious = false } = selection;
    this.#request = create(WatchPoliciesRequestSchema, {
      topics: [...topics], namespaces: [...namespaces], scopes: [...scopes], fromBeginning, endWhenSynced, includePrevious,
    });
    if (selection.mode !== undefined) this.#request.mode = selection.mode;
    if (bookmarkIntervalMs !== undefined) {
      if (!Number.isFinite(bookmarkIntervalMs)) throw invalid("bookmarkIntervalMs", "WRONG_VALUE", "bookmarkIntervalMs is a number of milliseconds.");
      this.#request.bookmarkInterval = durationFromMs(Math.round(bookmarkIntervalMs));
    }
    this.patienceMs = selection.patienceMs ?? Infinity;
    for (const name of [...topics.map(namespaceOf), ...namespaces]) {
      const token = resume?.namespaces.get(name);
      this.#parts.set(name, new Part(token, resume !== undefined && token === undefined));
    }
    if (this.#parts.size === 0) throw invalid("topics", "NOTHING_SELECTED", "Name at least one topic or namespace to watch.");
  }

  /** The namespaces that were selected. */
  get namespaces(): string[] {
    return [...this.#parts.keys()];
  }

  /** The place of the watch, after all events so far. */
  get token(): ResumeToken {
    return new ResumeToken([...this.#parts].flatMap(([name, { token }]) => (token === undefined ? [] : [[name, token] as const])));
  }

  /** Whether the watch was to end when every namespace is synced, and every one is. */
  get isDone(): boolean {
    return this.#request.endWhenSynced && [...this.#parts.values()].every((part) => part.synced);
  }

  /**
   * Prepares for a new stream. Returns the request to send, and the events to deliver first. `now` is a time in ms of a monotonic clock.
   */
  connect(now: number): { request: WatchPoliciesRequest; events: Reset[] } {
    this.#quietSince ??= now;
    this.#freshness = new Freshness();
    const request = clone(WatchPoliciesRequestSchema, this.#request);
    const events: Reset[] = [];
    for (const [namespace, part] of this.#parts) {
      part.beginning = part.token === undefined && request.fromBeginning;
      if (part.token !== undefined) request.resume[namespace] = messageOf(part.token);
      else if (part.hasEvents || part.uncovered) {
        const why = part.uncovered ? "the token does not cover this namespace" : "the watch was interrupted before the snapshot was complete";
        const message = `The namespace ${namespace} begins again: ${why}.`;
        events.push({ kind: "reset", namespace, reason: "", message });
        part.hasEvents = part.uncovered = false;
      }
    }
    return { request, events };
  }

  /** Takes a message of the stream and yields its events. */
  *received(response: WatchPoliciesResponse, now: number): Iterable<WatchEvent> {
    this.#quietSince = now;
    for (const message of response.events) {
      const event = this.#event(message);
      if (event !== undefined) yield event;
    }
  }

  /**
   * Records that the stream has ended. Returns the event to deliver, with the time to wait before connecting again. Throws the error if
   * retrying can't help, or the patience is over.
   *
   * @param chance a random number, at least 0 and less than 1
   */
  broke(error: TopicPoliciesError, now: number, chance: number): Interrupted {
    const renewable = error.reason === "CREDENTIALS_EXPIRED" && this.#failed === 0; // the next stream may have a newer token
    const malformed = !error.fromService && error.reason === "MALFORMED_TOKEN"; // likewise: what the token function gave
    if (FINAL.has(error.code) && !renewable && !malformed) throw error;
    this.#failed += 1;
    const full = error.code === Code.RESOURCE_EXHAUSTED && !passingLimit(error);
    const retryInMs = delayMs(full ? LONG_PAUSES : PAUSES, this.#failed, chance) + (error.retryAfterMs ?? 0);
    if (now - (this.#quietSince ?? now) + retryInMs > this.patienceMs) throw error;
    return { kind: "interrupted", error, attempt: this.#failed, retryInMs };
  }

  #event({ namespace, content }: Message): WatchEvent | undefined {
    const part = this.#parts.get(namespace);
    if (part === undefined) return undefined; // not selected
    switch (content.case) {
      case "change":
        return change(namespace, part, content.value);
      case "entry":
        return entry(namespace, part, content.value);
      case "bookmark":
        return this.#bookmark(namespace, part, content.value);
      case "status":
        return status(namespace, content.value);
      case "reset":
        this.#parts.set(namespace, new Part());
        return { kind: "reset", namespace, reason: nameOf(content.value.reason), message: content.value.message };
      case "gap":
        return { kind: "gap", namespace, gap: gapOf(content.value) };
      default:
        return undefined; // of a newer service
    }
  }

  #bookmark(namespace: string, part: Part, { kind, token: message, confirmedTime }: Bookmark): WatchEvent | undefined {
    const synced = kind === BookmarkKind.SYNCED;
    const lagMs = this.#freshness.lagMs(confirmedTime);
    const withinSnapshot = part.token === undefined && !synced && this.#request.mode !== WatchMode.ENTRIES;
    if (withinSnapshot) return undefined; // within a snapshot there is no place to resume from
    const token = tokenOf(message);
    part.token = token;
    const common = { namespace, token, confirmedTime: dateOf(confirmedTime), lagMs };
    if (!synced) return { kind: "bookmark", ...common };
    part.synced = true;
    this.#failed = 0;
    return { kind: "synced", ...common };
  }
}

/** Records the position of an event in the log. */
function fold(part: Part, partition: number, position: string): void {
  if (part.token === undefined) part.hasEvents = true;
  else part.token = folded(part.token, partition, position);
}

function change(namespace: string, part: Part, message: PolicyChange): Changed | Deleted | undefined {
  const { document, previousVersion, previous, partition, position, origin } = message;
  const snapshot = part.token === undefined && !part.beginning;
  fold(part, partition, position);
  if (document === undefined || !isKnown(document.scope)) return undefined; // of a newer service
  const common = { namespace, previousVersion, previous: maybeDocument(previous), partition, position, origin: originOf(origin), snapshot };
  const { policies, ...rest } = documentOf(document);
  return policies === undefined
    ? { kind: "deleted", document: { ...rest, policies }, ...common }
    : { kind: "changed", document: { ...rest, policies }, ...common };
}

function entry(namespace: string, part: Part, message: HistoryEntry): WatchEvent | undefined {
  fold(part, message.partition, message.position);
  const entry = entryOf(message);
  return entry && { kind: "entry", namespace, entry };
}

function status(namespace: string, { state, reason, message }: NamespaceStatus): Status | undefined {
  if (!(state in NamespaceState)) return undefined; // of a newer service
  return { kind: "status", namespace, state, reason: nameOf(reason), message };
}

/** The name of a reason, as errors have it; empty if there is none. */
function nameOf(reason: ErrorReason): string {
  if (reason === ErrorReason.UNSPECIFIED) return "";
  return reason in ErrorReason ? ErrorReason[reason] : String(reason);
}
