import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import { clone, create, toBinary, type DescMessage, type DescMethodUnary, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { status as Code } from "@grpc/grpc-js";

import { PolicyCache } from "./cache.js";
import { Connection, type CallOptions, type ClientOptions } from "./connection.js";
import { converted, TopicPoliciesError } from "./errors.js";
import {
  PolicyHistoryService, WatchHistoryEventSchema, WatchHistoryRequestSchema, type GetPolicyAsOfRequestSchema, type HistoryEntry,
  type ListHistoryRequestSchema, type WatchHistoryEvent,
} from "./generated/topicpolicies/v1/history_pb.js";
import { TopicPoliciesSchema, type PolicyDocument, type TopicPolicies } from "./generated/topicpolicies/v1/policies_pb.js";
import {
  BatchUpdatePoliciesRequestSchema, ChangeOutcome, ChangeResultSchema, DeletePolicyRequestSchema, PolicyChangeRequestSchema,
  PreconditionSchema, TopicPoliciesService, UpdatePolicyRequestSchema, WatchEventSchema, WatchPoliciesRequestSchema, type ChangeResult,
  type EffectivePolicy, type GetEffectivePolicyRequestSchema, type GetPolicyRequestSchema, type ListPoliciesRequestSchema, type PolicyChangeRequest,
  type ServerInfo, type WatchEvent,
} from "./generated/topicpolicies/v1/service_pb.js";
import { pathsBetween } from "./masks.js";
import { mask } from "./paths.js";
import { BEGINS_AGAIN, follow, Places } from "./watch.js";

type Init<D extends DescMessage> = MessageInitShape<D>;

/** The most changes and bytes of one request of a batch. */
const BATCH_CHANGES = 1000;
const BATCH_BYTES = 3 << 20;
/** The longest pause before an edit begins again. */
const MAX_EDIT_PAUSE_MS = 500;

/** What became of one change of a batch: its result, or its error. */
export type BatchResult = { readonly result: ChangeResult; readonly error?: never } | { readonly error: TopicPoliciesError; readonly result?: never };

/**
 * A client of the service: its calls, with their generated requests and answers, iterators for lists and watches, edits, batches of any size
 * and a cache.
 *
 * gRPC repeats calls that fail with UNAVAILABLE. A change without a request id gets one, so that nothing is done twice. Calls throw
 * `TopicPoliciesError`.
 */
export class Client implements Disposable, AsyncDisposable {
  readonly #connection: Connection;
  readonly #options: ClientOptions;

  /** @param target the service's address in gRPC's syntax, such as `localhost:6680`, or `ipv4:10.0.0.1:6680,10.0.0.2:6680` */
  constructor(target: string, options: ClientOptions = {}) {
    this.#options = options;
    this.#connection = new Connection(target, options);
  }

  /** Ends all calls and watches, and closes the connection. */
  close(): void {
    this.#connection.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.close();
    return Promise.resolve();
  }

  /** Makes a call of the service that changes nothing, such as one page of `TopicPoliciesService.method.listPolicies`. */
  call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>, request: Init<I>, options: CallOptions = {},
  ): Promise<MessageShape<O>> {
    return this.#connection.unary(method, request, options);
  }

  /** Applies a masked change to one document. */
  updatePolicy(request: Init<typeof UpdatePolicyRequestSchema>, options: CallOptions = {}): Promise<ChangeResult> {
    const update = this.#identified(create(UpdatePolicyRequestSchema, request));
    return this.#connection.unary(TopicPoliciesService.method.updatePolicy, update, options, idOf(update));
  }

  /** Deletes one document. */
  deletePolicy(request: Init<typeof DeletePolicyRequestSchema>, options: CallOptions = {}): Promise<ChangeResult> {
    const deletion = this.#identified(create(DeletePolicyRequestSchema, request));
    return this.#connection.unary(TopicPoliciesService.method.deletePolicy, deletion, options, idOf(deletion));
  }

  /** Reads one document. */
  getPolicy(request: Init<typeof GetPolicyRequestSchema>, options?: CallOptions): Promise<PolicyDocument> {
    return this.call(TopicPoliciesService.method.getPolicy, request, options);
  }

  /** Reads the policies of one topic that brokers enforce, and the level that sets each. */
  getEffectivePolicy(request: Init<typeof GetEffectivePolicyRequestSchema>, options?: CallOptions): Promise<EffectivePolicy> {
    return this.call(TopicPoliciesService.method.getEffectivePolicy, request, options);
  }

  /** Reads a document as it was. */
  getPolicyAsOf(request: Init<typeof GetPolicyAsOfRequestSchema>, options?: CallOptions): Promise<PolicyDocument> {
    return this.call(PolicyHistoryService.method.getPolicyAsOf, request, options);
  }

  /** Returns facts about the server. */
  getServerInfo(options?: CallOptions): Promise<ServerInfo> {
    return this.call(TopicPoliciesService.method.getServerInfo, {}, options);
  }

  /** Lists the documents of a namespace, ordered by topic and scope. Pages are read as they are needed. */
  async *listPolicies(request: Init<typeof ListPoliciesRequestSchema>, options?: CallOptions): AsyncGenerator<PolicyDocument, void> {
    for (let { pageToken = "" } = request; ;) {
      const page = await this.call(TopicPoliciesService.method.listPolicies, { ...request, pageToken }, options);
      yield* page.documents;
      if ((pageToken = page.nextPageToken) === "") return;
    }
  }

  /** Lists the history of a topic or a namespace. Pages are read as they are needed; a page also says where events may be missing. */
  async *listHistory(request: Init<typeof ListHistoryRequestSchema>, options?: CallOptions): AsyncGenerator<HistoryEntry, void> {
    for (let { pageToken = "" } = request; ;) {
      const page = await this.call(PolicyHistoryService.method.listHistory, { ...request, pageToken }, options);
      yield* page.entries;
      if ((pageToken = page.nextPageToken) === "") return;
    }
  }

  /**
   * Reads a document, calls a function that changes a copy of it, and sends what differs, on the condition that nobody else has changed the
   * document. If somebody has, it begins again, until the time limit. The function therefore may run several times; what it throws ends
   * the edit.
   *
   * The request says what else an update says: topic and scope, actor and reason, `skipIfAbsent`, `validateOnly`, `includePrevious`. Edit
   * sets its policies, mask and precondition, and each attempt has a request id of its own.
   */
  async edit(
    request: Init<typeof UpdatePolicyRequestSchema>, change: (policies: TopicPolicies) => void | Promise<void>,
    { timeoutMs = this.#options.timeoutMs ?? 30_000, ...others }: CallOptions = {},
  ): Promise<ChangeResult> {
    const deadline = performance.now() + timeoutMs;
    for (let pauseMs = 5; ; pauseMs = Math.min(2 * pauseMs, MAX_EDIT_PAUSE_MS)) {
      try {
        return await this.#edit(request, change, { ...others, timeoutMs: Math.max(0, deadline - performance.now()) });
      } catch (error) {
        const conflict = error instanceof TopicPoliciesError && error.kind === "conflict";
        if (!conflict || performance.now() + pauseMs > deadline) throw error;
      }
      await sleep(Math.random() * pauseMs);
    }
  }

  async #edit(
    request: Init<typeof UpdatePolicyRequestSchema>, change: (policies: TopicPolicies) => void | Promise<void>, options: CallOptions,
  ): Promise<ChangeResult> {
    const update = create(UpdatePolicyRequestSchema, request);
    const { topic, scope, skipIfAbsent, includePrevious } = update;
    const document = await this.getPolicy({ topic, scope }, options);
    const { version } = document;
    const unwritten = (outcome: ChangeOutcome): ChangeResult => create(ChangeResultSchema, {
      document, version, previousVersion: version, outcome, ...(includePrevious && { previous: document }),
    });
    if (skipIfAbsent && document.policies === undefined) return unwritten(ChangeOutcome.SKIPPED);
    const before = document.policies ?? create(TopicPoliciesSchema);
    const policies = clone(TopicPoliciesSchema, before);
    await change(policies);
    const paths = pathsBetween(before, policies);
    if (paths.length === 0) return unwritten(ChangeOutcome.UNCHANGED);
    return this.updatePolicy({
      ...update, policies, updateMask: mask(...paths), listOperations: {}, skipIfAbsent: false, requestId: "",
      precondition: create(PreconditionSchema, { condition: { case: "version", value: version } }),
    }, options);
  }

  /**
   * Makes any number of changes and returns a result for each, in their order. It sends them in as few requests as possible, one after the
   * other, so changes of one topic and scope are made in the order of the batch. A change that fails fails alone.
   */
  async batch(changes: Iterable<Init<typeof PolicyChangeRequestSchema>>, options: CallOptions = {}): Promise<BatchResult[]> {
    const parts: PolicyChangeRequest[][] = [];
    let room = 0;
    for (const each of create(BatchUpdatePoliciesRequestSchema, { changes: [...changes] }).changes) {
      const change = this.#identifiedChange(each);
      const bytes = toBinary(PolicyChangeRequestSchema, change).length;
      const last = parts.at(-1);
      if (last === undefined || last.length === BATCH_CHANGES || bytes > room) {
        parts.push([change]);
        room = BATCH_BYTES - bytes;
      } else {
        last.push(change);
        room -= bytes;
      }
    }
    const results: BatchResult[] = [];
    for (const part of parts) results.push(...await this.#batch(part, options));
    return results;
  }

  async #batch(changes: PolicyChangeRequest[], options: CallOptions): Promise<BatchResult[]> {
    const ids = changes.map(({ change }) => change.value?.requestId ?? "");
    try {
      const { results } = await this.#connection.unary(TopicPoliciesService.method.batchUpdatePolicies, { changes }, options, "");
      return ids.map((id, index) => {
        const result = results[index]?.result;
        if (result?.case === "success") return { result: result.value };
        if (result?.case === "error") {
          const { code, message, details } = result.value;
          return { error: new TopicPoliciesError(Code[Code[code] as keyof typeof Code], message, details, id) };
        }
        return { error: new TopicPoliciesError(Code.INTERNAL, "The answer has no result of this change.", [], id) };
      });
    } catch (error) {
      const { cause } = error as Error;
      return ids.map((id) => {
        const own = converted(cause, id);
        if (own instanceof TopicPoliciesError) return { error: own };
        return { error: new TopicPoliciesError(Code.CANCELLED, `Nothing was sent: ${String(error)}`, [], undefined, { cause: error }) };
      });
    }
  }

  /**
   * Follows documents: per namespace a snapshot, a bookmark that says `synced`, then changes. A watch that breaks goes on where it was,
   * until its reader leaves it, the signal ends it, or an error comes that a repetition can't cure.
   *
   * To go on later, keep the last `resumeToken` of each namespace and pass them in the request. If a watch breaks within a snapshot, the next
   * event of that namespace is a reset without a reason, and the snapshot begins again.
   */
  watchPolicies(request: Init<typeof WatchPoliciesRequestSchema>, { signal }: { signal?: AbortSignal } = {}): AsyncGenerator<WatchEvent, void> {
    const { resumeTokens } = create(WatchPoliciesRequestSchema, request);
    const reset = (namespace: string): WatchEvent => create(WatchEventSchema, { namespace, content: BEGINS_AGAIN });
    return follow(new Places<WatchEvent>(resumeTokens, (event) => event.resumeToken), reset, (tokens) => {
      return this.#connection.stream(TopicPoliciesService.method.watchPolicies, { ...request, resumeTokens: tokens }, signal);
    }, signal);
  }

  /**
   * Follows everything that the history records, from its beginning or from the positions of the request. A watch that breaks goes on where
   * it was, as `watchPolicies` does. To go on later, keep the last `position` of each namespace.
   */
  watchHistory(request: Init<typeof WatchHistoryRequestSchema>, { signal }: { signal?: AbortSignal } = {}): AsyncGenerator<WatchHistoryEvent, void> {
    const { positions } = create(WatchHistoryRequestSchema, request);
    const reset = (namespace: string): WatchHistoryEvent => create(WatchHistoryEventSchema, { namespace, content: BEGINS_AGAIN });
    return follow(new Places<WatchHistoryEvent>(positions, (event) => event.position), reset, (tokens) => {
      return this.#connection.stream(PolicyHistoryService.method.watchHistory, { ...request, positions: tokens }, signal);
    }, signal);
  }

  /** Creates a cache of what the request selects, and starts to fill it. Close it when it is no longer needed. */
  cache(request: Init<typeof WatchPoliciesRequestSchema>): PolicyCache {
    return new PolicyCache(request, (signal) => this.watchPolicies(request, { signal }));
  }

  /** Gives a change a request id and an actor, if it has none. */
  #identified<C extends { requestId: string; actor: string }>(change: C): C {
    return {
      ...change, requestId: change.requestId === "" ? randomUUID().replaceAll("-", "") : change.requestId,
      actor: change.actor === "" ? (this.#options.actor ?? "") : change.actor,
    };
  }

  #identifiedChange(request: PolicyChangeRequest): PolicyChangeRequest {
    const { change } = request;
    if (change.case === "update") return { ...request, change: { case: "update", value: this.#identified(change.value) } };
    if (change.case === "delete") return { ...request, change: { case: "delete", value: this.#identified(change.value) } };
    return request;
  }
}

/** Returns the id of a request that can change something. */
function idOf({ requestId, validateOnly }: { requestId: string; validateOnly: boolean }): string | undefined {
  return validateOnly ? undefined : requestId;
}
