import { equals } from "@bufbuild/protobuf";

import { PolicyDocumentSchema, Scope, type PolicyDocument } from "./generated/topicpolicies/v1/policies_pb.js";
import type { WatchEvent } from "./generated/topicpolicies/v1/service_pb.js";
import { keyOf, namespaceOf } from "./names.js";

/** A change of a document. */
export interface Change {
  /** The topic's full name. */
  readonly topic: string;
  readonly scope: Scope;
  /** The document before the change; undefined if there was none. */
  readonly before: PolicyDocument | undefined;
  /** The document after the change; undefined if there is none. */
  readonly after: PolicyDocument | undefined;
}

/** Which documents a cache has. */
export interface Selection {
  readonly topics?: readonly string[];
  readonly namespaces?: readonly string[];
}

/** The copy of one namespace. */
interface Part {
  readonly documents: Map<string, PolicyDocument>;
  /** The documents that the present snapshot has not sent. */
  readonly old: Map<string, PolicyDocument>;
  synced: boolean;
  /** The copy has everything up to this time, by this machine's clock in milliseconds; undefined: that is not known. */
  asOfMs: number | undefined;
}

/**
 * A copy of documents that follows the service. Reads neither wait nor fail: while the service can't be reached, they return the last known
 * documents, and `ageMs` says how old the copy is. If a namespace begins anew, its documents stay until the new snapshot is complete.
 */
export class PolicyCache implements AsyncDisposable {
  /** Settled when the cache no longer follows: fulfilled after `close`, rejected after an error that a repetition can't cure. */
  readonly done: Promise<void>;
  readonly #parts = new Map<string, Part>();
  readonly #listeners = new Set<(change: Change) => void>();
  readonly #ending = new AbortController();
  readonly #complete: Promise<void>;
  #resolve: () => void = () => undefined;

  /** `Client.cache` creates caches. */
  constructor(selection: Selection, watch: (signal: AbortSignal) => AsyncIterable<WatchEvent>) {
    for (const name of [...(selection.namespaces ?? []), ...(selection.topics ?? []).map(namespaceOf)]) {
      this.#parts.set(name, { documents: new Map(), old: new Map(), synced: false, asOfMs: undefined });
    }
    this.#complete = new Promise((resolve) => { this.#resolve = resolve; });
    this.done = this.#follow(watch(this.#ending.signal));
    this.done.catch(() => undefined); // whoever is interested waits for it
  }

  /** Stops following. Reads still return the last known documents. */
  async close(): Promise<void> {
    this.#ending.abort();
    await this.done.catch(() => undefined);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Waits until the first snapshot of every namespace is complete. Throws the error that ended the cache, or the signal's reason. */
  async synced(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    const ended = this.done.then(() => { throw new Error("The cache was closed."); });
    await new Promise<void>((resolve, reject) => {
      const abort = (): void => { reject(signal?.reason as Error); };
      signal?.addEventListener("abort", abort, { once: true });
      Promise.race([this.#complete, ended]).then(resolve, reject).finally(() => { signal?.removeEventListener("abort", abort); });
    });
  }

  /**
   * Returns a document; undefined if there is none, or none is known yet. The topic's name may lack its domain, or be that of a partition.
   * Clone a document before you change it.
   */
  get(topic: string, scope: Scope = Scope.LOCAL): PolicyDocument | undefined {
    return this.#parts.get(namespaceOf(topic))?.documents.get(keyOf(topic, scope));
  }

  /** Returns all documents, ordered by topic and scope. Clone a document before you change it. */
  list(): PolicyDocument[] {
    const all = [...this.#parts.values()].flatMap(({ documents }) => [...documents.values()]);
    return all.sort((a, b) => (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.scope - b.scope));
  }

  /**
   * How old the copy may be, in milliseconds: that of its oldest namespace, `Infinity` before its first snapshot. While the service is
   * followed, it is about the bookmark interval at most.
   */
  get ageMs(): number {
    return this.ageAt(performance.now());
  }

  /** @internal */
  ageAt(nowMs: number): number {
    const ages = [...this.#parts.values()].map(({ synced, asOfMs }) => (synced && asOfMs !== undefined ? nowMs - asOfMs : Infinity));
    return Math.max(0, ...ages);
  }

  /** @internal The namespaces that have had a whole snapshot. */
  get syncedNamespaces(): string[] {
    return [...this.#parts].filter(([, part]) => part.synced).map(([name]) => name);
  }

  /**
   * Calls a function for every document of the cache, and then for every change, in order. Reads in the function already see the change. An
   * error that the function throws ends the cache. Returns a function that stops the calls.
   */
  listen(call: (change: Change) => void): () => void {
    const own = (change: Change): void => { call(change); };
    for (const document of this.list()) own({ topic: document.topic, scope: document.scope, before: undefined, after: document });
    this.#listeners.add(own);
    return () => { this.#listeners.delete(own); };
  }

  async #follow(events: AsyncIterable<WatchEvent>): Promise<void> {
    try {
      for await (const event of events) this.apply(event, performance.now());
    } catch (error) {
      if (!this.#ending.signal.aborted) throw error;
    }
  }

  /** @internal Takes an event into the copy, and calls the listeners. */
  apply({ namespace, content }: WatchEvent, nowMs: number): void {
    const part = this.#parts.get(namespace);
    if (part === undefined) return;
    if (content.case === "change" && content.value.document !== undefined) this.#put(part, content.value.document);
    else if (content.case === "reset") for (const [key, document] of part.documents) part.old.set(key, document);
    else if (content.case === "bookmark") {
      const { age, synced } = content.value;
      if (age !== undefined) part.asOfMs = nowMs - Number(age.seconds) * 1000 - age.nanos / 1e6;
      if (!synced) return;
      for (const { $typeName, topic, scope } of [...part.old.values()]) {
        this.#put(part, { $typeName, topic, scope, version: "", disabled: false });
      }
      part.synced = true;
      if (this.syncedNamespaces.length === this.#parts.size) this.#resolve();
    }
  }

  /** Takes a document, or its absence, into the copy. Documents of scopes that this package does not know are ignored. */
  #put(part: Part, document: PolicyDocument): void {
    const { topic, scope } = document;
    if (scope !== Scope.LOCAL && scope !== Scope.GLOBAL) return;
    const key = keyOf(topic, scope);
    const before = part.documents.get(key);
    const after = document.policies === undefined ? undefined : document;
    part.old.delete(key);
    if (after === undefined) part.documents.delete(key);
    else part.documents.set(key, after);
    if (before === undefined ? after === undefined : after !== undefined && equals(PolicyDocumentSchema, before, after)) return;
    for (const call of [...this.#listeners]) call({ topic, scope, before, after });
  }
}
