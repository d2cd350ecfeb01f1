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
  BookmarkKind, NamespaceState, WatchPoliciesRequestSchema,
  type Bookmark, type HistoryEntry, type NamespaceStatus, type PolicyChange, type WatchEvent as Message, type WatchMode,
  type WatchPoliciesRequest, type WatchPoliciesResponse,
} from "./generated/topicpolicies/v1/service_pb.js";
import { dateOf, entryOf, gapOf, originOf } from "./history.js";
import { namespaceOf } from "./names.js";
import { delayMs, passingLimit } from "./retries.js";
import { folded, messageOf, ResumeToken, tokenOf, type WatchToken } from "./tokens.js";

/** What to watch. */
export interface Selection {
  /** Single topics. */
  readonly topics?: readonly string[];
  /** Namespaces, `tenant/namespace`, of which all topics are watched. */
  readonly namespaces?: readonly string[];
  /** None: both. */
  readonly scopes?: readonly Scope[];
  /** Without it, LATEST: per document only the newest state is owed to a reader that falls behind. */
  readonly mode?: WatchMode;
  /** A token of an earlier watch to go on from; without it, a snapshot. */
  readonly resume?: ResumeToken;
  /** Begins with the first change that the history has, instead of with a snapshot (mode EVERY; ENTRIES always does). */
  readonly fromBeginning?: boolean;
  /** Ends when every namespace was told of completely. */
  readonly endWhenSynced?: boolean;
  /** Has the document before each change told (mode EVERY). */
  readonly includePrevious?: boolean;
  /** Time between two bookmarks; without it, 10 seconds. 1 second is the least. */
  readonly bookmarkIntervalMs?: number;
  /**
   * How long the service may be silent or out of reach before the watch gives up; without it, for ever. It must be longer than
   * bookmarkIntervalMs.
   */
  readonly patienceMs?: number;
  /** Ends the watch, which then fails with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** How streams end that it makes no sense to open again. Whoever ends a watch himself does not ask. */
const FINAL: ReadonlySet<Code> = new Set([
  Code.INVALID_ARGUMENT, Code.UNAUTHENTICATED, Code.PERMISSION_DENIED, Code.UNIMPLEMENTED, Code.FAILED_PRECONDITION,
]);
const PAUSES = { initialBackoffMs: 100, maxBackoffMs: 10_000, multiplier: 2 };
/** Where a service is full, the first pause is the longest at once. */
const LONG_PAUSES = { ...PAUSES, initialBackoffMs: PAUSES.maxBackoffMs };

/** One namespace of a watch. */
class Part {
  /** Whether what comes before `synced` are changes, from the first one on, and no snapshot. */
  beginning = false;
  /** Whether anything was told since the token was lost. */
  told = false;
  synced = false;

  /**
   * @param token where the watch is; undefined before `synced`, unless it was resumed
   * @param uncovered whether the watch was to be resumed from a token that does not have this namespace, and nobody was told of it yet
   */
  constructor(public token?: WatchToken, public uncovered = false) {}
}

/**
 * A watch that outlives its streams, without I/O: what to ask for, what an answer means, what to do when the stream breaks.
 *
 * Per namespace it keeps one token: where the watch is. It begins as the one that was handed in, or as that of the SYNCED bookmark; from
 * then on the position of every event is folded into it, so that a stream that breaks between two bookmarks is resumed where it broke.
 * Before SYNCED there is no token: a snapshot comes in no order that a position could stand for, and a broken one is begun again, after a
 * `reset`.
 */
export class WatchSession {
  readonly #request: WatchPoliciesRequest;
  readonly #parts = new Map<string, Part>();
  readonly #patienceMs: number;
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
    if (bookmarkIntervalMs !== undefined) this.#request.bookmarkInterval = durationFromMs(bookmarkIntervalMs);
    this.#patienceMs = selection.patienceMs ?? Infinity;
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

  /** Where the watch is, after everything that it has told. */
  get token(): ResumeToken {
    return new ResumeToken([...this.#parts].flatMap(([name, { token }]) => (token === undefined ? [] : [[name, token] as const])));
  }

  /** Whether the watch was to end when everything was told, and everything was. */
  get isDone(): boolean {
    return this.#request.endWhenSynced && [...this.#parts.values()].every((part) => part.synced);
  }

  /** A stream is about to be opened: what to send, and what to tell first. Times are in ms, on a clock that never goes back. */
  connect(now: number): { request: WatchPoliciesRequest; events: Reset[] } {
    this.#quietSince ??= now;
    this.#freshness = new Freshness();
    const request = clone(WatchPoliciesRequestSchema, this.#request);
    const events: Reset[] = [];
    for (const [namespace, part] of this.#parts) {
      part.beginning = part.token === undefined && request.fromBeginning;
      if (part.token !== undefined) request.resume[namespace] = messageOf(part.token);
      else if (part.told || part.uncovered) {
        const message = part.uncovered ? `The token that was given does not cover ${namespace}: it begins anew.`
          : `The stream broke before ${namespace} was told of completely: it begins again.`;
        events.push({ kind: "reset", namespace, reason: "", message });
        part.told = part.uncovered = false;
      }
    }
    return { request, events };
  }

  /** A message has come: what it tells. */
  *received(response: WatchPoliciesResponse, now: number): Iterable<WatchEvent> {
    this.#quietSince = now;
    for (const message of response.events) {
      const event = this.#event(message);
      if (event !== undefined) yield event;
    }
  }

  /**
   * The stream has ended: what to tell, and with it how long to wait before connecting again. Throws the error if it makes no sense to try
   * again, or patience is at its end.
   *
   * @param chance at least 0, less than 1
   */
  broke(error: TopicPoliciesError, now: number, chance: number): Interrupted {
    const renewable = error.reason === "CREDENTIALS_EXPIRED" && this.#failed === 0; // the next stream may have a newer token
    if (FINAL.has(error.code) && !renewable) throw error;
    this.#failed += 1;
    const full = error.code === Code.RESOURCE_EXHAUSTED && !passingLimit(error);
    const retryInMs = delayMs(full ? LONG_PAUSES : PAUSES, this.#failed, chance) + (error.retryAfterMs ?? 0);
    if (now - (this.#quietSince ?? now) + retryInMs > this.#patienceMs) throw error;
    return { kind: "interrupted", error, attempt: this.#failed, retryInMs };
  }

  #event({ namespace, content }: Message): WatchEvent | undefined {
    const part = this.#parts.get(namespace);
    if (part === undefined) return undefined; // nobody asked for it
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
        return undefined; // a newer service's
    }
  }

  #bookmark(namespace: string, part: Part, { kind, token: message, confirmedTime }: Bookmark): WatchEvent | undefined {
    const synced = kind === BookmarkKind.SYNCED;
    const lagMs = this.#freshness.lagMs(confirmedTime);
    if (part.token === undefined && !synced) return undefined; // in the middle of a snapshot there is no place to resume from
    const token = tokenOf(message);
    part.token = token;
    const told = { namespace, token, confirmedTime: dateOf(confirmedTime), lagMs };
    if (!synced) return { kind: "bookmark", ...told };
    part.synced = true;
    this.#failed = 0;
    return { kind: "synced", ...told };
  }
}

/** Takes note of an event at a place of the log. */
function fold(part: Part, partition: number, position: string): void {
  if (part.token === undefined) part.told = true;
  else part.token = folded(part.token, partition, position);
}

function change(namespace: string, part: Part, message: PolicyChange): Changed | Deleted | undefined {
  const { document, previousVersion, previous, partition, position, origin } = message;
  const snapshot = part.token === undefined && !part.beginning;
  fold(part, partition, position);
  if (document === undefined || !isKnown(document.scope)) return undefined; // a newer service's
  const told = { namespace, previousVersion, previous: maybeDocument(previous), partition, position, origin: originOf(origin), snapshot };
  const { policies, ...rest } = documentOf(document);
  return policies === undefined
    ? { kind: "deleted", document: { ...rest, policies }, ...told }
    : { kind: "changed", document: { ...rest, policies }, ...told };
}

function entry(namespace: string, part: Part, message: HistoryEntry): WatchEvent | undefined {
  fold(part, message.partition, message.position);
  const told = entryOf(message);
  return told && { kind: "entry", namespace, entry: told };
}

function status(namespace: string, { state, reason, message }: NamespaceStatus): Status | undefined {
  if (!(state in NamespaceState)) return undefined; // a newer service's
  return { kind: "status", namespace, state, reason: nameOf(reason), message };
}

/** A reason as errors have it; empty if there is none. */
function nameOf(reason: ErrorReason): string {
  if (reason === ErrorReason.UNSPECIFIED) return "";
  return reason in ErrorReason ? ErrorReason[reason] : String(reason);
}
