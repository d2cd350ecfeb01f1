import { isIP } from "node:net";
import type { Readable } from "node:stream";

import { fromBinary, type DescMessage, type DescMethod, type MessageShape } from "@bufbuild/protobuf";
import * as grpc from "@grpc/grpc-js";

import { fromServiceError, invalid, UnavailableError } from "./errors.js";
import { whenAborted } from "./signals.js";
import { unconfirmedSince, type Answered } from "./unconfirmed.js";

/** Where the service listens unless it was told otherwise. */
export const DEFAULT_TARGET = "localhost:6680";
/** The metadata that says who asks for a change, and why, unless the request does. */
const ACTOR_KEY = "topicpolicies-actor";
const REASON_KEY = "topicpolicies-reason";
/** How long a connection may take to be made where there is another address to try. */
const CONNECTING_MS = 5000;

/** TLS of a connection. All are PEM. */
export interface Tls {
  /** The authorities that the server's certificate is checked against; without them, Node's own. */
  readonly ca?: Buffer;
  /** The client's own certificate and its private key, if the server asks for one (mutual TLS). */
  readonly certificate?: Buffer;
  readonly key?: Buffer;
  /** The name that the server's certificate carries, where it differs from the address. */
  readonly serverName?: string;
}

/** What a connection is made of. */
export interface ConnectionOptions {
  /** Who asks for the changes, unless one says otherwise; it is kept beside them. */
  readonly actor?: string;
  /** Why, unless a change says otherwise; it is kept beside the changes. */
  readonly reason?: string;
  /** True or a `Tls` for TLS, false for none. Without it: TLS, unless the target is on this machine. */
  readonly tls?: boolean | Tls;
  /** A bearer token for every call (metadata "authorization"). It is asked for each time, so it may be renewed. */
  readonly token?: () => string | Promise<string>;
  /** What each call passes on its way out, and its answer on its way back: for metadata of your own, such as a trace's, or for telemetry. */
  readonly interceptors?: readonly grpc.Interceptor[];
  /** Further channel options of grpc-js; they come last and win. */
  readonly channelOptions?: grpc.ChannelOptions;
}

/** Of every call. */
export interface CallLimits {
  /** How long the call may take in all, its repeats included. */
  readonly timeoutMs?: number;
  /**
   * Ends the call, which then fails with the signal's reason; a change that may have been made all the same is an `OutcomeUnknownError`.
   */
  readonly signal?: AbortSignal;
}

/** How one call is made. */
export interface CallOptions {
  /** How long it may take in all, its repeats included. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** How calls wait for a connection. */
export interface Waiting {
  /** Whether there is no other address to try. */
  readonly alone: boolean;
  /** Whether calls wait until their time is over; watches never do. */
  readonly waits: boolean;
}

/** The answers of one stream. */
export type Answers<O extends DescMessage> = grpc.ClientReadableStream<MessageShape<O>>;
/** A stream of encoded requests, and its answers. */
export type Duplex<O extends DescMessage> = grpc.ClientDuplexStream<Buffer, MessageShape<O>>;

/**
 * The channel to one address, which the first call opens, and the calls on it, each made once unless the channel's service config says
 * otherwise.
 */
export class Connection {
  readonly #client: grpc.Client;
  readonly #asker: Readonly<Record<string, string>>;
  readonly #token: (() => string | Promise<string>) | undefined;
  readonly #waiting: Waiting;

  constructor(target: string, options: ConnectionOptions, waiting: Waiting) {
    const { actor = "", reason = "" } = options;
    for (const [name, text] of Object.entries({ actor, reason })) {
      if (/^([!-~]([ -~]*[!-~])?)?$/.test(text)) continue;
      const problem = `The client's ${name} is metadata: printable ASCII, without blanks around it. A change's own may be any text.`;
      throw invalid(name, "MALFORMED_TEXT", problem);
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
      "grpc.service_config_disable_resolution": 1, // how calls are repeated is for `Line` to say, not for DNS
      "grpc.keepalive_time_ms": 30_000, // a connection that died without a word is noticed
      "grpc.keepalive_timeout_ms": 10_000,
      "grpc.initial_reconnect_backoff_ms": 100,
      "grpc.max_reconnect_backoff_ms": 5000,
      "grpc.max_receive_message_length": 64 << 20,
      ...(options.interceptors === undefined ? {} : { interceptors: [...options.interceptors] }),
      ...(tls !== false && tls.serverName !== undefined ? { "grpc.ssl_target_name_override": tls.serverName } : {}),
      ...options.channelOptions,
    });
  }

  close(): void {
    this.#client.close();
  }

  /** One call with one answer, of an encoded request. It fails with a TopicPoliciesError, or what the token's source throws. */
  async unary<O extends DescMessage>(
    method: DescMethod & { output: O }, request: Buffer, { timeoutMs, signal }: CallOptions,
  ): Promise<Answered<MessageShape<O>>> {
    const deadline = new Date(Date.now() + timeoutMs);
    const metadata = await this.#metadata(this.#waiting.waits);
    await this.#connecting(timeoutMs, signal);
    return new Promise((resolve, reject) => {
      let message: MessageShape<O>;
      const call = this.#client.makeUnaryRequest(
        pathOf(method), asIs, (bytes) => fromBinary(method.output, bytes), request, metadata, { deadline },
        (error, answer) => {
          forget();
          if (error !== null) reject(fromServiceError(error));
          else message = answer as MessageShape<O>; // grpc-js gives one of the two
        },
      );
      call.on("status", ({ metadata: trailing }) => { resolve({ message, unconfirmedSince: unconfirmedSince(trailing) }); }); // comes last
      const forget = whenAborted([signal], () => { call.cancel(); });
    });
  }

  /**
   * A stream of answers, which ends with the signal, and with grpc-js's own errors. It does not wait for a connection: whoever reads it
   * decides what to do.
   */
  async serverStream<O extends DescMessage>(method: DescMethod & { output: O }, request: Buffer, signal: AbortSignal): Promise<Answers<O>> {
    const metadata = await this.#metadata(false);
    await this.#connecting(Infinity, signal);
    const decoded = (bytes: Buffer): MessageShape<O> => fromBinary(method.output, bytes);
    return endedBy(signal, this.#client.makeServerStreamRequest(pathOf(method), asIs, decoded, request, metadata));
  }

  /** The same with a stream of encoded requests. */
  async duplex<O extends DescMessage>(method: DescMethod & { output: O }, signal: AbortSignal): Promise<Duplex<O>> {
    const metadata = await this.#metadata(false);
    await this.#connecting(Infinity, signal);
    return endedBy(signal, this.#client.makeBidiStreamRequest(pathOf(method), asIs, (bytes) => fromBinary(method.output, bytes), metadata));
  }

  /** Waits while the connection is being made, but not for long: there is another address to try. */
  async #connecting(timeoutMs: number, signal: AbortSignal | undefined): Promise<void> {
    if (this.#waiting.alone) return;
    const channel = this.#client.getChannel();
    const deadline = Date.now() + Math.min(timeoutMs, CONNECTING_MS);
    while (signal?.aborted !== true) {
      const state = channel.getConnectivityState(true);
      // What is wrong with any other state is for the call itself to say.
      if (state !== grpc.connectivityState.IDLE && state !== grpc.connectivityState.CONNECTING) return;
      let changed = (): void => undefined;
      const late = await new Promise<Error | undefined>((resolve) => {
        changed = () => { resolve(undefined); };
        signal?.addEventListener("abort", changed);
        channel.watchConnectivityState(state, deadline, resolve);
      });
      signal?.removeEventListener("abort", changed);
      if (late === undefined) continue;
      throw new UnavailableError("No connection established in time.", { code: grpc.status.UNAVAILABLE, cause: late });
    }
  }

  async #metadata(waitForReady: boolean): Promise<grpc.Metadata> {
    const metadata = new grpc.Metadata({ waitForReady });
    for (const [key, value] of Object.entries(this.#asker)) metadata.set(key, value);
    if (this.#token !== undefined) metadata.set("authorization", `Bearer ${await this.#token()}`);
    return metadata;
  }
}

/** Cancels a stream with the signal, until its status has come. */
function endedBy<S extends grpc.Call & Readable>(signal: AbortSignal, stream: S): S {
  stream.on("error", () => undefined); // it may come after the last read
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
  if (target.startsWith("unix:")) return true;
  const address = target.includes("://") ? (target.split("/").at(-1) ?? "") : target.replace(/^(dns|ipv4|ipv6):/, "");
  const host = /^\[(.*)\](?::\d+)?$/.exec(address)?.[1] ?? (isIP(address) ? address : address.replace(/:\d+$/, ""));
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}
