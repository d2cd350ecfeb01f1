import { setTimeout as sleep } from "node:timers/promises";

import { clone, create, isMessage, type DescMessage, type DescMethodUnary, type MessageShape } from "@bufbuild/protobuf";

import type { Change } from "./attempts.js";
import { PolicyCache } from "./cache.js";
import { DEFAULT_TARGET, type CallLimits, type ConnectionOptions } from "./connection.js";
import type { Document, PoliciesInit } from "./documents.js";
import { ConflictError } from "./errors.js";
import { Scope, TopicPoliciesSchema, type TopicPolicies } from "./generated/topicpolicies/v1/policies_pb.js";
import {
  EffectiveView, GetEffectivePolicyRequestSchema, GetServerInfoRequestSchema, ListPoliciesRequestSchema, TopicPoliciesService,
  UpdateOutcome,
} from "./generated/topicpolicies/v1/service_pb.js";
import { Line } from "./line.js";
import { Many, type Changes, type ManyOptions } from "./many.js";
import { pathsBetween } from "./masks.js";
import { namespaceOf } from "./names.js";
import { DocumentPages, HistoryPages } from "./pages.js";
import {
  documentIn, getRequest, historyRequest, serverInfoOf,
  type BothScopes, type EffectiveOptions, type EffectivePolicies, type GetBothOptions, type GetOptions, type HistoryOf, type HistoryOptions,
  type ListOptions, type ServerInfo,
} from "./reads.js";
import { deleteRequest, updateRequest, type ChangeOptions, type UpdateFields } from "./requests.js";
import { deleteResult, updateResult, type DeleteResult, type Settled, type UpdateResult } from "./results.js";
import { checkRetries, DEFAULT_RETRIES, delayMs, type RetryPolicy } from "./retries.js";
import { WatchSession, type Selection } from "./session.js";
import { stubOf, type Stub } from "./stub.js";
import type { Answered } from "./unconfirmed.js";
import { Watch } from "./watch.js";

/** How a client works. */
export interface ClientOptions extends ConnectionOptions {
  /** How long a call may take in all, its repeats included, where it names no other; 30 seconds. */
  readonly timeoutMs?: number;
  /** How calls are repeated; `NO_RETRIES` for not at all. */
  readonly retries?: RetryPolicy;
}

/** What an update may say besides its values. */
export interface UpdateOptions extends CallLimits, UpdateFields {}
/** What a deletion may say. */
export interface DeleteOptions extends CallLimits, ChangeOptions {}
/** What an edit may say. */
export interface EditOptions extends CallLimits, Pick<ChangeOptions, "scope" | "actor" | "reason" | "includePrevious"> {}

const MOST_IN_FLIGHT = 1000;
const EDIT_ATTEMPTS = 16;
/** Short at first, since whoever was faster is done already. */
const EDIT_PAUSES = { initialBackoffMs: 10, maxBackoffMs: 500, multiplier: 2 };

const { method: METHODS } = TopicPoliciesService;

/**
 * Changes, reads and follows topic policies. Every call fails with a `TopicPoliciesError` of some kind, or with the reason of the signal
 * that ended it. Close it when it is no longer needed.
 */
export class Client implements AsyncDisposable {
  /** The service's methods as they are defined, with this client's connection, metadata and token; nothing is repeated there. */
  readonly stub: Stub;
  readonly #line: Line;
  readonly #retries: RetryPolicy;
  readonly #timeoutMs: number;
  readonly #watches = new Set<WeakRef<Watch>>();

  /**
   * The first call connects. A change of a namespace that one sidecar leads goes to that one, wherever it is, with the same TLS and token;
   * reads and watches stay where they are.
   *
   * @param target the service's address, as gRPC understands it, or the addresses of several sidecars, separated by commas, which take
   * turns when they can't be reached
   */
  constructor(target: string = DEFAULT_TARGET, options: ClientOptions = {}) {
    this.#retries = options.retries ?? DEFAULT_RETRIES;
    checkRetries(this.#retries);
    this.#timeoutMs = options.timeoutMs ?? 30_000;
    this.#line = new Line(target, options, this.#retries);
    this.stub = stubOf(this.#line, this.#timeoutMs);
  }

  /** Ends all watches, and each connection when its calls are done. Nothing is repeated any more. */
  close(): void {
    for (const watch of this.#watches) watch.deref()?.close();
    this.#watches.clear();
    this.#line.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.close();
    return Promise.resolve();
  }

  /** Changes what a mask names of one document, and nothing else; without a mask, what has a value. */
  async update(topic: string, policies: PoliciesInit, options: UpdateOptions = {}): Promise<UpdateResult> {
    const request = updateRequest(topic, policies, options);
    return updateResult((await this.#call(METHODS.updatePolicy, request, options, changeOf(request))).message);
  }

  /** Deletes one document. One that is not there is deleted already. */
  async delete(topic: string, options: DeleteOptions = {}): Promise<DeleteResult> {
    const request = deleteRequest(topic, options);
    return deleteResult((await this.#call(METHODS.deletePolicy, request, options, changeOf(request))).message);
  }

  /**
   * Makes many changes, fast: updates, and deletions (`delete: true`), as they come, each with one result, in the order in which they are
   * settled. A change that fails concerns no other one; changes of one document are made in their order.
   *
   * When the stream breaks, what has no result is sent again with its request id, so that nothing is done twice. Only where that makes no
   * sense, or nothing was heard for `timeoutMs`, all that is under way fails, and the iteration does too if there are changes that it did
   * not read.
   */
  updateMany(changes: Changes, options: ManyOptions = {}): AsyncGenerator<Settled, undefined> {
    const { maxInFlight = MOST_IN_FLIGHT, timeoutMs = this.#timeoutMs, signal } = options;
    return new Many(this.#line, this.#retries, maxInFlight, timeoutMs).run(changes, signal);
  }

  /**
   * Changes a document by editing a copy of it. What differs afterwards is sent, and nothing if nothing does: leaves of objects that are in
   * both, single entries of maps, lists as a whole.
   *
   * The change holds only if nobody else changed the document meanwhile. If somebody did, the function, which may be async, is called again
   * on a fresh copy, up to 16 times, so it must do nothing but edit; after that it is a `ConflictError`. What it throws is thrown on, and
   * nothing is sent.
   *
   * It has to change the copy that it is given. Other policies that it returns in its place are refused with a `TypeError`: they would be
   * lost otherwise.
   */
  async edit(topic: string, change: (policies: TopicPolicies) => unknown, options: EditOptions = {}): Promise<UpdateResult> {
    const deadline = performance.now() + (options.timeoutMs ?? this.#timeoutMs);
    const within = (): EditOptions => ({ ...options, timeoutMs: Math.max(deadline - performance.now(), 1) });
    let reached: Pick<GetOptions, "atLeastVersion"> = {};
    for (let attempt = 1; ; attempt += 1) {
      const document = await this.get(topic, { ...within(), ...reached });
      const before = document.policies ?? create(TopicPoliciesSchema);
      const edited = clone(TopicPoliciesSchema, before);
      const returned = await change(edited);
      if (returned !== edited && isMessage(returned, TopicPoliciesSchema)) {
        throw new TypeError("edit sends what was changed in the policies that it gives, not what is returned; change them in place");
      }
      const mask = pathsBetween(before, edited);
      if (mask.length === 0) {
        const previous = options.includePrevious === true ? document : undefined;
        const { version } = document;
        return { document, version, previousVersion: version, previous, outcome: UpdateOutcome.UNCHANGED, requestId: "", replayed: false };
      }
      try {
        return await this.update(document.topic, edited, { ...within(), mask, etag: document.version });
      } catch (error) {
        const pause = delayMs(EDIT_PAUSES, attempt, Math.random());
        if (!(error instanceof ConflictError) || attempt === EDIT_ATTEMPTS || performance.now() + pause >= deadline) throw error;
        const version = error.metadata["version"];
        reached = version === undefined ? {} : { atLeastVersion: version }; // whoever reads for us may not have it yet
        await sleep(pause, undefined, options.signal === undefined ? {} : { signal: options.signal }).catch(() => undefined);
        options.signal?.throwIfAborted();
      }
    }
  }

  /** Reads one document; an absent one is no error. */
  async get(topic: string, options: GetOptions = {}): Promise<Document> {
    const { scope = Scope.UNSPECIFIED } = options;
    const asked = scope === Scope.UNSPECIFIED ? Scope.LOCAL : scope;
    return documentIn(await this.#call(METHODS.getPolicy, getRequest(topic, [asked], options), options), asked);
  }

  /** Reads the documents of both scopes at once. */
  async getBoth(topic: string, options: GetBothOptions = {}): Promise<BothScopes> {
    const answer = await this.#call(METHODS.getPolicy, getRequest(topic, [Scope.LOCAL, Scope.GLOBAL], options), options);
    return { local: documentIn(answer, Scope.LOCAL), global: documentIn(answer, Scope.GLOBAL) };
  }

  /** Reads what holds for a topic, and which level says so. */
  async effective(topic: string, options: EffectiveOptions = {}): Promise<EffectivePolicies> {
    const { view = EffectiveView.UNSPECIFIED, atLeastLocalVersion = "", atLeastGlobalVersion = "" } = options;
    const request = create(GetEffectivePolicyRequestSchema, { topic, view, atLeastLocalVersion, atLeastGlobalVersion });
    const { message, unconfirmedSince } = await this.#call(METHODS.getEffectivePolicy, request, options);
    const { localVersion, globalVersion, disabled, policies = create(TopicPoliciesSchema) } = message;
    const sources = new Map(message.sources.map(({ path, source }) => [path, source]));
    return { topic: message.topic, policies, sources, localVersion, globalVersion, disabled, unconfirmedSince };
  }

  /**
   * The documents of a namespace, `tenant/namespace`, ordered by topic and scope, page by page as they are asked for. Limits are each
   * page's.
   */
  list(namespace: string, options: ListOptions = {}): DocumentPages {
    const { scopes = [], pageSize = 0 } = options;
    return new DocumentPages(namespace, (pageToken) => {
      const request = create(ListPoliciesRequestSchema, { namespace, scopes: [...scopes], pageSize, pageToken });
      return this.#call(METHODS.listPolicies, request, options);
    });
  }

  /**
   * What happened to the documents of a topic or a namespace, by the server's record, page by page as it is asked for. Limits are each
   * page's.
   */
  history(of: HistoryOf, options: HistoryOptions = {}): HistoryPages {
    const request = historyRequest(of, options);
    return new HistoryPages((pageToken) => this.#call(METHODS.listHistory, { ...request, pageToken }, options));
  }

  /** What the server is, and what its limits are. */
  async serverInfo(limits: CallLimits = {}): Promise<ServerInfo> {
    return serverInfoOf((await this.#call(METHODS.getServerInfo, create(GetServerInfoRequestSchema), limits)).message);
  }

  /**
   * Follows documents: per namespace a snapshot, `synced`, then changes. It resumes by itself where it broke, after a jittered and growing
   * pause, and a namespace begins again with `reset` and a snapshot where it can't be resumed. It connects when it is read.
   */
  watch(selection: Selection): Watch {
    return this.#open(new WatchSession(selection), selection.signal);
  }

  /** Keeps a local copy of what a selection names. Close it when it is no longer needed. */
  cache(selection: Pick<Selection, "topics" | "namespaces" | "scopes" | "bookmarkIntervalMs">): PolicyCache {
    const { topics = [], namespaces = [], scopes = [], bookmarkIntervalMs } = selection;
    const session = new WatchSession({ topics, namespaces, scopes, ...(bookmarkIntervalMs === undefined ? {} : { bookmarkIntervalMs }) });
    return new PolicyCache(this.#open(session), session.namespaces);
  }

  #open(session: WatchSession, signal?: AbortSignal): Watch {
    for (const known of this.#watches) if (known.deref() === undefined) this.#watches.delete(known);
    const watch = new Watch(this.#line, session, signal);
    this.#watches.add(new WeakRef(watch));
    return watch;
  }

  /** One call. `change`: what it changes; without it, a read. */
  #call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>, request: MessageShape<I>, { timeoutMs = this.#timeoutMs, signal }: CallLimits, change?: Change,
  ): Promise<Answered<MessageShape<O>>> {
    return this.#line.unary(method, request, { timeoutMs, signal }, change);
  }
}

/** What a request changes; a dry run changes nothing. */
function changeOf({ topic, requestId, validateOnly }: { topic: string; requestId: string; validateOnly: boolean }): Change | undefined {
  return validateOnly ? undefined : { namespace: namespaceOf(topic), requestId };
}
