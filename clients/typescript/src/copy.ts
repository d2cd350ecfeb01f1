import { equals } from "@bufbuild/protobuf";

import type { Document } from "./documents.js";
import type { WatchEvent } from "./events.js";
import { TopicPoliciesSchema, type Scope } from "./generated/topicpolicies/v1/policies_pb.js";
import { NamespaceState } from "./generated/topicpolicies/v1/service_pb.js";
import { keyOf, namespaceOf } from "./names.js";
import { isAfter } from "./tokens.js";

/** A change of a document, as a cache reports it to its listeners. */
export interface Change {
  /** The topic's full name. */
  readonly topic: string;
  readonly scope: Scope;
  /** The document before the change; undefined if there was none, or none was known. */
  readonly before: Document | undefined;
  /** The document after the change; undefined if there is none any more. */
  readonly after: Document | undefined;
}

/** The state of one namespace of a cache. */
export interface CacheState {
  /** Whether the first snapshot of the namespace is complete. From then on reads are complete, though they may be stale. */
  readonly synced: boolean;
  /** How many milliseconds ago the copy was last confirmed to be complete; infinite before `synced`. */
  readonly stalenessMs: number;
  /**
   * The state that the current stream last reported for the namespace; UNSPECIFIED if it reported none, as for a namespace that was READY
   * from the start.
   */
  readonly state: NamespaceState;
  /** Why the namespace is not READY, machine-readable, such as `LOG_UNREACHABLE`; otherwise empty. */
  readonly reason: string;
  /** A human-readable description of why the namespace can't be followed; otherwise empty. */
  readonly problem: string;
}

/** The copy of one namespace. */
class NamespaceCopy {
  readonly documents = new Map<string, Document>();
  /** The versions of deleted documents, by key: an older event of the same key that arrives later is ignored. */
  readonly absent = new Map<string, string>();
  /** The keys that the current snapshot has sent so far; undefined outside a snapshot. */
  fresh: Set<string> | undefined = new Set();
  synced = false;
  confirmed = -Infinity;
  state = NamespaceState.UNSPECIFIED;
  reason = "";
  message = "";
  /** The message of the error that broke the stream, until the next event of the namespace. */
  interruption = "";
}

/**
 * A copy of documents that is kept up to date by the events of a watch (mode LATEST), without I/O.
 *
 * When a namespace starts over with a snapshot, its documents stay until the snapshot is complete; those that the snapshot does not have
 * are then removed.
 */
export class Copy {
  readonly #namespaces: ReadonlyMap<string, NamespaceCopy>;
  readonly #changed: (change: Change) => void;

  /** @param changed is called for every change, in order */
  constructor(namespaces: Iterable<string>, changed: (change: Change) => void) {
    this.#namespaces = new Map(Array.from(namespaces, (name) => [name, new NamespaceCopy()]));
    this.#changed = changed;
  }

  /** The namespaces whose first snapshot is complete. */
  get synced(): string[] {
    return [...this.#namespaces].flatMap(([name, copy]) => (copy.synced ? [name] : []));
  }

  /** Whether the first snapshot of every namespace is complete. */
  get isSynced(): boolean {
    return [...this.#namespaces.values()].every((each) => each.synced);
  }

  get(topic: string, scope: Scope): Document | undefined {
    return this.#namespaces.get(namespaceOf(topic))?.documents.get(keyOf(topic, scope));
  }

  /** Returns all documents, ordered by topic and scope. */
  documents(): Document[] {
    const all = [...this.#namespaces.values()].flatMap((each) => [...each.documents.values()]);
    return all.sort((a, b) => (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.scope - b.scope));
  }

  /** Returns how many milliseconds ago the stalest namespace was confirmed to be complete. `now` is a time in ms of a monotonic clock. */
  stalenessMs(now: number): number {
    return now - Math.min(...[...this.#namespaces.values()].map((each) => each.confirmed));
  }

  state(namespace: string, now: number): CacheState | undefined {
    const copy = this.#namespaces.get(namespace);
    if (copy === undefined) return undefined;
    const { synced, state, reason, message, interruption, confirmed } = copy;
    const ready = state === NamespaceState.UNSPECIFIED || state === NamespaceState.READY;
    return { synced, stalenessMs: now - confirmed, state, reason, problem: interruption || (ready ? "" : message) };
  }

  apply(event: WatchEvent, now: number): void {
    if (event.kind === "interrupted") {
      // The next stream reports only namespaces that are not READY.
      const forgotten = { state: NamespaceState.UNSPECIFIED, reason: "", message: "", interruption: event.error.message };
      for (const each of this.#namespaces.values()) Object.assign(each, forgotten);
      return;
    }
    const copy = this.#namespaces.get(event.namespace);
    if (copy === undefined) return;
    copy.interruption = "";
    switch (event.kind) {
      case "changed":
      case "deleted":
        this.#take(copy, event.document);
        break;
      case "synced":
        this.#complete(copy);
        this.#confirm(copy, event.lagMs, now);
        break;
      case "bookmark":
        this.#confirm(copy, event.lagMs, now);
        break;
      case "reset":
        copy.fresh = new Set();
        break;
      case "status":
        Object.assign(copy, { state: event.state, reason: event.reason, message: event.message });
        break;
      case "entry":
      case "gap":
        break; // of another mode
    }
  }

  #take(copy: NamespaceCopy, document: Document): void {
    const key = keyOf(document.topic, document.scope);
    const before = copy.documents.get(key);
    const known = before?.version ?? copy.absent.get(key);
    // The first event of a key in a snapshot may have a version of another log, which can't be compared.
    const isComparable = copy.fresh?.has(key) ?? true;
    if (known !== undefined && isComparable && !isAfter(document.version, known)) return;
    copy.fresh?.add(key);
    if (document.policies === undefined) {
      copy.documents.delete(key);
      copy.absent.set(key, document.version);
      this.#report(before, undefined);
      return;
    }
    copy.documents.set(key, document);
    copy.absent.delete(key);
    if (before === undefined || !isSame(before, document)) this.#report(before, document);
  }

  #complete(copy: NamespaceCopy): void {
    for (const [key, document] of copy.documents) {
      if (copy.fresh === undefined || copy.fresh.has(key)) continue;
      copy.documents.delete(key);
      this.#report(document, undefined);
    }
    copy.fresh = undefined;
    copy.synced = true;
  }

  /** Records a bookmark. No event older than the bookmark can follow, so the versions of deleted documents need not be kept. */
  #confirm(copy: NamespaceCopy, lagMs: number, now: number): void {
    copy.confirmed = now - lagMs;
    copy.absent.clear();
  }

  #report(before: Document | undefined, after: Document | undefined): void {
    const about = after ?? before;
    if (about !== undefined) this.#changed({ topic: about.topic, scope: about.scope, before, after });
  }
}

/** Whether two documents are equal, policies included: their versions may come from two logs. */
function isSame(a: Document, b: Document): boolean {
  if (a.version !== b.version || a.policies === undefined || b.policies === undefined) return false;
  return equals(TopicPoliciesSchema, a.policies, b.policies);
}
