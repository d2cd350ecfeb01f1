import { setTimeout as sleep } from "node:timers/promises";

import type { DescMessage, DescMethodServerStreaming, DescMethodUnary, MessageShape } from "@bufbuild/protobuf";
import { status as Code, type ClientReadableStream } from "@grpc/grpc-js";

import { Connection, isLocal, type CallOptions, type ConnectionOptions } from "./connection.js";
import { CancelledError, FailedPreconditionError, OutcomeUnknownError, TopicPoliciesError, UnavailableError } from "./errors.js";
import { Repeats } from "./repeats.js";
import { ambiguous, isRead, serviceConfig, settled, unconnected, type RetryPolicy } from "./retries.js";
import { addressesOf, Routes } from "./routes.js";

/** Addresses that a client has connections to at the same time, at most, beside those that it was given. */
const MOST_CONNECTIONS = 64;

/** What a call changes. */
export interface Change {
  readonly namespace: string;
  readonly requestId: string;
}

/** What calls are made with: a connection to each address that is in use, opened by the first call to it. Calls go where `Routes` says. */
export class Line {
  readonly routes: Routes;
  readonly #options: ConnectionOptions;
  readonly #retries: RetryPolicy;
  /** With which gRPC repeats the reads; without it, this does. */
  readonly #serviceConfig: string | undefined;
  /** Those that were made first come first. */
  readonly #connections = new Map<string, Connection>();
  readonly #closing = new AbortController();

  constructor(target: string, options: ConnectionOptions, retries: RetryPolicy) {
    const addresses = addressesOf(target);
    this.routes = new Routes(addresses);
    // One answer for all of them, and for wherever they send the client.
    this.#options = { ...options, tls: options.tls ?? !addresses.every(isLocal) };
    this.#retries = retries;
    // What the caller has decided about gRPC's own repeats stays. With several addresses gRPC would stay at the one that fails.
    const decided = options.channelOptions?.["grpc.service_config"] !== undefined || options.channelOptions?.["grpc.enable_retries"] === 0;
    this.#serviceConfig = addresses.length === 1 && retries.maxAttempts > 1 && !decided ? serviceConfig(retries) : undefined;
    for (const address of addresses) this.#open(address);
  }

  close(): void {
    this.#closing.abort();
    for (const connection of this.#connections.values()) connection.close();
  }

  /** One call with its repeats. It fails with a TopicPoliciesError. `change`: what it changes; without it, a read. */
  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>, request: MessageShape<I>, limits: CallOptions, change?: Change,
  ): Promise<MessageShape<O>> {
    const deadline = performance.now() + limits.timeoutMs;
    const repeats = new Repeats(this.#retries, change !== undefined, this.#serviceConfig !== undefined && isRead(method));
    let unknown = false;
    for (;;) {
      const address = change === undefined ? this.routes.address : this.routes.writer(change.namespace);
      const failure = await this.#attempt(address, method, request, { ...limits, timeoutMs: deadline - performance.now() }, change);
      if (!(failure instanceof TopicPoliciesError)) return failure;
      unknown ||= ambiguous(failure);
      const cancelled = limits.signal?.aborted === true;
      const redirected = !cancelled && this.routes.failed(address, failure, change?.namespace);
      const pause = cancelled ? undefined : repeats.failed(failure, redirected, Math.random());
      if (pause === undefined || performance.now() + pause >= deadline || !(await this.#pause(pause, limits.signal))) {
        throw failed(failure, limits.signal, unknown ? change : undefined);
      }
    }
  }

  /** A stream of answers from an address. */
  async serverStream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>, request: MessageShape<I>, address: string, signal: AbortSignal,
  ): Promise<ClientReadableStream<MessageShape<O>>> {
    return this.#connection(address).serverStream(method, request, signal);
  }

  async #attempt<I extends DescMessage, O extends DescMessage>(
    address: string, method: DescMethodUnary<I, O>, request: MessageShape<I>, limits: CallOptions, change?: Change,
  ): Promise<MessageShape<O> | TopicPoliciesError> {
    const { attemptTimeoutMs = Infinity, maxAttempts } = this.#retries;
    const timeoutMs = change === undefined || maxAttempts === 1 ? limits.timeoutMs : Math.min(limits.timeoutMs, attemptTimeoutMs);
    let connection;
    try {
      connection = this.#connection(address);
    } catch (error) {
      if (change !== undefined) this.routes.forget(address, change.namespace);
      throw error;
    }
    try {
      return await connection.unary(method, request, { ...limits, timeoutMs });
    } catch (error) {
      if (error instanceof TopicPoliciesError) return error;
      if (this.#closing.signal.aborted) return closed(error);
      throw error;
    }
  }

  /** Waits; gives false if the call or the client was ended meanwhile. */
  async #pause(ms: number, signal: AbortSignal | undefined): Promise<boolean> {
    const ending = new AbortController();
    const end = (): void => { ending.abort(); };
    const signals = signal === undefined ? [this.#closing.signal] : [this.#closing.signal, signal];
    for (const each of signals) each.addEventListener("abort", end);
    if (signals.some((each) => each.aborted)) end();
    try {
      return await sleep(ms, true, { signal: ending.signal });
    } catch {
      return false;
    } finally {
      for (const each of signals) each.removeEventListener("abort", end);
    }
  }

  #connection(address: string): Connection {
    if (this.#closing.signal.aborted) throw closed();
    const known = this.#connections.get(address);
    if (known !== undefined) return known;
    try {
      return this.#open(address);
    } catch (cause) {
      const problem = cause instanceof Error ? cause.message : String(cause);
      const message = `The address ${address} can't be used: ${problem}`;
      throw new FailedPreconditionError(message, { code: Code.FAILED_PRECONDITION, reason: "UNUSABLE_ADDRESS", cause });
    }
  }

  #open(address: string): Connection {
    const alone = this.routes.addresses.length === 1 && this.routes.addresses.includes(address);
    const options = alone && this.#serviceConfig !== undefined
      ? { ...this.#options, channelOptions: { ...this.#options.channelOptions, "grpc.service_config": this.#serviceConfig } }
      : this.#options;
    const connection = new Connection(address, options, { alone, waits: alone && this.#retries.maxAttempts > 1 });
    const others = [...this.#connections.keys()].filter((known) => !this.routes.addresses.includes(known));
    const [oldest] = others;
    if (oldest !== undefined && others.length >= MOST_CONNECTIONS) {
      this.#connections.get(oldest)?.close();
      this.#connections.delete(oldest);
    }
    this.#connections.set(address, connection);
    return connection;
  }
}

function closed(cause?: unknown): CancelledError {
  return new CancelledError("The client was closed.", { code: Code.CANCELLED, cause });
}

/** What a call fails with in the end. `unknown`: what may have been changed all the same. */
function failed(error: TopicPoliciesError, signal: AbortSignal | undefined, unknown: Change | undefined): TopicPoliciesError {
  if (unknown !== undefined && !settled(error)) return new OutcomeUnknownError(error, unknown.requestId);
  if (signal?.aborted === true && !(error instanceof CancelledError)) {
    return new CancelledError("The caller's signal has ended the call.", { code: Code.CANCELLED, cause: error });
  }
  if (unconnected(error)) {
    return new UnavailableError(`There was no connection to the service in time: ${error.message}`, { code: error.code, cause: error });
  }
  return error;
}
