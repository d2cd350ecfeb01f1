import { isIP } from "node:net";
import type { Readable } from "node:stream";

import { fromBinary, type DescMessage, type DescMethod, type MessageShape } from "@bufbuild/protobuf";
import * as grpc from "@grpc/grpc-js";

import { fromServiceError, invalid, UnavailableError } from "./errors.js";
import { whenAborted } from "./signals.js";
import { checkLimit, LONGEST_MS, within } from "./timeouts.js";
import { unconfirmedSince, type Answered } from "./unconfirmed.js";

/** The service's default address. */
export const DEFAULT_TARGET = "localhost:6680";
/** The metadata keys of the actor and the reason that hold for changes which name none of their own. */
const ACTOR_KEY = "topicpolicies-actor";
const REASON_KEY = "topicpolicies-reason";
/** How long a connection may take to be established when there is another address to try. */
const CONNECTING_MS = 5000;

/** The TLS settings of a connection. All certificates and keys are PEM. */
export interface Tls {
  /** The certificate authorities that the server's certificate is checked against; by default Node's own. */
  readonly ca?: Buffer;
  /** The client's certificate and its private key, if the server requires one (mutual TLS). */
  readonly certificate?: Buffer;
  readonly key?: Buffer;
  /** The name in the server's certificate, if it differs from the address. */
  readonly serverName?: string;
}

/** The options of a client's connections. */
export interface ConnectionOptions {
  /** The actor of changes that name none; it is stored with each change. */
  readonly actor?: string;
  /** The reason of changes that name none; it is stored with each change. */
  readonly reason?: string;
  /** True or a `Tls` for TLS, false for none. By default, TLS is used unless the target is on this machine. */
  readonly tls?: boolean | Tls;
  /**
   * Returns the bearer token (metadata "authorization"). It is called for every call, so the token may be renewed. A promise that takes
   * too long ends with the call.
   */
  readonly token?: () => string | Promise<string>;
  /** gRPC interceptors for every call, for metadata of your own, such as a trace's, or for telemetry. */
  readonly interceptors?: readonly grpc.Interceptor[];
  /** Further channel options of grpc-js. They override the client's own. */
  readonly channelOptions?: grpc.ChannelOptions;
}

/** The limits of one call. */
export interface CallLimits {
  /** How long the call may take in all, retries included; by default the client's `timeoutMs`. `Infinity` is no limit. */
  readonly timeoutMs?: number;
  /**
   * Ends the call, which then fails with the signal's reason, or with an `OutcomeUnknownError` if it is a change that may have been made
   * all the same.
   */
  readonly signal?: AbortSignal;
}

/** How one call is made. */
export interface CallOptions {
  /** How long the call may take in all, retries included. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** How a stream is opened. */
export interface StreamOptions {
  /** How long its token may take; by default without limit. */
  readonly timeoutMs?: number;
  /** Ends the stream. */
  readonly signal: AbortSignal;
}

/** How calls wait for a connection. */
export interface Waiting {
  /** Whether there is no other address to try. */
  readonly alone: boolean;
  /** Whether calls wait for a connection until their deadline; watches never do. */
  readonly waits: boolean;
}

/** The stream of responses of a server-streaming call. */
export type Answers<O extends DescMessage> = grpc.ClientReadableStream<MessageShape<O>>;
/** A stream of encoded requests, and of responses. */
export type Duplex<O extends DescMessage> = grpc.ClientDuplexStream<Buffer, MessageShape<O>>;

/**
 * The channel to one address, which the first call opens, and the calls on it. Each call is made once, unless the channel's service config
 * says otherwise.
 */
export class Connection {
  readonly #client: grpc.Client;
  readonly #asker: Readonly<Record<string, string>>;
  readonly #token: (() => string | Promise<string>) | undefined;
  readonly #waiting: Waiting;
  readonly #closing = new AbortController();

  constructor(target: string, options: ConnectionOptions, waiting: Waiting) {
    const { actor = "", reason = "" } = options;
    for (const [name, text] of Object.entries({ actor, reason })) {
      if (/^([!-~]([ -~]*[!-~])?)?$/.test(text)) continue;
      const problem = `The client's ${name} is metadata: printable ASCII, without blanks around it. A change's own may be any text.`;
      throw invalid(name, `MALFORMED_${name.toUpperCase()}`, problem);
    }
    this.#asker = { ...(actor && { [ACTOR_KEY]: actor }), ...(reason && { [REASON_KEY]: reason }) };
    const secured = options.tls ?? !isLocal(target);
    const tls = secured === true ? {} : secured;
    if (options.token !== undefined && tls === false && !isLocal(target)) {
      const problem = "A token is not sent to another machine without TLS: say tls: true, or give its authorities.";
      throw invalid("token", "TOKEN_IN_THE_CLEAR", problem);
    }
    this.#token = options.token;
    this.#waiting = waiting;
    this.#client = new grpc.Client(target, tls === false ? grpc.credentials.createInsecure() : credentials(tls), {
      "grpc.service_config_disable_resolution": 1, // `Line` decides how calls are retried, not DNS
      "grpc.keepalive_time_ms": 30_000, // detects a connection that died silently
      "grpc.keepalive_timeout_ms": 10_000,
      "grpc.initial_reconnect_backoff_ms": 100,
      "grpc.max_reconnect_backoff_ms": 5000,
      "grpc.max_receive_message_length": 64 << 20,
      ...(isLocal(target) ? { "grpc.enable_http_proxy": 0 } : {}), // an `http_proxy` of the environment is another machine
      ...(options.interceptors === undefined ? {} : { interceptors: [...options.interceptors] }),
      ...(tls !== false && tls.serverName !== undefined ? { "grpc.ssl_target_name_override": tls.serverName } : {}),
      ...options.channelOptions,
    });
  }

  close(): void {
    this.#closing.abort();
    this.#client.close();
  }

  /** Makes one unary call with an encoded request. Throws a TopicPoliciesError, or whatever the token function throws. */
  async unary<O extends DescMessage>(
    method: DescMethod & { output: O }, request: Buffer, { timeoutMs, signal }: CallOptions,
  ): Promise<Answered<MessageShape<O>>> {
    checkLimit(timeoutMs);
    const deadline = timeoutMs > LONGEST_MS ? Infinity : Date.now() + timeoutMs;
    const metadata = await this.#metadata(this.#waiting.waits, signal, timeoutMs);
    await this.#connecting(timeoutMs, signal);
    return new Promise((resolve, reject) => {
      let message: MessageShape<O>;
      const call = this.#client.makeUnaryRequest(
        pathOf(method), asIs, (bytes) => fromBinary(method.output, bytes), request, metadata, { deadline },
        (error, answer) => {
          forget();
          if (error !== null) reject(signal?.aborted === true && !this.#isConnected(call) ? neverConnected(error) : fromServiceError(error));
          else message = answer as MessageShape<O>; // grpc-js passes either an error or an answer
        },
      );
      call.on("status", ({ metadata: trailing }) => { resolve({ message, unconfirmedSince: unconfirmedSince(trailing) }); }); // comes last
      const forget = whenAborted([signal], () => { call.cancel(); });
    });
  }

  /**
   * Opens a stream of responses, which the signal ends, and which fails with grpc-js's own errors. The call does not wait for a connection:
   * the reader of the stream decides whether to try again.
   */
  async serverStream<O extends DescMessage>(
    method: DescMethod & { output: O }, request: Buffer, { timeoutMs, signal }: StreamOptions,
  ): Promise<Answers<O>> {
    const metadata = await this.#metadata(false, signal, timeoutMs);
    await this.#connecting(Infinity, signal);
    const decoded = (bytes: Buffer): MessageShape<O> => fromBinary(method.output, bytes);
    return endedBy(signal, this.#client.makeServerStreamRequest(pathOf(method), asIs, decoded, request, metadata));
  }

  /** Opens a stream of responses and of encoded requests; otherwise like `serverStream`. */
  async duplex<O extends DescMessage>(method: DescMethod & { output: O }, { timeoutMs, signal }: StreamOptions): Promise<Duplex<O>> {
    const metadata = await this.#metadata(false, signal, timeoutMs);
    await this.#connecting(Infinity, signal);
    return endedBy(signal, this.#client.makeBidiStreamRequest(pathOf(method), asIs, (bytes) => fromBinary(method.output, bytes), metadata));
  }

  /** Whether a call has, or had, a connection. Until then its peer is the target, or unknown. */
  #isConnected(call: grpc.Call): boolean {
    return ![this.#client.getChannel().getTarget(), "unknown"].includes(call.getPeer());
  }

  /** Waits until the connection is established or fails, at most `CONNECTING_MS`, if there is another address to try. */
  async #connecting(timeoutMs: number, signal: AbortSignal | undefined): Promise<void> {
    if (this.#waiting.alone) return;
    const channel = this.#client.getChannel();
    const deadline = Date.now() + Math.min(timeoutMs, CONNECTING_MS);
    while (signal?.aborted !== true) {
      const state = channel.getConnectivityState(true);
      // In any other state the call itself goes ahead, or fails with the reason.
      if (state !== grpc.connectivityState.IDLE && state !== grpc.connectivityState.CONNECTING) return;
      let forget = (): void => undefined;
      const late = await new Promise<Error | undefined>((resolve) => {
        forget = whenAborted([signal], () => { resolve(undefined); });
        channel.watchConnectivityState(state, deadline, resolve);
      });
      forget();
      if (late === undefined) continue;
      throw new UnavailableError("No connection established in time.", { code: grpc.status.UNAVAILABLE, cause: late });
    }
  }

  async #metadata(waitForReady: boolean, signal: AbortSignal | undefined, timeoutMs = Infinity): Promise<grpc.Metadata> {
    const metadata = new grpc.Metadata({ waitForReady });
    for (const [key, value] of Object.entries(this.#asker)) metadata.set(key, value);
    const given = this.#token?.();
    if (given === undefined) return metadata;
    const token = typeof given === "string" ? given : await within(given, timeoutMs, [signal, this.#closing.signal], noToken);
    if (!/^[ -~]*$/.test(token)) { // grpc-js says so too, with the token in its message
      throw invalid("token", "MALFORMED_TOKEN", "A token is metadata: printable ASCII. Perhaps this one ends with a line break.");
    }
    metadata.set("authorization", `Bearer ${token}`);
    return metadata;
  }
}

function neverConnected(cause: Error): UnavailableError {
  return new UnavailableError("No connection established before the call was ended.", { code: grpc.status.UNAVAILABLE, cause });
}

function noToken(): UnavailableError {
  return new UnavailableError("There was no token in time.", { code: grpc.status.UNAVAILABLE });
}

/** Cancels a stream when the signal is aborted, until the stream's status has arrived. */
function endedBy<S extends grpc.Call & Readable>(signal: AbortSignal, stream: S): S {
  stream.on("error", () => undefined); // an error may come after the last read
  stream.once("status", whenAborted([signal], () => { stream.cancel(); }));
  return stream;
}

function asIs(request: Buffer): Buffer {
  return request;
}

function pathOf(method: DescMethod): string {
  return `/${method.parent.typeName}/${method.name}`;
}

function credentials(tls: Tls): grpc.ChannelCredentials {
  return grpc.credentials.createSsl(tls.ca ?? null, tls.key ?? null, tls.certificate ?? null);
}

/** Whether a target is on this machine: a loopback address, `localhost` or a Unix socket. */
export function isLocal(target: string): boolean {
  if (/^unix(-abstract)?:/.test(target)) return true;
  const address = target.includes("://") ? (target.split("/").at(-1) ?? "") : target.replace(/^(dns|ipv4|ipv6):/, "");
  const host = /^\[(.*)\](?::\d+)?$/.exec(address)?.[1] ?? (isIP(address) ? address : address.replace(/:\d+$/, ""));
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}
