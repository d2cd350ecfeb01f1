import { once } from "node:events";

import { create, type DescMessage, type DescMethodUnary, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";

import type { Answers, CallLimits, Duplex } from "./connection.js";
import { encoded } from "./encoding.js";
import { fromServiceError } from "./errors.js";
import {
  TopicPoliciesService, UpdatePoliciesRequestSchema, type UpdatePoliciesResponseSchema,
} from "./generated/topicpolicies/v1/service_pb.js";
import type { Line } from "./line.js";
import { whenAborted } from "./signals.js";

type Methods = typeof TopicPoliciesService.method;
type Call<M> = M extends { methodKind: "unary"; input: infer I extends DescMessage; output: infer O extends DescMessage }
  ? (request: MessageInitShape<I>, limits?: CallLimits) => Promise<MessageShape<O>>
  : M extends { methodKind: "server_streaming"; input: infer I extends DescMessage; output: infer O extends DescMessage }
    ? (request: MessageInitShape<I>, options?: { readonly signal?: AbortSignal }) => AsyncIterable<MessageShape<O>>
    : M extends { methodKind: "bidi_streaming"; input: infer I extends DescMessage; output: infer O extends DescMessage }
      ? (requests: AsyncIterable<MessageInitShape<I>>, options?: { readonly signal?: AbortSignal }) => AsyncIterable<MessageShape<O>>
      : never;

/**
 * The generated methods of the service, with the client's connection and metadata. The client does not retry these calls, and stays at one
 * address.
 */
export type Stub = { readonly [Name in keyof Methods]: Call<Methods[Name]> };

type Requested = MessageInitShape<typeof UpdatePoliciesRequestSchema>;
type Updates = Duplex<typeof UpdatePoliciesResponseSchema>;

/** @param timeoutMs the time limit of calls that have none of their own */
export function stubOf(line: Line, timeoutMs: number): Stub {
  const unary = <I extends DescMessage, O extends DescMessage>(method: DescMethodUnary<I, O>) =>
    (request: MessageInitShape<I>, limits: CallLimits = {}): Promise<MessageShape<O>> =>
      line.once(method, create(method.input, request), { timeoutMs: limits.timeoutMs ?? timeoutMs, signal: limits.signal });
  const { watchPolicies, updatePolicies, ...methods } = TopicPoliciesService.method;
  return {
    updatePolicy: unary(methods.updatePolicy),
    deletePolicy: unary(methods.deletePolicy),
    getPolicy: unary(methods.getPolicy),
    getEffectivePolicy: unary(methods.getEffectivePolicy),
    listPolicies: unary(methods.listPolicies),
    listHistory: unary(methods.listHistory),
    getServerInfo: unary(methods.getServerInfo),
    watchPolicies: (request, { signal } = {}) =>
      answers(line, signal, (ending) => {
        return line.serverStream(watchPolicies, create(watchPolicies.input, request), line.routes.address, { signal: ending });
      }),
    updatePolicies: (requests, { signal } = {}) =>
      answers<typeof UpdatePoliciesResponseSchema>(line, signal, async (ending) => {
        const stream: Updates = await line.duplex(updatePolicies, line.routes.address, { signal: ending });
        void write(requests, stream, ending);
        return stream;
      }),
  };
}

/** Yields the responses of a stream, which is cancelled when the reader stops. */
async function* answers<O extends DescMessage>(
  line: Line, signal: AbortSignal | undefined, open: (ending: AbortSignal) => Promise<Answers<O>>,
): AsyncGenerator<MessageShape<O>, void> {
  signal?.throwIfAborted();
  const ending = new AbortController();
  const forget = whenAborted([line.closing, signal], () => { ending.abort(); });
  try {
    const stream = await open(ending.signal);
    yield* stream as AsyncIterable<MessageShape<O>>;
  } catch (error) {
    signal?.throwIfAborted();
    throw fromServiceError(error);
  } finally {
    forget();
    ending.abort();
  }
}

/** Writes the requests until the reader has left the stream. An error of `requests` becomes the error of the responses. */
async function write(requests: AsyncIterable<Requested>, stream: Updates, ending: AbortSignal): Promise<void> {
  try {
    for await (const request of requests) {
      if (ending.aborted) return;
      const taken = stream.write(encoded(UpdatePoliciesRequestSchema, create(UpdatePoliciesRequestSchema, request)));
      if (!taken) await once(stream, "drain", { signal: ending });
    }
    stream.end();
  } catch (error) {
    if (!ending.aborted) stream.destroy(error instanceof Error ? error : new Error(String(error)));
  }
}
