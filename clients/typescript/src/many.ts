import { setTimeout as sleep } from "node:timers/promises";

import { status as Code } from "@grpc/grpc-js";

import type { Duplex } from "./connection.js";
import { CancelledError, DeadlineExceededError, fromServiceError, UnavailableError, type TopicPoliciesError } from "./errors.js";
import {
  TopicPoliciesService, type UpdatePoliciesResponse, type UpdatePoliciesResponseSchema,
} from "./generated/topicpolicies/v1/service_pb.js";
import type { Line } from "./line.js";
import { Pipeline } from "./pipeline.js";
import type { Deletion, Update } from "./requests.js";
import type { Settled } from "./results.js";
import type { RetryPolicy } from "./retries.js";
import { whenAborted } from "./signals.js";

/** Of many changes. */
export interface ManyOptions {
  /** How many changes may be under way, or wait to be read; 1,000. */
  readonly maxInFlight?: number;
  /** How long to go on without a single answer; as long as a call of the client. */
  readonly timeoutMs?: number;
  /** Ends it: what is under way fails, and then the iteration, with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** The changes, which may come one by one. */
export type Changes = Iterable<Update | Deletion> | AsyncIterable<Update | Deletion>;

type Stream = Duplex<typeof UpdatePoliciesResponseSchema>;
type Answers = AsyncIterator<UpdatePoliciesResponse, undefined>;

/** Makes many changes over one stream. A batch is what there is to send when the stream takes it; nothing waits for more. */
export class Many {
  readonly #line: Line;
  readonly #pipeline: Pipeline;
  readonly #attemptMs: number;
  readonly #ending = new AbortController();
  /** The results of changes that were not sent. */
  #untold: Settled[] = [];
  /** How the changes have ended, if they have. */
  #input: { readonly failure?: unknown } | undefined;
  #stream: Stream | undefined;
  #sending = false;
  /** Wakes the reading of changes, which waits for room. */
  #room = nothing;
  /** Wakes the telling of results, which waits for any. */
  #wake = nothing;

  constructor(line: Line, policy: RetryPolicy, maxInFlight: number, timeoutMs: number) {
    this.#line = line;
    this.#pipeline = new Pipeline(policy, line.routes, { maxInFlight, patienceMs: timeoutMs, now: performance.now() });
    this.#attemptMs = policy.maxAttempts === 1 ? timeoutMs : Math.min(policy.attemptTimeoutMs ?? timeoutMs, timeoutMs);
  }

  /** The results, one for each change. */
  async *run(changes: Changes, signal: AbortSignal | undefined): AsyncGenerator<Settled, undefined> {
    signal?.throwIfAborted();
    const forget = whenAborted([this.#line.closing, signal], () => { this.#end(); });
    void this.#read(changes);
    try {
      const failure = yield* this.#made();
      if (failure !== undefined) {
        yield* this.#tell();
        yield* this.#pipeline.abandon(failure);
        signal?.throwIfAborted();
        if (this.#input === undefined) throw failure; // the rest was not even read
      }
      if (this.#input?.failure !== undefined) throw this.#input.failure as Error; // as the changes themselves threw it
      return undefined;
    } finally {
      forget();
      this.#end();
    }
  }

  /** Tells results until there are no more, which gives undefined, or it makes no sense to go on. */
  async *#made(): AsyncGenerator<Settled, TopicPoliciesError | undefined> {
    for (;;) {
      yield* this.#tell();
      if (this.#isEnded()) return new CancelledError("The changes were given up, or the client was closed.", { code: Code.CANCELLED });
      if (this.#pipeline.outstanding === 0) {
        if (this.#input !== undefined) return undefined;
        await this.#woken(undefined, Infinity);
        continue;
      }
      const failure = yield* this.#over(this.#pipeline.connect());
      if (failure === undefined) continue;
      if (this.#isEnded()) return failure;
      const pause = this.#pipeline.broke(failure, performance.now(), Math.random());
      if (pause === undefined) return failure;
      await sleep(pause, undefined, { signal: this.#ending.signal }).catch(nothing); // ended meanwhile
    }
  }

  /** Tells the results of one stream until it has ended, and why; undefined if nothing is left to be done. */
  async *#over(address: string): AsyncGenerator<Settled, TopicPoliciesError | undefined> {
    let stream;
    try {
      stream = await this.#line.duplex(TopicPoliciesService.method.updatePolicies, address, this.#ending.signal);
    } catch (error) {
      return fromServiceError(error);
    }
    this.#stream = stream;
    this.#send(stream);
    try {
      return yield* this.#answered(stream[Symbol.asyncIterator]() as Answers);
    } catch (error) {
      return fromServiceError(error);
    } finally {
      this.#stream = undefined;
      stream.cancel();
    }
  }

  async *#answered(answers: Answers): AsyncGenerator<Settled, TopicPoliciesError | undefined> {
    let waiting: Promise<IteratorResult<UpdatePoliciesResponse, undefined>> | undefined;
    let quietSince = performance.now();
    for (;;) {
      if (this.#untold.length > 0) {
        yield* this.#tell();
        quietSince = performance.now();
      }
      if (this.#input !== undefined && this.#pipeline.outstanding === 0) return undefined;
      if (this.#pipeline.left !== undefined) return this.#pipeline.left;
      waiting ??= answers.next();
      waiting.catch(nothing); // it may fail when nobody waits for it any more
      const idle = this.#pipeline.outstanding === 0;
      const patientUntil = idle ? Infinity : Math.min(quietSince + this.#attemptMs, this.#pipeline.patientUntil);
      const answer = await this.#woken(waiting, patientUntil);
      if (answer === undefined) {
        if (performance.now() < patientUntil) continue;
        return new DeadlineExceededError("The service did not answer in time.", { code: Code.DEADLINE_EXCEEDED });
      }
      waiting = undefined;
      if (answer.done === true) return new UnavailableError("The service has ended the stream.", { code: Code.UNAVAILABLE });
      for (const each of answer.value.results) {
        const settled = this.#pipeline.settle(each, performance.now());
        if (settled === undefined) continue;
        yield settled;
        this.#pipeline.heard(performance.now()); // the time that the caller took to read is no silence
      }
      quietSince = performance.now();
      this.#room();
    }
  }

  /** Tells what was not sent. */
  *#tell(): Iterable<Settled> {
    for (let each = this.#untold.shift(); each !== undefined; each = this.#untold.shift()) yield each;
    this.#room();
  }

  async #read(changes: Changes): Promise<void> {
    try {
      for await (const change of changes) {
        while (!this.#isEnded() && !this.#pipeline.hasRoom(this.#untold.length)) {
          await new Promise<void>((resolve) => { this.#room = resolve; });
        }
        if (this.#isEnded()) return;
        this.#add(change);
      }
      this.#input = {};
    } catch (failure) {
      this.#input = { failure };
    }
    this.#wake();
  }

  #add(change: Update | Deletion): void {
    const refused = this.#pipeline.add(change, performance.now());
    if (refused !== undefined) this.#untold.push(refused);
    if (refused !== undefined || this.#stream === undefined) {
      this.#wake();
    } else if (!this.#sending) {
      const stream = this.#stream;
      this.#sending = true; // what comes in the same turn goes with it
      setImmediate(() => { this.#send(stream); });
    }
  }

  /** Sends batches for as long as the stream takes them. */
  #send(stream: Stream): void {
    this.#sending = false;
    if (stream !== this.#stream) return;
    for (let batch = this.#pipeline.take(); batch !== undefined; batch = this.#pipeline.take()) {
      if (stream.write(batch)) continue;
      this.#sending = true;
      stream.once("drain", () => { this.#send(stream); });
      return;
    }
    if (this.#pipeline.left !== undefined) this.#wake();
  }

  /** Waits for a promise, but not when it is woken, nor longer than until then; then gives undefined. */
  async #woken<T>(promise: Promise<T> | undefined, until: number): Promise<T | undefined> {
    let timer;
    const woken = new Promise<undefined>((resolve) => {
      this.#wake = () => { resolve(undefined); };
      if (until < Infinity) timer = setTimeout(this.#wake, Math.max(until - performance.now(), 0) + 1);
    });
    try {
      return await (promise === undefined ? woken : Promise.race([promise, woken]));
    } finally {
      clearTimeout(timer);
      this.#wake = nothing;
    }
  }

  #end(): void {
    this.#ending.abort();
    this.#wake();
    this.#room();
  }

  #isEnded(): boolean {
    return this.#ending.signal.aborted;
  }
}

function nothing(): void {
  // nobody waits
}
