import { clone, create } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { status as Code } from "@grpc/grpc-js";

import { invalid, type TopicPoliciesError } from "./errors.js";
import type { Interrupted, Restarted, WatchEvent } from "./events.js";
import type { Scope } from "./generated/topicpolicies/v1/events_pb.js";
import { TopicPoliciesSchema } from "./generated/topicpolicies/v1/policies_pb.js";
import {
  BookmarkKind, NamespaceState, WatchMode, WatchPoliciesRequestSchema,
  type Bookmark, type NamespaceStatus, type PolicyChange, type WatchPoliciesRequest, type WatchPoliciesResponse,
} from "./generated/topicpolicies/v1/service_pb.js";
import { delayMs, type RetryPolicy } from "./retries.js";
import { folded, messageOf, positionAt, ResumeToken, tokenOf, type WatchToken } from "./tokens.js";
import { keyOf, namespaceOf } from "./types.js";

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
  /** Time between two bookmarks; without it, 10 seconds. 1 second is the least. */
  readonly bookmarkIntervalMs?: number;
  /** How long the service may be silent or out of reach before the watch gives up; without it, for ever. It must be longer than bookmarkIntervalMs. */
  readonly patienceMs?: number;
}

/** How streams break. Whoever ends a watch himself does not ask. */
const RESUMABLE: ReadonlySet<Code> = new Set([
  Code.UNAVAILABLE, Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.RESOURCE_EXHAUSTED, Code.INTERNAL, Code.UNKNOWN,
]);
const BROKEN_SNAPSHOT = "the watch was interrupted before the snapshot was complete";

/** One namespace of a watch. */
class Place {
  /** Where the watch is; undefined in or before the snapshot. */
  token: WatchToken | undefined;
  /** What this stream was resumed from, until it has caught up. */
  resumed: WatchToken | undefined;
  /** Whether the consumer may hold documents of an earlier stream. */
  told = false;
  /** Why the next snapshot comes again. */
  restart = BROKEN_SNAPSHOT;
  /** The versions that were told since the last bookmark. */
  readonly recent = new Map<string, string>();
}

/**
 * A watch that outlives its streams, without I/O: what to ask for, what an answer means, what to do when the stream breaks.
 *
 * Per namespace it keeps one token: where the watch is. The token begins as the one that was handed in, or as that of the SYNCED bookmark that
 * ends the snapshot; from then on the position of every change is folded into it, so that a stream that breaks between two bookmarks is resumed
 * where it broke. Before SYNCED there is no token: a snapshot comes in no order that a position could stand for, and a broken one is begun again.
 *
 * Nothing is told twice: after a resume, what is at or before the token that was sent, and, always, what is no newer than what was told of the
 * same document since the last bookmark. (Older versions need not be remembered: no stream goes back behind a bookmark.)
 *
 * When the service says OUT_OF_RANGE, the tokens are forgotten and every namespace starts over with `restarted` and a snapshot.
 */
export class WatchSession {
  readonly #request: WatchPoliciesRequest;
  readonly #places = new Map<string, Place>();
  readonly #policy: RetryPolicy;
  readonly #patienceMs: number;
  #quietSince: number | undefined;
  #failed = 0;

  constructor(selection: Selection, policy: RetryPolicy) {
    const { topics = [], namespaces = [], scopes = [], mode = WatchMode.UNSPECIFIED, resume, bookmarkIntervalMs } = selection;
    this.#request = create(WatchPoliciesRequestSchema, { topics: [...topics], namespaces: [...namespaces], scopes: [...scopes], mode });
    if (bookmarkIntervalMs !== undefined) this.#request.bookmarkInterval = durationFromMs(bookmarkIntervalMs);
    this.#policy = policy;
    this.#patienceMs = selection.patienceMs ?? Infinity;
    for (const name of [...topics.map(namespaceOf), ...namespaces]) this.#place(name);
    if (this.#places.size === 0) throw invalid("topics", "NOTHING_SELECTED", "Name at least one topic or namespace to watch.");
    if (resume === undefined) return;
    for (const [name, place] of this.#places) {
      place.told = true;
      place.token = resume.namespaces.get(name);
      place.restart = "the token does not cover this namespace";
    }
  }

  /** The namespaces that were selected. */
  get namespaces(): string[] {
    return [...this.#places.keys()];
  }

  /** Where the watch is, after everything that it has told. */
  get token(): ResumeToken {
    return new ResumeToken([...this.#places].flatMap(([name, { token }]) => (token === undefined ? [] : [[name, token] as const])));
  }

  /** A stream is about to be opened: what to send, and what to tell first. Times are in ms, on a clock that never goes back. */
  connect(now: number): { request: WatchPoliciesRequest; events: Restarted[] } {
    this.#quietSince ??= now;
    const request = clone(WatchPoliciesRequestSchema, this.#request);
    const events: Restarted[] = [];
    for (const [namespace, place] of this.#places) {
      place.resumed = place.token;
      if (place.token !== undefined) {
        request.resume[namespace] = messageOf(place.token);
        continue;
      }
      place.recent.clear();
      if (place.told) {
        place.told = false;
        events.push({ kind: "restarted", namespace, reason: `The namespace ${namespace} begins again with a snapshot: ${place.restart}.` });
        place.restart = BROKEN_SNAPSHOT;
      }
    }
    return { request, events };
  }

  /** A message has come: what it tells, if anything. */
  received(response: WatchPoliciesResponse, now: number): WatchEvent | undefined {
    this.#quietSince = now;
    switch (response.content.case) {
      case "change":
        return this.#change(response.content.value);
      case "bookmark":
        return this.#bookmark(response.content.value);
      case "status":
        return status(response.content.value);
      default:
        return undefined; // a newer service's
    }
  }

  /**
   * The stream has ended: what to tell, and with it how long to wait before connecting again. Throws the error if it makes no sense to try
   * again, or patience is at its end.
   *
   * @param chance at least 0, less than 1
   */
  broke(error: TopicPoliciesError, now: number, chance: number): Interrupted {
    if (error.code === Code.OUT_OF_RANGE && this.token.namespaces.size > 0) {
      for (const place of this.#places.values()) {
        place.told ||= place.token !== undefined;
        place.token = undefined;
        place.restart = `it can't be resumed (${error.message.replace(/\.+$/, "")})`;
      }
    } else if (!RESUMABLE.has(error.code)) throw error;
    this.#failed += 1;
    const retryInMs = delayMs(this.#policy, this.#failed, chance);
    if (now - (this.#quietSince ?? now) + retryInMs > this.#patienceMs) throw error;
    return { kind: "interrupted", error, attempt: this.#failed, retryInMs };
  }

  #place(namespace: string): Place {
    const known = this.#places.get(namespace) ?? new Place();
    this.#places.set(namespace, known);
    return known;
  }

  #change(change: PolicyChange): WatchEvent | undefined {
    const { namespace, topic, scope, version, previousVersion, partition, position, origin } = change;
    const place = this.#place(namespace);
    const snapshot = place.token === undefined;
    if (place.token !== undefined) {
      const known = place.recent.get(keyOf(topic, scope));
      const before = positionAt(place.resumed, partition);
      if ((known !== undefined && version <= known) || (before !== "" && position <= before)) return undefined;
      place.recent.set(keyOf(topic, scope), version);
      place.token = folded(place.token, partition, position);
    }
    place.told = true;
    const where = { namespace, topic, scope, version, previousVersion, partition, position, origin, snapshot };
    if (!change.exists) return { kind: "deleted", policies: undefined, ...where };
    return { kind: "changed", policies: change.policies ?? create(TopicPoliciesSchema), ...where };
  }

  #bookmark({ namespace, kind, token: message }: Bookmark): WatchEvent | undefined {
    const place = this.#place(namespace);
    const synced = kind === BookmarkKind.SYNCED;
    if (place.token === undefined && !synced) return undefined; // in the middle of a snapshot there is no place to resume from
    const token = tokenOf(message);
    place.token = token;
    place.told = true;
    place.recent.clear();
    this.#failed = 0;
    if (!synced) return { kind: "bookmark", namespace, token };
    place.resumed = undefined;
    return { kind: "synced", namespace, token };
  }
}

function status({ namespace, state, message, reason }: NamespaceStatus): WatchEvent {
  return state === NamespaceState.FAILED ? { kind: "unavailable", namespace, message, reason } : { kind: "loading", namespace, message };
}
