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
import { checkLimit, LONGEST_TIMER_MS, pause } from "./timeouts.js";

/** The options of `updateMany`. */
export interface ManyOptions {
  /** How many changes may be in flight, or have a result that the caller has not read yet: a whole number from 1; by default 1,000. */
  readonly maxInFlight?: number;
  /** How long to continue without any result from the service; by default the client's `timeoutMs`. */
  readonly timeoutMs?: number;
  /** Ends the call: the changes in flight fail, then the iteration throws the signal's reason. */
  readonly signal?: AbortSignal;
}

/** The changes, which may become available one by one. */
export type Changes = Iterable<Update | Deletion> | AsyncIterable<Update | Deletion>;

type Stream = Duplex<typeof UpdatePoliciesResponseSchema>;
type Answers = AsyncIterator<UpdatePoliciesResponse, undefined>;

/**
 * Makes many changes over one stream. A batch consists of the changes that are waiting when the stream accepts one; no change waits for a
 * batch to fill.
 */
export class Many {
  readonly #line: Line;
  readonly #pipeline: Pipeline;
  readonly #attemptMs: number;
  readonly #ending = new AbortController();
  /** The results of changes that could not be sent. */
  #untold: Settled[] = [];
  /** How the reading of the changes ended, with the error that they threw, if any; undefined while they are still being read. */
  #input: { readonly failure?: unknown } | undefined;
  #stream: Stream | undefined;
  #sending = false;
  /** Wakes the reader of the changes, which waits until another change may be added. */
  #room = nothing;
  /** Wakes the generator of results, which waits for a result, or for a change to send. */
  #wake = nothing;

  constructor(line: Line, policy: RetryPolicy, maxInFlight: number, timeoutMs: number) {
    checkLimit(timeoutMs);
    this.#line = line;
    this.#pipeline = new Pipeline(policy, line.routes, { maxInFlight, patienceMs: timeoutMs, now: performance.now() });
    this.#attemptMs = policy.maxAttempts === 1 ? timeoutMs : Math.min(policy.attemptTimeoutMs ?? timeoutMs, timeoutMs);
  }

  /** Yields the results, one for each change. */
  async *run(changes: Changes, signal: AbortSignal | undefined): AsyncGenerator<Settled, undefined> {
    signal?.throwIfAborted();
    const forget = whenAborted([this.#line.closing, signal], () => { this.#end(); });
    void this.#read(changes);
    try {
      const failure = yield* this.#made();
      if (failure !== undefined) {
        yield* this.#settled();
        yield* this.#pipeline.abandon(failure);
        signal?.throwIfAborted();
        if (this.#input === undefined) throw failure; // there are changes that were not read
      }
      if (this.#input?.failure !== undefined) throw this.#input.failure as Error; // the error of the iterable itself
      return undefined;
    } finally {
      forget();
      this.#end();
    }
  }

  /** Yields results until there are no more, and then returns undefined; returns the error if retrying can't help. */
  async *#made(): AsyncGenerator<Settled, TopicPoliciesError | undefined> {
    for (;;) {
      yield* this.#settled();
      if (this.#isEnded()) return new CancelledError("The changes were cancelled, or the client was closed.", { code: Code.CANCELLED });
      if (this.#pipeline.outstanding === 0) {
        if (this.#input !== undefined) return undefined;
        await this.#woken(undefined, Infinity);
        continue;
      }
      const failure = yield* this.#over(this.#pipeline.connect());
      if (failure === undefined) continue;
      if (this.#isEnded()) return failure;
      const wait = this.#pipeline.broke(failure, performance.now(), Math.random());
      if (wait === undefined) return failure;
      await pause(wait, this.#ending.signal);
    }
  }

  /** Opens a stream and yields its results until it has ended. Returns why it ended; undefined if there is nothing left to do. */
  async *#over(address: string): AsyncGenerator<Settled, TopicPoliciesError | undefined> {
    let stream;
    try {
      const timeoutMs = Math.min(this.#attemptMs, this.#pipeline.patientUntil - performance.now());
      const options = { timeoutMs, signal: this.#ending.signal };
      stream = await this.#line.duplex(TopicPoliciesService.method.updatePolicies, address, options);
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
        yield* this.#settled();
        quietSince = performance.now();
      }
      if (this.#input !== undefined && this.#pipeline.outstanding === 0) return undefined;
      if (this.#pipeline.left !== undefined) return this.#pipeline.left;
      waiting ??= answers.next();
      waiting.catch(nothing); // avoids an unhandled rejection if the read fails when it is no longer awaited
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
        this.#pipeline.restartPatience(performance.now()); // the time that the caller took to read the result does not count as silence
      }
      quietSince = performance.now();
      this.#room();
    }
  }

  /** Yields the results of changes that could not be sent. */
  *#settled(): Iterable<Settled> {
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
      this.#sending = true; // changes that are added in the same turn of the event loop go into the same batch
      setImmediate(() => { this.#send(stream); });
    }
  }

  /** Sends batches until the stream's buffer is full. */
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

  /** Waits for a promise until the given time, or until `#wake` is called; returns undefined if the promise did not settle first. */
  async #woken<T>(promise: Promise<T> | undefined, until: number): Promise<T | undefined> {
    let timer;
    const woken = new Promise<undefined>((resolve) => {
      this.#wake = () => { resolve(undefined); };
      if (until < Infinity) timer = setTimeout(this.#wake, Math.min(Math.max(until - performance.now(), 0) + 1, LONGEST_TIMER_MS));
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
  // nothing is waiting
}
