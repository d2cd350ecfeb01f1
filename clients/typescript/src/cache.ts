import { Copy, type CacheState, type Change } from "./copy.js";
import type { Document } from "./documents.js";
import { fromServiceError, type TopicPoliciesError } from "./errors.js";
import { Scope } from "./generated/topicpolicies/v1/policies_pb.js";
import type { Watch } from "./watch.js";

/**
 * A local copy, kept up to date, of the documents that a selection names (the informer pattern). Reads never wait and never fail: while the
 * service is out of reach, they return the last known documents, and `stalenessMs` says how old the copy is.
 *
 * When a namespace starts over with a snapshot, its documents stay until the snapshot is complete; those that the snapshot does not have
 * are then removed.
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
      for (const listener of [...this.#listeners]) {
        if (this.#listeners.has(listener)) listener(change); // a listener may have removed it meanwhile
      }
    });
    this.#done = this.#follow();
  }

  /** Closes the cache; reads still return the last known documents. The promise resolves when the watch has ended. */
  async close(): Promise<void> {
    this.#watch.close();
    await this.#done;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** The error that ended the cache; undefined while the cache is open, and after `close`. */
  get error(): TopicPoliciesError | undefined {
    return this.#error;
  }

  /** Whether the first snapshot of every namespace is complete. */
  get isSynced(): boolean {
    return this.#copy.isSynced;
  }

  /**
   * Waits until the first snapshot of every namespace is complete. Throws the error that ended the cache, or the signal's reason, such as
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
   * Returns a document; undefined if there is none, or none is known yet. The topic's name may lack its domain, or be that of a partition.
   * The document's policies are shared: clone them before you change them.
   */
  get(topic: string, scope: Scope = Scope.LOCAL): Document | undefined {
    return this.#copy.get(topic, scope);
  }

  /** Returns all documents, ordered by topic and scope. */
  documents(): Document[] {
    return this.#copy.documents();
  }

  /**
   * How many milliseconds ago the service last confirmed that it had sent every change, in the namespace for which that is longest ago;
   * infinite before the first snapshot is complete. Normally at most about the bookmark interval. The value keeps growing while the server
   * can't reach the change log of a namespace.
   */
  get stalenessMs(): number {
    return this.#copy.stalenessMs(performance.now());
  }

  /** Returns the state of one namespace, with its own staleness; undefined if the namespace was not selected. */
  state(namespace: string): CacheState | undefined {
    return this.#copy.state(namespace, performance.now());
  }

  /**
   * Calls a function at once for every document in the cache, and then for every change, in order. A listener that throws does not disturb
   * the cache or the other listeners: the error becomes a process warning. So does the error of a promise that a listener returns, for
   * which the cache does not wait.
   *
   * @returns a function that removes the listener
   */
  listen(listener: (change: Change) => unknown): () => void {
    const warn = (error: unknown): void => {
      process.emitWarning(error instanceof Error ? error : String(error), "TopicPoliciesListenerWarning");
    };
    const call = (change: Change): void => {
      try {
        const returned = listener(change);
        if (returned instanceof Promise) returned.catch(warn);
      } catch (error) {
        warn(error);
      }
    };
    for (const after of this.documents()) call({ topic: after.topic, scope: after.scope, before: undefined, after });
    this.#listeners.add(call);
    return () => this.#listeners.delete(call);
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
