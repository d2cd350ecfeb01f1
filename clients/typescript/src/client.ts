import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import { clone, create, type MessageShape } from "@bufbuild/protobuf";
import type { DescMessage, DescMethodUnary } from "@bufbuild/protobuf";

import { PolicyCache } from "./cache.js";
import { DEFAULT_TARGET, type ConnectionOptions } from "./connection.js";
import { ConflictError, fromStatus, invalid, type TopicPoliciesError } from "./errors.js";
import { Scope } from "./generated/topicpolicies/v1/events_pb.js";
import { TopicPoliciesSchema, type TopicPolicies } from "./generated/topicpolicies/v1/policies_pb.js";
import {
  DeletePolicyRequestSchema, GetPolicyRequestSchema, ListOperation, ListPoliciesRequestSchema, TopicPoliciesService, UpdateOutcome,
  UpdatePolicyRequestSchema, type DeleteOutcome,
} from "./generated/topicpolicies/v1/service_pb.js";
import { Line, type Change } from "./line.js";
import { pathsBetween, pathsOf } from "./masks.js";
import { checkRetries, DEFAULT_RETRIES, delayMs, type RetryPolicy } from "./retries.js";
import { WatchSession, type Selection } from "./session.js";
import { namespaceOf, type Document, type PoliciesInit } from "./types.js";
import { Watch } from "./watch.js";

/** How a client works. */
export interface ClientOptions extends ConnectionOptions {
  /** How long a call may take in all, its repeats included, where it names no other; 30 seconds. */
  readonly timeoutMs?: number;
  /** How calls are repeated; `NO_RETRIES` for not at all. */
  readonly retries?: RetryPolicy;
}

/** Of every call. */
export interface CallLimits {
  /** How long the call may take in all, its repeats included. */
  readonly timeoutMs?: number;
  /** Ends the call. */
  readonly signal?: AbortSignal;
}

/** What an update may say besides its values. */
export interface UpdateOptions extends CallLimits {
  /** The paths to change (see `path`). What is named here and has no value is cleared. `*` alone replaces the whole document. Without a mask: the fields that have values. */
  readonly mask?: readonly string[];
  readonly scope?: Scope;
  /** The version that the document must have; without it, any. */
  readonly etag?: string;
  /** Does nothing when there is no document. */
  readonly skipIfAbsent?: boolean;
  /** Checks everything and answers what would be, without writing. */
  readonly validateOnly?: boolean;
  /** A UUID, to repeat an earlier request and learn what it did; without it, a new one is made. */
  readonly requestId?: string;
  /** What to do with list fields, by path; the others are replaced. */
  readonly listOperations?: Readonly<Record<string, ListOperation>>;
}

/** What became of an update: the document after it, and more. */
export interface UpdateResult extends Document {
  /** The version that the change was applied to. Along all changes of a document each version is the next one's previous one. */
  readonly previousVersion: string;
  readonly outcome: UpdateOutcome;
  /** Empty if nothing had to be sent. */
  readonly requestId: string;
  /** Whether this is the answer to an earlier request of the same id, given again. */
  readonly repeated: boolean;
}

/** What became of one scope of a deletion. */
export interface DeleteResult {
  readonly scope: Scope;
  readonly outcome: DeleteOutcome;
  /** The version of the absence. */
  readonly version: string;
  /** The version that was deleted. */
  readonly previousVersion: string;
  /** Set if this scope failed; the others are not concerned. */
  readonly error: TopicPoliciesError | undefined;
  /** Whether this is the answer to an earlier request of the same id, given again. */
  readonly repeated: boolean;
}

const EDIT_ATTEMPTS = 16;
/** Short at first, since whoever was faster is done already. */
const EDIT_PAUSES: RetryPolicy = { ...DEFAULT_RETRIES, initialBackoffMs: 10, maxBackoffMs: 500 };

/** Changes, reads and follows topic policies. Every call fails with a `TopicPoliciesError` of some kind. Close it when it is no longer needed. */
export class Client {
  readonly #line: Line;
  readonly #retries: RetryPolicy;
  readonly #timeoutMs: number;
  readonly #watches = new Set<WeakRef<Watch>>();

  /**
   * The first call connects. A change of a namespace that one sidecar leads goes to that one, wherever it is, with the same TLS and token; reads and
   * watches stay where they are.
   *
   * @param target the service's address, as gRPC understands it, or the addresses of several sidecars, separated by commas, which take turns when they
   * can't be reached
   */
  constructor(target: string = DEFAULT_TARGET, options: ClientOptions = {}) {
    this.#retries = options.retries ?? DEFAULT_RETRIES;
    checkRetries(this.#retries);
    this.#timeoutMs = options.timeoutMs ?? 30_000;
    this.#line = new Line(target, options, this.#retries);
  }

  /** Ends all watches, and each connection when its calls are done. Nothing is repeated any more. */
  close(): void {
    for (const watch of this.#watches) watch.deref()?.close();
    this.#watches.clear();
    this.#line.close();
  }

  /** Changes the masked fields of one document, and no others. */
  async update(topic: string, policies: PoliciesInit, options: UpdateOptions = {}): Promise<UpdateResult> {
    const values = create(TopicPoliciesSchema, policies);
    const mask = options.mask?.length ? options.mask : pathsOf(values);
    if (mask.length === 0) throw invalid("update_mask", "EMPTY_MASK", "There is nothing to change: give at least one value or path.");
    const requestId = options.requestId ?? randomUUID();
    const request = create(UpdatePolicyRequestSchema, {
      topic,
      policies: values,
      updateMask: { paths: [...mask] },
      requestId,
      scope: options.scope ?? Scope.UNSPECIFIED,
      etag: options.etag ?? "",
      skipIfAbsent: options.skipIfAbsent ?? false,
      validateOnly: options.validateOnly ?? false,
      listOperations: { ...options.listOperations },
    });
    const answer = await this.#call(TopicPoliciesService.method.updatePolicy, request, options, request.validateOnly ? undefined : changeOf(topic, requestId));
    const { scope, version, previousVersion, outcome, repeated } = answer;
    return { topic: answer.topic, scope, policies: answer.policies, version, previousVersion, outcome, requestId: answer.requestId, repeated };
  }

  /**
   * Changes a document by editing a copy of it. What differs afterwards is sent, and nothing if nothing does: leaves of objects that are in both,
   * single entries of maps, lists as a whole.
   *
   * The change holds only if nobody else changed the document meanwhile. If somebody did, the function, which may be async, is called again on a
   * fresh copy, up to 16 times, so it must do nothing but edit; after that it is a `ConflictError`. What it throws is thrown on, and nothing is sent.
   */
  async edit(topic: string, change: (policies: TopicPolicies) => unknown, options: CallLimits & { readonly scope?: Scope } = {}): Promise<UpdateResult> {
    const deadline = performance.now() + (options.timeoutMs ?? this.#timeoutMs);
    const limits = (): CallLimits => ({ ...options, timeoutMs: Math.max(deadline - performance.now(), 1) });
    let atLeast = "";
    for (let attempt = 1; ; attempt += 1) {
      const document = await this.get(topic, { ...options, ...limits(), atLeast });
      const before = document.policies ?? create(TopicPoliciesSchema);
      const edited = clone(TopicPoliciesSchema, before);
      await change(edited);
      const mask = pathsBetween(before, edited);
      if (mask.length === 0) {
        return { ...document, previousVersion: document.version, outcome: UpdateOutcome.UNCHANGED, requestId: "", repeated: false };
      }
      try {
        return await this.update(document.topic, edited, { ...limits(), mask, scope: document.scope, etag: document.version });
      } catch (error) {
        const pause = delayMs(EDIT_PAUSES, attempt, Math.random());
        if (!(error instanceof ConflictError) || attempt === EDIT_ATTEMPTS || performance.now() + pause >= deadline) throw error;
        atLeast = error.metadata["version"] ?? ""; // whoever reads for us may not have it yet
        await sleep(pause, undefined, options.signal === undefined ? {} : { signal: options.signal });
      }
    }
  }

  /** Reads one document; an absent one is no error. `atLeast`: a version of it, as an update returned it, that the answer must have reached. */
  async get(topic: string, options: CallLimits & { readonly scope?: Scope; readonly atLeast?: string } = {}): Promise<Document> {
    const request = create(GetPolicyRequestSchema, { topic, scope: options.scope ?? Scope.UNSPECIFIED, atLeast: options.atLeast ?? "" });
    return documentOf(await this.#call(TopicPoliciesService.method.getPolicy, request, options));
  }

  /** The documents of a namespace, `tenant/namespace`, ordered by topic and scope, page by page as they are asked for. */
  async *list(namespace: string, options: CallLimits & { readonly scopes?: readonly Scope[] } = {}): AsyncGenerator<Document, void> {
    const request = create(ListPoliciesRequestSchema, { namespace, scopes: [...(options.scopes ?? [])] });
    do {
      const page = await this.#call(TopicPoliciesService.method.listPolicies, request, options);
      for (const entry of page.entries) yield documentOf(entry);
      request.pageToken = page.nextPageToken;
    } while (request.pageToken !== "");
  }

  /**
   * Deletes documents of one topic, scope by scope: one may fail and the other succeed, so look at each result.
   *
   * `scopes` gives each scope the etag that its document must have, empty for any. Without it, LOCAL.
   */
  async delete(
    topic: string,
    options: CallLimits & { readonly scopes?: ReadonlyMap<Scope, string>; readonly requestId?: string } = {},
  ): Promise<DeleteResult[]> {
    const deletes = [...(options.scopes ?? [])].map(([scope, etag]) => ({ scope, etag }));
    const requestId = options.requestId ?? randomUUID();
    const request = create(DeletePolicyRequestSchema, { topic, deletes, requestId });
    const answer = await this.#call(TopicPoliciesService.method.deletePolicy, request, options, changeOf(topic, requestId));
    return answer.results.map(({ scope, outcome, version, previousVersion, error, repeated }) => {
      return { scope, outcome, version, previousVersion, repeated, error: error && fromStatus(error.code, error.message, error.details) };
    });
  }

  /**
   * Follows documents: per namespace a snapshot, `synced`, then changes. It resumes by itself where it broke, after a jittered and growing pause, and
   * starts over with `restarted` and a snapshot where the service can't resume. It connects when it is read.
   */
  watch(selection: Selection): Watch {
    return this.#open(new WatchSession(selection, this.#retries));
  }

  /** Keeps a local copy of what a selection names. Close it when it is no longer needed. */
  cache(selection: Pick<Selection, "topics" | "namespaces" | "scopes" | "bookmarkIntervalMs">): PolicyCache {
    const { topics = [], namespaces = [], scopes = [], bookmarkIntervalMs } = selection;
    const session = new WatchSession({ topics, namespaces, scopes, ...(bookmarkIntervalMs === undefined ? {} : { bookmarkIntervalMs }) }, this.#retries);
    return new PolicyCache(this.#open(session), session.namespaces);
  }

  #open(session: WatchSession): Watch {
    for (const known of this.#watches) if (known.deref() === undefined) this.#watches.delete(known);
    const watch = new Watch(this.#line, session);
    this.#watches.add(new WeakRef(watch));
    return watch;
  }

  /** One call. `change`: what it changes; without it, a read. */
  #call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageShape<I>,
    { timeoutMs = this.#timeoutMs, signal }: CallLimits,
    change?: Change,
  ): Promise<MessageShape<O>> {
    return this.#line.unary(method, request, { timeoutMs, signal }, change);
  }
}

function changeOf(topic: string, requestId: string): Change {
  return { namespace: namespaceOf(topic), requestId };
}

function documentOf(message: { topic: string; scope: Scope; exists: boolean; policies?: TopicPolicies | undefined; version: string }): Document {
  const { topic, scope, exists, version } = message;
  return { topic, scope, version, policies: exists ? (message.policies ?? create(TopicPoliciesSchema)) : undefined };
}
