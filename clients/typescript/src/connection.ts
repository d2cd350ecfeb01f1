import { isIP } from "node:net";

import { create, fromBinary, toBinary, type DescMessage, type DescMethodServerStreaming, type DescMethodUnary, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import * as grpc from "@grpc/grpc-js";

import { converted } from "./errors.js";
import { SERVICE_CONFIG } from "./service-config.js";

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

/** The options of a client. */
export interface ClientOptions {
  /** The actor of changes that name none. It is kept in the log with each change. */
  readonly actor?: string;
  /** How long a call may take, repeats included, in milliseconds. The default is 30,000. Watches have no limit. */
  readonly timeoutMs?: number;
  /** True or a `Tls` for TLS, false for none. By default, TLS is used unless the target is on this machine. */
  readonly tls?: boolean | Tls;
  /** Returns the bearer token. It is called for every call, so the token may change. It is never sent without TLS to another machine. */
  readonly token?: () => string | Promise<string>;
  /** gRPC interceptors for every call: for metadata of your own, such as a trace's, or for telemetry. */
  readonly interceptors?: readonly grpc.Interceptor[];
  /** Further channel options of grpc-js. They override the client's own. */
  readonly channelOptions?: grpc.ChannelOptions;
}

/** The limits of one call. */
export interface CallOptions {
  /** How long the call may take, repeats included, in milliseconds; by default the client's `timeoutMs`. */
  readonly timeoutMs?: number;
  /** Ends the call, with the signal's reason. If a change may have happened all the same, its outcome is unknown. */
  readonly signal?: AbortSignal;
}

/** The channel of a client, which the first call opens. */
export class Connection {
  readonly #client: grpc.Client;
  readonly #options: ClientOptions;

  constructor(target: string, options: ClientOptions) {
    const local = target.split(",").every(isLocal);
    const tls = options.tls ?? !local;
    if (options.token !== undefined && tls === false && !local) {
      throw new TypeError("A token is not sent to another machine without TLS.");
    }
    this.#options = options;
    const { ca, certificate, key, serverName } = typeof tls === "boolean" ? {} : tls;
    const credentials = tls === false
      ? grpc.credentials.createInsecure()
      : grpc.credentials.createSsl(ca ?? null, key ?? null, certificate ?? null);
    this.#client = new grpc.Client(target, credentials, {
      "grpc.service_config": JSON.stringify(SERVICE_CONFIG),
      "grpc.service_config_disable_resolution": 1, // of DNS
      "grpc.per_rpc_retry_buffer_size": 8 << 20, // a larger request is not repeated: a batch is smaller
      "grpc.keepalive_time_ms": 30_000, // detects a connection that died silently
      "grpc.keepalive_timeout_ms": 10_000,
      "grpc.initial_reconnect_backoff_ms": 100,
      "grpc.max_reconnect_backoff_ms": 5000,
      "grpc.max_receive_message_length": 64 << 20, // effective policies can be larger than 4 MiB
      ...(local ? { "grpc.enable_http_proxy": 0 } : {}), // an `http_proxy` of the environment is another machine
      ...(options.interceptors === undefined ? {} : { interceptors: [...options.interceptors] }),
      ...(serverName === undefined ? {} : { "grpc.ssl_target_name_override": serverName }),
      ...options.channelOptions,
    });
  }

  close(): void {
    this.#client.close();
  }

  /**
   * Makes one call.
   *
   * @param requestId the id of the change; undefined if the call is none
   */
  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>, request: MessageInitShape<I>, { timeoutMs, signal }: CallOptions, requestId?: string,
  ): Promise<MessageShape<O>> {
    const bytes = encoded(method.input, request);
    const metadata = await this.#metadata();
    signal?.throwIfAborted();
    const deadline = Date.now() + (timeoutMs ?? this.#options.timeoutMs ?? 30_000);
    return new Promise((resolve, reject) => {
      const call = this.#client.makeUnaryRequest(
        pathOf(method), asIs, (answer) => fromBinary(method.output, answer), bytes, metadata, { deadline },
        (error, answer) => {
          signal?.removeEventListener("abort", cancel);
          if (answer !== undefined) resolve(answer);
          else if (signal?.aborted === true && requestId === undefined) reject(signal.reason as Error);
          else reject(converted(error, requestId));
        },
      );
      const cancel = (): void => { call.cancel(); };
      signal?.addEventListener("abort", cancel, { once: true });
    });
  }

  /** Opens a stream and yields its messages. It is cancelled by the signal, or when the reader leaves it. */
  async *stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>, request: MessageInitShape<I>, signal: AbortSignal | undefined,
  ): AsyncGenerator<MessageShape<O>, void> {
    const bytes = encoded(method.input, request);
    const metadata = await this.#metadata();
    signal?.throwIfAborted();
    const stream = this.#client.makeServerStreamRequest(pathOf(method), asIs, (answer) => fromBinary(method.output, answer), bytes, metadata);
    stream.on("error", () => undefined); // one may come after the last read
    const cancel = (): void => { stream.cancel(); };
    signal?.addEventListener("abort", cancel, { once: true });
    try {
      yield* stream as AsyncIterable<MessageShape<O>>;
    } catch (error) {
      signal?.throwIfAborted();
      throw converted(error);
    } finally {
      signal?.removeEventListener("abort", cancel);
      stream.cancel();
    }
  }

  async #metadata(): Promise<grpc.Metadata> {
    const metadata = new grpc.Metadata();
    const token = await this.#options.token?.();
    if (token !== undefined) metadata.set("authorization", `Bearer ${token}`);
    return metadata;
  }
}

function encoded<D extends DescMessage>(schema: D, message: MessageInitShape<D>): Buffer {
  return Buffer.from(toBinary(schema, create(schema, message)));
}

function asIs(request: Buffer): Buffer {
  return request;
}

function pathOf(method: DescMethodUnary | DescMethodServerStreaming): string {
  return `/${method.parent.typeName}/${method.name}`;
}

/** Whether an address is on this machine: a loopback address, `localhost` or a Unix socket. */
export function isLocal(address: string): boolean {
  if (address.startsWith("unix:")) return true;
  const plain = address.replace(/^\w+:(\/\/[^/]*\/|(?=[[\w.]+(:|\])))/, "");
  const host = /^\[(.*)\](?::\d+)?$/.exec(plain)?.[1] ?? plain.replace(/:\d+$/, "");
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}
