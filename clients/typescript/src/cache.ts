import { Copy, type CacheState, type Change } from "./copy.js";
import type { Document } from "./documents.js";
import { fromServiceError, type TopicPoliciesError } from "./errors.js";
import { Scope } from "./generated/topicpolicies/v1/policies_pb.js";
import type { Watch } from "./watch.js";

/**
 * A local, always current copy of the documents that a selection names (the informer pattern). Reads never wait and never fail: while the
 * service is out of reach they give what was known last, and `stalenessMs` says since when.
 *
 * While a namespace begins again with a snapshot, what was known of it stays; what the snapshot does not tell of again is dropped when it
 * is complete.
 */
export class PolicyCache implements AsyncDisposable {
  readonly #watch: Watch;
  readonly #copy: Copy;
  readonly #listeners = new Set<(change: Change) => void>();
  readonly #waiting = new Set<() => void>();
  readonly #done: Promise<void>;
  #ended = false;
  #error: TopicPoliciesError | undefined;

  /** Use `Client.cache`. */
  constructor(watch: Watch, namespaces: Iterable<string>) {
    this.#watch = watch;
    this.#copy = new Copy(namespaces, (change) => {
      for (const tell of [...this.#listeners]) tell(change);
    });
    this.#done = this.#follow();
  }

  /** Ends the cache; reads go on giving what was known last. It is settled when the watch has ended. */
  async close(): Promise<void> {
    this.#watch.close();
    await this.#done;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** What made it senseless to go on, if anything did. */
  get error(): TopicPoliciesError | undefined {
    return this.#error;
  }

  /** Whether the first snapshot of every namespace was complete. */
  get isSynced(): boolean {
    return this.#copy.isSynced;
  }

  /**
   * Waits until the first snapshot of every namespace is complete. It fails with what ended the cache, or with the signal's reason, such as
   * that of `AbortSignal.timeout(5000)`.
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

  /**
   * A document, by its topic's name, which may lack its domain or be a partition's; undefined if there is none, or none is known yet. Its
   * policies are shared: clone them before you change them.
   */
  get(topic: string, scope: Scope = Scope.LOCAL): Document | undefined {
    return this.#copy.get(topic, scope);
  }

  /** All documents, ordered by topic and scope. */
  documents(): Document[] {
    return this.#copy.documents();
  }

  /**
   * How long ago the service last said that it had told everything, of the namespace for which that is the longest; infinite before the
   * first snapshot. While all is well it is at most about the interval of bookmarks. A namespace whose log is lost grows old.
   */
  get stalenessMs(): number {
    return this.#copy.stalenessMs(performance.now());
  }

  /** How one namespace is, its own staleness included; undefined for one that was not selected. */
  state(namespace: string): CacheState | undefined {
    return this.#copy.state(namespace, performance.now());
  }

  /**
   * Calls a function for every document that the cache has, at once, and then for every change, in order. One that throws does not disturb
   * the cache or the other listeners: what it throws becomes a warning of the process.
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
      for await (const event of this.#watch) {
        this.#copy.apply(event, performance.now());
        if (event.kind === "synced") this.#wake();
      }
    } catch (error) {
      this.#error = fromServiceError(error);
    }
    this.#ended = true;
    this.#listeners.clear();
    this.#wake();
  }

  #wake(): void {
    for (const wake of [...this.#waiting]) wake();
  }
}
