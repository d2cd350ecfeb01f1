import type { DescMessage, DescMethodBiDiStreaming, DescMethodServerStreaming, DescMethodUnary, MessageShape } from "@bufbuild/protobuf";
import { status as Code } from "@grpc/grpc-js";

import { Attempts, type Change } from "./attempts.js";
import { Connection, isLocal, type Answers, type CallOptions, type ConnectionOptions, type Duplex, type StreamOptions } from "./connection.js";
import { encoded } from "./encoding.js";
import { CancelledError, FailedPreconditionError, OutcomeUnknownError, TopicPoliciesError } from "./errors.js";
import { isRead, serviceConfig, unconnected, type RetryPolicy } from "./retries.js";
import { addressesOf, Routes } from "./routes.js";
import { whenAborted } from "./signals.js";
import { pause } from "./timeouts.js";
import type { Answered } from "./unconfirmed.js";

/** The maximum number of open connections besides those to the addresses that the client was given. */
const MOST_CONNECTIONS = 64;

/**
 * Makes the calls of a client, over one connection to each address in use, which the first call to it opens. `Routes` decides the address.
 */
export class Line {
  readonly routes: Routes;
  readonly #options: ConnectionOptions;
  readonly #retries: RetryPolicy;
  /** The service config with which gRPC itself retries the reads; undefined if `unary` retries them. */
  readonly #serviceConfig: string | undefined;
  /** The connections by address, in the order in which they were created. */
  readonly #connections = new Map<string, Connection>();
  readonly #closing = new AbortController();

  constructor(target: string, options: ConnectionOptions, retries: RetryPolicy) {
    const addresses = addressesOf(target);
    this.routes = new Routes(addresses);
    // One decision for all addresses, and for the leaders that their sidecars name.
    this.#options = { ...options, tls: options.tls ?? !addresses.every(isLocal) };
    this.#retries = retries;
    // If the caller has configured gRPC's own retries, that stays. With several addresses, gRPC would stay at the one that fails.
    const decided = options.channelOptions?.["grpc.service_config"] !== undefined || options.channelOptions?.["grpc.enable_retries"] === 0;
    this.#serviceConfig = addresses.length === 1 && retries.maxAttempts > 1 && !decided ? serviceConfig(retries) : undefined;
    for (const address of addresses) this.#open(address);
  }

  /** Aborted when the client is closed: calls without a time limit have to end then. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  close(): void {
    this.#closing.abort();
    for (const connection of this.#connections.values()) connection.close();
  }

  /**
   * Makes one call, with retries. Throws a TopicPoliciesError, or the reason of the signal that ended the call. `change` says what the call
   * changes; undefined for a read.
   */
  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>, request: MessageShape<I>, limits: CallOptions, change?: Change,
  ): Promise<Answered<MessageShape<O>>> {
    limits.signal?.throwIfAborted();
    const deadline = performance.now() + limits.timeoutMs;
    const bytes = encoded(method.input, request);
    const attempts = new Attempts(this.#retries, this.routes, change, this.#serviceConfig !== undefined && isRead(method));
    for (;;) {
      const address = attempts.address;
      const within = { ...limits, timeoutMs: deadline - performance.now() };
      const failure = await this.#attempt(address, method, bytes, within, change).catch((error: unknown) => { throw attempts.unsent(error); });
      if (!(failure instanceof TopicPoliciesError)) return failure;
      const wait = isAborted(limits.signal) ? undefined : attempts.failed(address, failure, Math.random());
      if (wait !== undefined && performance.now() + wait < deadline && (await this.pause(wait, limits.signal))) continue;
      const error = attempts.ended(failure);
      if (error instanceof OutcomeUnknownError) throw error;
      limits.signal?.throwIfAborted();
      throw this.#closing.signal.aborted && unconnected(failure) ? closed(error) : error;
    }
  }

  /** Makes one call at the current address, without the client's own retries; gRPC itself may retry a read. */
  async once<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>, request: MessageShape<I>, limits: CallOptions,
  ): Promise<MessageShape<O>> {
    limits.signal?.throwIfAborted();
    const answer = await this.#attempt(this.routes.address, method, encoded(method.input, request), limits);
    if (!(answer instanceof TopicPoliciesError)) return answer.message;
    limits.signal?.throwIfAborted();
    throw answer;
  }

  /** Opens a stream of responses from an address. */
  async serverStream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>, request: MessageShape<I>, address: string, options: StreamOptions,
  ): Promise<Answers<O>> {
    return this.#connection(address).serverStream(method, encoded(method.input, request), options);
  }

  /** Opens a stream of encoded requests to an address, and of responses. */
  async duplex<I extends DescMessage, O extends DescMessage>(
    method: DescMethodBiDiStreaming<I, O>, address: string, options: StreamOptions,
  ): Promise<Duplex<O>> {
    return this.#connection(address).duplex(method, options);
  }

  async #attempt<O extends DescMessage>(
    address: string, method: DescMethodUnary<DescMessage, O>, request: Buffer, limits: CallOptions, change?: Change,
  ): Promise<Answered<MessageShape<O>> | TopicPoliciesError> {
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

  /** Waits; returns false if the call or the client was ended meanwhile. */
  async pause(ms: number, signal: AbortSignal | undefined): Promise<boolean> {
    const ending = new AbortController();
    const forget = whenAborted([this.#closing.signal, signal], () => { ending.abort(); });
    try {
      return await pause(ms, ending.signal);
    } finally {
      forget();
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

/** The error of calls of a client that was closed. */
export function closed(cause?: unknown): CancelledError {
  return new CancelledError("The client was closed.", { code: Code.CANCELLED, cause });
}

/** Whether the signal is aborted now. A function, so that the compiler does not assume the result from before an `await`. */
function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}
