import { equals } from "@bufbuild/protobuf";

import type { Document } from "./documents.js";
import type { WatchEvent } from "./events.js";
import { TopicPoliciesSchema, type Scope } from "./generated/topicpolicies/v1/policies_pb.js";
import { NamespaceState } from "./generated/topicpolicies/v1/service_pb.js";
import { keyOf, namespaceOf } from "./names.js";
import { isAfter } from "./tokens.js";

/** What a cache tells its listeners. */
export interface Change {
  /** The topic's full name. */
  readonly topic: string;
  readonly scope: Scope;
  /** The document before; undefined if there was none, or none was known. */
  readonly before: Document | undefined;
  /** The document; undefined if it is gone. */
  readonly after: Document | undefined;
}

/** How a namespace of a cache is. */
export interface CacheState {
  /** Whether its first snapshot was complete. From then on reads are complete, if perhaps stale. */
  readonly synced: boolean;
  /** How long ago the copy was known to be complete; infinite before `synced`. */
  readonly stalenessMs: number;
  /** What the present stream said of the namespace last; UNSPECIFIED if it said nothing, as of one that was READY from its start. */
  readonly state: NamespaceState;
  /** Why it is not READY, machine-readable, such as `LOG_UNREACHABLE`; else empty. */
  readonly reason: string;
  /** A sentence for people while it can't be followed, else empty. */
  readonly problem: string;
}

/** What is known of one namespace. */
class NamespaceCopy {
  readonly documents = new Map<string, Document>();
  /** The versions of absences, which are newer than what may yet come. */
  readonly absent = new Map<string, string>();
  /** The keys that were told since the beginning of a snapshot; undefined outside of one. */
  fresh: Set<string> | undefined = new Set();
  synced = false;
  confirmed = -Infinity;
  state = NamespaceState.UNSPECIFIED;
  reason = "";
  message = "";
  /** What the stream broke with, until the namespace is told of again. */
  interruption = "";
}

/**
 * A copy of documents that is kept by what a watch tells (mode LATEST), without I/O.
 *
 * While a namespace begins again with a snapshot, what was known of it stays; what the snapshot does not tell of again is dropped when it
 * is complete.
 */
export class Copy {
  readonly #namespaces: ReadonlyMap<string, NamespaceCopy>;
  readonly #changed: (change: Change) => void;

  /** @param changed is told of every change, in order */
  constructor(namespaces: Iterable<string>, changed: (change: Change) => void) {
    this.#namespaces = new Map(Array.from(namespaces, (name) => [name, new NamespaceCopy()]));
    this.#changed = changed;
  }

  /** The namespaces whose first snapshot was complete. */
  get synced(): string[] {
    return [...this.#namespaces].flatMap(([name, copy]) => (copy.synced ? [name] : []));
  }

  /** Whether that of every namespace was. */
  get isSynced(): boolean {
    return [...this.#namespaces.values()].every((each) => each.synced);
  }

  get(topic: string, scope: Scope): Document | undefined {
    return this.#namespaces.get(namespaceOf(topic))?.documents.get(keyOf(topic, scope));
  }

  /** All documents, ordered by topic and scope. */
  documents(): Document[] {
    const all = [...this.#namespaces.values()].flatMap((each) => [...each.documents.values()]);
    return all.sort((a, b) => (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.scope - b.scope));
  }

  /** How long ago the stalest namespace was known to be complete. Times are in ms, on a clock that never goes back. */
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
      // The next stream says only what is not READY.
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
    // What a snapshot tells of a key first may have a version of another log.
    const isComparable = copy.fresh?.has(key) ?? true;
    if (known !== undefined && isComparable && !isAfter(document.version, known)) return;
    copy.fresh?.add(key);
    if (document.policies === undefined) {
      copy.documents.delete(key);
      copy.absent.set(key, document.version);
      this.#tell(before, undefined);
      return;
    }
    copy.documents.set(key, document);
    copy.absent.delete(key);
    if (before === undefined || !isSame(before, document)) this.#tell(before, document);
  }

  #complete(copy: NamespaceCopy): void {
    for (const [key, document] of copy.documents) {
      if (copy.fresh === undefined || copy.fresh.has(key)) continue;
      copy.documents.delete(key);
      this.#tell(document, undefined);
    }
    copy.fresh = undefined;
    copy.synced = true;
  }

  /** Nothing older than a bookmark comes any more, and so absences need not be remembered. */
  #confirm(copy: NamespaceCopy, lagMs: number, now: number): void {
    copy.confirmed = now - lagMs;
    copy.absent.clear();
  }

  #tell(before: Document | undefined, after: Document | undefined): void {
    const about = after ?? before;
    if (about !== undefined) this.#changed({ topic: about.topic, scope: about.scope, before, after });
  }
}

/** Whether nothing has changed between two documents, whose versions may be those of two logs. */
function isSame(a: Document, b: Document): boolean {
  if (a.version !== b.version || a.policies === undefined || b.policies === undefined) return false;
  return equals(TopicPoliciesSchema, a.policies, b.policies);
}
