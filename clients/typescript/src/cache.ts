import type { TopicPoliciesError } from "./errors.js";
import { fromServiceError } from "./errors.js";
import type { Changed, Deleted, WatchEvent } from "./events.js";
import { Scope } from "./generated/topicpolicies/v1/events_pb.js";
import type { Watch } from "./watch.js";
import { keyOf, type Document } from "./types.js";

/** What a cache tells its listeners. */
export interface Change {
  /** The topic's full name. */
  readonly topic: string;
  readonly scope: Scope;
  /** What this listener was told last; undefined if nothing, or an absence. */
  readonly before: Document | undefined;
  /** The document; undefined if it is gone. */
  readonly after: Document | undefined;
}

/** How a namespace of a cache is. */
export interface NamespaceState {
  /** Whether its first snapshot was complete. From then on reads are complete, if perhaps stale. */
  readonly synced: boolean;
  /** How long ago the service last said something that covers all that this copy has; before `synced`, how long the cache has been at it. */
  readonly stalenessMs: number;
  /** A sentence for people while it can't be followed, else empty. */
  readonly problem: string;
}

/** What is known of one namespace. */
class NamespaceCopy {
  readonly documents = new Map<string, Document>();
  /** Keys of an earlier snapshot that have not been told again yet; undefined outside of one. */
  doubtful: Set<string> | undefined;
  synced = false;
  problem = "";

  constructor(public confirmed: number) {}

  confirm(): void {
    this.confirmed = performance.now();
    this.problem = "";
  }
}

/**
 * A local, always current copy of the documents that a selection names (the informer pattern). Reads never wait and never fail: while the service
 * is out of reach they give what was known last, and `stalenessMs` says since when.
 *
 * While a namespace begins again with a snapshot, what was known of it stays; what the snapshot does not tell of again is dropped when it is
 * complete.
 */
export class PolicyCache {
  readonly #watch: Watch;
  readonly #namespaces = new Map<string, NamespaceCopy>();
  readonly #listeners = new Set<(change: Change) => void>();
  readonly #waiting = new Set<() => void>();
  readonly #done: Promise<void>;
  #ended = false;
  #error: TopicPoliciesError | undefined;

  /** Use `Client.cache`. */
  constructor(watch: Watch, namespaces: Iterable<string>) {
    this.#watch = watch;
    for (const name of namespaces) this.#namespaces.set(name, new NamespaceCopy(performance.now()));
    this.#done = this.#follow();
  }

  /** Ends the cache; reads go on giving what was known last. It is settled when the watch has ended. */
  async close(): Promise<void> {
    this.#watch.close();
    await this.#done;
  }

  /** What made it senseless to go on, if anything did. */
  get error(): TopicPoliciesError | undefined {
    return this.#error;
  }

  /** Whether the first snapshot of every namespace was complete. */
  get isSynced(): boolean {
    return [...this.#namespaces.values()].every((each) => each.synced);
  }

  /**
   * Waits until the first snapshot of every namespace is complete. It fails with what ended the cache, or with the signal's reason, such as that
   * of `AbortSignal.timeout(5000)`.
   */
  async synced(signal?: AbortSignal): Promise<void> {
    while (!this.isSynced) {
      if (this.#ended) throw this.#error ?? new Error("The cache was closed before it was synced.");
      signal?.throwIfAborted();
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          this.#waiting.delete(wake);
          signal?.removeEventListener("abort", wake);
          resolve();
        };
        this.#waiting.add(wake);
        signal?.addEventListener("abort", wake, { once: true });
      });
    }
  }

  /** A document; undefined if there is none, or none is known yet. Its policies are shared: clone them before you change them. */
  get(topic: string, scope: Scope = Scope.LOCAL): Document | undefined {
    const key = keyOf(topic, scope);
    for (const namespace of this.#namespaces.values()) {
      const found = namespace.documents.get(key);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** All documents, ordered by topic and scope. */
  documents(): Document[] {
    const all = [...this.#namespaces.values()].flatMap((each) => [...each.documents.values()]);
    return all.sort((a, b) => (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.scope - b.scope));
  }

  /**
   * How long ago the service last said something that covers all that this copy has, of the namespace for which that is the longest. While all is
   * well it is at most about the interval of bookmarks.
   */
  get stalenessMs(): number {
    return performance.now() - Math.min(...[...this.#namespaces.values()].map((each) => each.confirmed));
  }

  /** How one namespace is; undefined for one that was not selected. */
  state(namespace: string): NamespaceState | undefined {
    const copy = this.#namespaces.get(namespace);
    if (copy === undefined) return undefined;
    return { synced: copy.synced, stalenessMs: performance.now() - copy.confirmed, problem: copy.problem };
  }

  /**
   * Calls a function for every document that the cache has, at once, and then for every change, in order. One that throws does not disturb the
   * cache or the other listeners: what it throws becomes a warning of the process.
   *
   * @returns what ends it
   */
  listen(listener: (change: Change) => void): () => void {
    const tell = (change: Change): void => {
      try {
        listener(change);
      } catch (error) {
        process.emitWarning(error instanceof Error ? error : String(error), "TopicPoliciesListenerWarning");
      }
    };
    for (const after of this.documents()) tell({ topic: after.topic, scope: after.scope, before: undefined, after });
    this.#listeners.add(tell);
    return () => this.#listeners.delete(tell);
  }

  async #follow(): Promise<void> {
    try {
      for await (const event of this.#watch) this.#apply(event);
    } catch (error) {
      this.#error = fromServiceError(error);
    }
    this.#ended = true;
    this.#listeners.clear();
    this.#wake();
  }

  #apply(event: WatchEvent): void {
    if (event.kind === "interrupted") {
      for (const each of this.#namespaces.values()) each.problem = event.error.message;
      return;
    }
    const copy = this.#of(event.namespace);
    switch (event.kind) {
      case "changed":
      case "deleted":
        this.#take(copy, event);
        break;
      case "synced":
        for (const key of copy.doubtful ?? []) this.#put(copy, key, undefined);
        copy.doubtful = undefined;
        copy.synced = true;
        copy.confirm();
        this.#wake();
        break;
      case "bookmark":
        copy.confirm();
        break;
      case "restarted":
        copy.doubtful = new Set(copy.documents.keys());
        break;
      case "loading":
      case "unavailable":
        copy.problem = event.message;
        break;
    }
  }

  #take(copy: NamespaceCopy, { topic, scope, policies, version, snapshot }: Changed | Deleted): void {
    const key = keyOf(topic, scope);
    copy.doubtful?.delete(key);
    if (!snapshot) copy.confirm();
    this.#put(copy, key, policies === undefined ? undefined : { topic, scope, policies, version });
  }

  #put(copy: NamespaceCopy, key: string, after: Document | undefined): void {
    const before = copy.documents.get(key);
    if (after === undefined) copy.documents.delete(key);
    else copy.documents.set(key, after);
    const about = after ?? before;
    if (about === undefined || before?.version === after?.version) return;
    for (const tell of [...this.#listeners]) tell({ topic: about.topic, scope: about.scope, before, after });
  }

  #of(namespace: string): NamespaceCopy {
    const copy = this.#namespaces.get(namespace) ?? new NamespaceCopy(performance.now()); // the service spells it differently
    this.#namespaces.set(namespace, copy);
    return copy;
  }

  #wake(): void {
    for (const wake of [...this.#waiting]) wake();
  }
}
