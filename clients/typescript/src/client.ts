import { clone, create, isMessage, type DescMessage, type DescMethodUnary, type MessageShape } from "@bufbuild/protobuf";
import { status as Code } from "@grpc/grpc-js";

import type { Change } from "./attempts.js";
import { PolicyCache } from "./cache.js";
import { DEFAULT_TARGET, type CallLimits, type ConnectionOptions } from "./connection.js";
import type { Document, PoliciesInit } from "./documents.js";
import { ConflictError, DeadlineExceededError } from "./errors.js";
import { Scope, TopicPoliciesSchema, type TopicPolicies } from "./generated/topicpolicies/v1/policies_pb.js";
import {
  EffectiveView, GetEffectivePolicyRequestSchema, GetServerInfoRequestSchema, ListPoliciesRequestSchema, TopicPoliciesService,
  UpdateOutcome,
} from "./generated/topicpolicies/v1/service_pb.js";
import { closed, Line } from "./line.js";
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
import { checkLimit, within } from "./timeouts.js";
import type { Answered } from "./unconfirmed.js";
import { Watch } from "./watch.js";

/** The options of a client. */
export interface ClientOptions extends ConnectionOptions {
  /** How long a call may take in all, retries included, unless it has its own `timeoutMs`; by default 30 seconds. `Infinity` is no limit. */
  readonly timeoutMs?: number;
  /** How failed calls are retried; `NO_RETRIES` turns retries off. */
  readonly retries?: RetryPolicy;
}

/** The options of an update. */
export interface UpdateOptions extends CallLimits, UpdateFields {}
/** The options of a deletion. */
export interface DeleteOptions extends CallLimits, ChangeOptions {}
/** The options of an edit. */
export interface EditOptions extends CallLimits, Pick<ChangeOptions, "scope" | "actor" | "reason" | "includePrevious" | "validateOnly"> {
  /** Does nothing if there is no document (outcome SKIPPED); the function is not called. */
  readonly skipIfAbsent?: boolean;
  /** A known document to begin with, such as one of a cache, which saves reading it first. */
  readonly start?: Document;
}

const MOST_IN_FLIGHT = 1000;
const EDIT_ATTEMPTS = 16;
/** Short at first: the writer that was faster has already finished. */
const EDIT_PAUSES = { initialBackoffMs: 10, maxBackoffMs: 500, multiplier: 2 };

const { method: METHODS } = TopicPoliciesService;

/**
 * Changes, reads and follows topic policies. Every call fails with a `TopicPoliciesError` or a subclass of it, or with the reason of the
 * signal that ended the call. Close the client when it is no longer needed.
 */
export class Client implements AsyncDisposable {
  /**
   * The generated methods of the service, with this client's connection, metadata and token. The client does not retry these calls; only
   * gRPC itself retries reads, if the client has one address.
   */
  readonly stub: Stub;
  readonly #line: Line;
  readonly #retries: RetryPolicy;
  readonly #timeoutMs: number;
  readonly #watches = new Set<WeakRef<Watch>>();

  /**
   * Creates a client; the first call connects. If one sidecar leads a namespace, changes of that namespace go to it, whatever its address,
   * with the same TLS and token; reads and watches stay at the client's own addresses.
   *
   * @param target the service's address in gRPC's syntax, or the addresses of several sidecars, separated by commas; if one can't be
   * reached, the client moves on to the next
   */
  constructor(target: string = DEFAULT_TARGET, options: ClientOptions = {}) {
    this.#retries = options.retries ?? DEFAULT_RETRIES;
    checkRetries(this.#retries);
    this.#timeoutMs = options.timeoutMs ?? 30_000;
    checkLimit(this.#timeoutMs);
    this.#line = new Line(target, options, this.#retries);
    this.stub = stubOf(this.#line, this.#timeoutMs);
  }

  /** Ends all watches, and closes each connection when its calls have ended. Nothing is retried any more. */
  close(): void {
    for (const watch of this.#watches) watch.deref()?.close();
    this.#watches.clear();
    this.#line.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.close();
    return Promise.resolve();
  }

  /** Changes the fields of one document that the mask names, and no others; without a mask, the fields that have a value. */
  async update(topic: string, policies: PoliciesInit, options: UpdateOptions = {}): Promise<UpdateResult> {
    const request = updateRequest(topic, policies, options);
    return updateResult((await this.#call(METHODS.updatePolicy, request, options, changeOf(request))).message);
  }

  /** Deletes one document. A document that does not exist is no error (outcome ABSENT), unless an etag is given that does not match. */
  async delete(topic: string, options: DeleteOptions = {}): Promise<DeleteResult> {
    const request = deleteRequest(topic, options);
    return deleteResult((await this.#call(METHODS.deletePolicy, request, options, changeOf(request))).message);
  }

  /**
   * Makes many changes over one stream: updates and deletions (`delete: true`), read from `changes` as they become available. Each change
   * gets one result; results come in the order in which the changes are settled. A change that fails does not affect the others; changes of
   * one document are made in their order.
   *
   * If the stream breaks, the changes without a result are sent again with the same request ids, so that none is made twice. If retrying
   * can't help, or no result arrives for `timeoutMs`, all changes in flight fail; the iteration then throws too if `changes` was not read
   * to its end.
   */
  updateMany(changes: Changes, options: ManyOptions = {}): AsyncGenerator<Settled, undefined> {
    const { maxInFlight = MOST_IN_FLIGHT, timeoutMs = this.#timeoutMs, signal } = options;
    return new Many(this.#line, this.#retries, maxInFlight, timeoutMs).run(changes, signal);
  }

  /**
   * Changes a document by editing a copy of it. Only the difference is sent, and nothing if there is none: single fields of messages that
   * both documents have, single entries of maps, and lists as a whole.
   *
   * The change is made only if no other writer has changed the document meanwhile. If one has, the function, which may be async, is called
   * again with a fresh copy, up to 16 times in all, so it must do nothing but edit; after that the call throws a `ConflictError`. If the
   * function throws, its error is thrown and nothing is sent. An async function that does not end is left when the call's time is over.
   *
   * The function has to change the copy in place. If it returns other policies, the call throws a `TypeError`, because they would be lost.
   */
  async edit(topic: string, change: (policies: TopicPolicies) => unknown, options: EditOptions = {}): Promise<UpdateResult> {
    const deadline = performance.now() + (options.timeoutMs ?? this.#timeoutMs);
    const { start, skipIfAbsent = false, ...shared } = options;
    const rest = (): EditOptions => ({ ...shared, timeoutMs: Math.max(deadline - performance.now(), 1) });
    let reached: Pick<GetOptions, "atLeastVersion"> = {};
    for (let attempt = 1; ; attempt += 1) {
      const document = (attempt === 1 ? start : undefined) ?? (await this.get(topic, { ...rest(), ...reached }));
      if (skipIfAbsent && document.policies === undefined) return unsent(document, UpdateOutcome.SKIPPED, options);
      const before = document.policies ?? create(TopicPoliciesSchema);
      const edited = clone(TopicPoliciesSchema, before);
      const returned = await this.#edited(change(edited), deadline, options.signal);
      if (returned !== edited && isMessage(returned, TopicPoliciesSchema)) {
        throw new TypeError("edit sends what was changed in the policies that it gives, not what is returned; change them in place");
      }
      const mask = pathsBetween(before, edited);
      if (mask.length === 0) return unsent(document, UpdateOutcome.UNCHANGED, options);
      try {
        return await this.update(topic, edited, { ...rest(), mask, etag: document.version });
      } catch (error) {
        const pause = delayMs(EDIT_PAUSES, attempt, Math.random());
        if (!(error instanceof ConflictError) || attempt === EDIT_ATTEMPTS || performance.now() + pause >= deadline) throw error;
        const version = error.metadata["version"];
        reached = version === undefined ? {} : { atLeastVersion: version }; // the server that answers reads may not have this version yet
        await this.#line.pause(pause, options.signal);
        options.signal?.throwIfAborted();
      }
    }
  }

  /** Reads one document. If there is none, the result has no `policies`; that is no error. */
  async get(topic: string, options: GetOptions = {}): Promise<Document> {
    const { scope = Scope.UNSPECIFIED } = options;
    const asked = scope === Scope.UNSPECIFIED ? Scope.LOCAL : scope;
    return documentIn(await this.#call(METHODS.getPolicy, getRequest(topic, [asked], options), options), asked);
  }

  /** Reads the documents of both scopes of a topic in one call. */
  async getBoth(topic: string, options: GetBothOptions = {}): Promise<BothScopes> {
    const answer = await this.#call(METHODS.getPolicy, getRequest(topic, [Scope.LOCAL, Scope.GLOBAL], options), options);
    return { local: documentIn(answer, Scope.LOCAL), global: documentIn(answer, Scope.GLOBAL) };
  }

  /** Reads the effective policies of a topic, and the level that sets each value. */
  async effective(topic: string, options: EffectiveOptions = {}): Promise<EffectivePolicies> {
    const { view = EffectiveView.UNSPECIFIED, atLeastLocalVersion = "", atLeastGlobalVersion = "" } = options;
    const request = create(GetEffectivePolicyRequestSchema, { topic, view, atLeastLocalVersion, atLeastGlobalVersion });
    const { message, unconfirmedSince } = await this.#call(METHODS.getEffectivePolicy, request, options);
    const { localVersion, globalVersion, disabled, policies = create(TopicPoliciesSchema) } = message;
    const sources = new Map(message.sources.map(({ path, source }) => [path, source]));
    return { topic: message.topic, policies, sources, localVersion, globalVersion, disabled, unconfirmedSince };
  }

  /**
   * Lists the documents of a namespace, `tenant/namespace`, ordered by topic and scope. Pages are read as the iteration needs them;
   * `timeoutMs` applies to each page.
   */
  list(namespace: string, options: ListOptions = {}): DocumentPages {
    const { scopes = [], pageSize = 0 } = options;
    return new DocumentPages(namespace, (pageToken) => {
      const request = create(ListPoliciesRequestSchema, { namespace, scopes: [...scopes], pageSize, pageToken });
      return this.#call(METHODS.listPolicies, request, options);
    });
  }

  /**
   * Reads the history of the documents of a topic or a namespace, as the server has recorded it. Pages are read as the iteration needs
   * them; `timeoutMs` applies to each page.
   */
  history(of: HistoryOf, options: HistoryOptions = {}): HistoryPages {
    const request = historyRequest(of, options);
    return new HistoryPages((pageToken) => this.#call(METHODS.listHistory, { ...request, pageToken }, options));
  }

  /** Reads the server's version, configuration and limits. */
  async serverInfo(limits: CallLimits = {}): Promise<ServerInfo> {
    return serverInfoOf((await this.#call(METHODS.getServerInfo, create(GetServerInfoRequestSchema), limits)).message);
  }

  /**
   * Follows documents: per namespace a snapshot, `synced`, then changes. When the stream breaks, the watch connects again after a growing,
   * jittered pause and resumes where it was; a namespace that can't be resumed starts over with `reset` and a snapshot. The watch connects
   * when it is first read.
   */
  watch(selection: Selection): Watch {
    return this.#open(new WatchSession(selection), selection.signal);
  }

  /** Keeps a local copy of the documents that a selection names. Close the cache when it is no longer needed. */
  cache(selection: Pick<Selection, "topics" | "namespaces" | "scopes" | "bookmarkIntervalMs">): PolicyCache {
    const { topics = [], namespaces = [], scopes = [], bookmarkIntervalMs } = selection;
    const session = new WatchSession({ topics, namespaces, scopes, ...(bookmarkIntervalMs === undefined ? {} : { bookmarkIntervalMs }) });
    return new PolicyCache(this.#open(session), session.namespaces);
  }

  /** Waits for the function of an edit, if it is async. */
  async #edited(returned: unknown, deadline: number, signal: AbortSignal | undefined): Promise<unknown> {
    if (!(returned instanceof Promise)) return returned;
    return within(returned, deadline - performance.now(), [signal, this.#line.closing], () => {
      if (signal?.aborted === true) return signal.reason as Error;
      if (this.#line.closing.aborted) return closed();
      return new DeadlineExceededError("The function of the edit took too long; nothing was sent.", { code: Code.DEADLINE_EXCEEDED });
    });
  }

  #open(session: WatchSession, signal?: AbortSignal): Watch {
    for (const known of this.#watches) if (known.deref() === undefined) this.#watches.delete(known);
    const watch = new Watch(this.#line, session, signal);
    this.#watches.add(new WeakRef(watch));
    return watch;
  }

  /** Makes one call. `change` says what the call changes; undefined for a read. */
  #call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>, request: MessageShape<I>, { timeoutMs = this.#timeoutMs, signal }: CallLimits, change?: Change,
  ): Promise<Answered<MessageShape<O>>> {
    return this.#line.unary(method, request, { timeoutMs, signal }, change);
  }
}

/** The result of an edit for which nothing was sent. */
function unsent(document: Document, outcome: UpdateOutcome, { includePrevious = false }: EditOptions): UpdateResult {
  const { version } = document;
  const previous = includePrevious ? document : undefined;
  return { document, version, previousVersion: version, previous, outcome, requestId: "", replayed: false };
}

/** What a request changes; undefined for a dry run, which changes nothing. */
function changeOf({ topic, requestId, validateOnly }: { topic: string; requestId: string; validateOnly: boolean }): Change | undefined {
  return validateOnly ? undefined : { namespace: namespaceOf(topic), requestId };
}
