import { status as Code } from "@grpc/grpc-js";

import { DeadlineExceededError, fromServiceError, UnavailableError, type TopicPoliciesError } from "./errors.js";
import type { Interrupted, WatchEvent } from "./events.js";
import { TopicPoliciesService, type WatchPoliciesRequest, type WatchPoliciesResponse } from "./generated/topicpolicies/v1/service_pb.js";
import type { Line } from "./line.js";
import type { WatchSession } from "./session.js";
import { whenAborted } from "./signals.js";
import { pause, within } from "./timeouts.js";
import type { ResumeToken } from "./tokens.js";

/**
 * An open watch: an async iterator over its events, for one reader. It ends when it is closed, or when every namespace is synced if
 * `endWhenSynced` is set. It throws an error that a retry can't cure, and the reason of the signal that ended it.
 */
export class Watch implements AsyncIterableIterator<WatchEvent>, AsyncDisposable {
  readonly #line: Line;
  readonly #session: WatchSession;
  readonly #signal: AbortSignal | undefined;
  readonly #closing = new AbortController();
  readonly #events: AsyncGenerator<WatchEvent, undefined>;

  /** Use `Client.watch`. */
  constructor(line: Line, session: WatchSession, signal?: AbortSignal) {
    this.#line = line;
    this.#session = session;
    this.#signal = signal;
    this.#events = this.#run();
  }

  /** The place from which to resume after all events that the iterator has returned so far. Save it once you have processed them. */
  get token(): ResumeToken {
    return this.#session.token;
  }

  /** Ends the watch; a pending `next` resolves as done. */
  close(): void {
    this.#closing.abort();
  }

  next(): Promise<IteratorResult<WatchEvent, undefined>> {
    return this.#events.next();
  }

  /** Ends the watch; called when a `for await` loop is left. */
  return(): Promise<IteratorResult<WatchEvent, undefined>> {
    this.close();
    return this.#events.return(undefined);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  async *#run(): AsyncGenerator<WatchEvent, undefined> {
    const forget = whenAborted([this.#signal], () => { this.close(); });
    try {
      this.#signal?.throwIfAborted();
      yield* this.#streams();
      this.#signal?.throwIfAborted();
      return undefined;
    } finally {
      forget();
    }
  }

  /** Yields the events of one stream after the other. */
  async *#streams(): AsyncGenerator<WatchEvent, undefined> {
    while (!this.#closing.signal.aborted) {
      const { request, events } = this.#session.connect(performance.now());
      yield* events;
      const address = this.#line.routes.address;
      const failure = yield* this.#stream(request, address);
      if (this.#isClosed() || this.#session.isDone) return undefined;
      this.#line.routes.failed(address, failure);
      if (failure.code === Code.RESOURCE_EXHAUSTED) this.#line.routes.leave(address);
      const interrupted: Interrupted = this.#session.broke(failure, performance.now(), Math.random());
      yield interrupted;
      await pause(interrupted.retryInMs, this.#closing.signal);
    }
    return undefined;
  }

  /** Yields the events of one stream until it ends. Returns why it ended. */
  async *#stream(request: WatchPoliciesRequest, address: string): AsyncGenerator<WatchEvent, TopicPoliciesError> {
    const signal = this.#closing.signal;
    let call;
    try {
      const timeoutMs = this.#session.patienceMs;
      call = await this.#line.serverStream(TopicPoliciesService.method.watchPolicies, request, address, { timeoutMs, signal });
      const responses = call[Symbol.asyncIterator]() as AsyncIterator<WatchPoliciesResponse, undefined>;
      for (;;) {
        const response = await within(responses.next(), timeoutMs, [], silent); // the time that the reader takes does not count
        if (response.done === true) break;
        for (const event of this.#session.received(response.value, performance.now())) {
          yield event;
          if (signal.aborted) break;
        }
      }
      return new UnavailableError("The service has ended the stream.", { code: Code.UNAVAILABLE });
    } catch (error) {
      return fromServiceError(error);
    } finally {
      call?.cancel();
    }
  }

  #isClosed(): boolean {
    return this.#closing.signal.aborted;
  }
}

function silent(): DeadlineExceededError {
  return new DeadlineExceededError("The service was silent for too long.", { code: Code.DEADLINE_EXCEEDED });
}
