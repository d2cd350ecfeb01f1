/** A service that answers as a test specifies, for what the real one can't be made to do. */
import { create, fromBinary, toBinary, type DescMessage, type DescMethod, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { anyPack, type Any } from "@bufbuild/protobuf/wkt";
import * as grpc from "@grpc/grpc-js";

import { ErrorInfoSchema } from "../src/generated/google/rpc/error_details_pb.js";
import { StatusSchema } from "../src/generated/google/rpc/status_pb.js";
import { TopicPoliciesService } from "../src/v1/index.js";

/** Thrown by a handler: the status of the call. */
export class Refusal extends Error {
  constructor(readonly code: grpc.status, ...details: Any[]) {
    super("It is so.");
    this.details = details;
  }

  readonly details: Any[];
}

/** A refusal with a reason of the service. */
export function refusal(code: grpc.status, reason: string): Refusal {
  return new Refusal(code, anyPack(ErrorInfoSchema, create(ErrorInfoSchema, { domain: "topicpolicies", reason })));
}

type Input<N extends keyof typeof TopicPoliciesService.method> = MessageShape<(typeof TopicPoliciesService.method)[N]["input"]>;
type Output<N extends keyof typeof TopicPoliciesService.method> = MessageInitShape<(typeof TopicPoliciesService.method)[N]["output"]>;

/** The answers, by method. */
export interface Handlers {
  updatePolicy?: (request: Input<"updatePolicy">, metadata: grpc.Metadata) => Promise<Output<"updatePolicy">> | Output<"updatePolicy">;
  getPolicy?: (request: Input<"getPolicy">) => Promise<Output<"getPolicy">>;
  listPolicies?: (request: Input<"listPolicies">) => Output<"listPolicies">;
  batchUpdatePolicies?: (request: Input<"batchUpdatePolicies">) => Output<"batchUpdatePolicies">;
  watchPolicies?: (request: Input<"watchPolicies">, ended: Promise<void>) => AsyncIterable<Output<"watchPolicies">>;
}

/** Serves the handlers until it is disposed. */
export async function serve(handlers: Handlers): Promise<{ address: string } & Disposable> {
  const server = new grpc.Server();
  const definitions: Record<string, grpc.MethodDefinition<unknown, unknown>> = {};
  const calls: grpc.UntypedServiceImplementation = {};
  for (const name of Object.keys(handlers) as (keyof Handlers)[]) {
    const method: DescMethod = TopicPoliciesService.method[name];
    definitions[name] = definition(method);
    calls[name] = method.methodKind === "unary" ? unary(handlers[name] as Unary) : streaming(handlers[name] as Streaming);
  }
  server.addService(definitions, calls);
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, bound) => {
      if (error === null) resolve(bound);
      else reject(error);
    });
  });
  return { address: `127.0.0.1:${port}`, [Symbol.dispose]: () => { server.forceShutdown(); } };
}

type Unary = (request: unknown, metadata: grpc.Metadata) => unknown;
type Streaming = (request: unknown, ended: Promise<void>) => AsyncIterable<unknown>;

function definition(method: DescMethod): grpc.MethodDefinition<unknown, unknown> {
  const serialize = (schema: DescMessage) => (message: unknown) => Buffer.from(toBinary(schema, create(schema, message as MessageInitShape<DescMessage>)));
  return {
    path: `/${method.parent.typeName}/${method.name}`, requestStream: false, responseStream: method.methodKind === "server_streaming",
    requestSerialize: serialize(method.input), requestDeserialize: (bytes) => fromBinary(method.input, bytes),
    responseSerialize: serialize(method.output), responseDeserialize: (bytes) => fromBinary(method.output, bytes),
  };
}

function unary(handle: Unary): grpc.handleUnaryCall<unknown, unknown> {
  return (call, callback) => {
    const answer = new Promise((resolve) => { resolve(handle(call.request, call.metadata)); });
    answer.then((message) => { callback(null, message); }, (error: unknown) => { callback(status(error)); });
  };
}

function streaming(handle: Streaming): grpc.handleServerStreamingCall<unknown, unknown> {
  return (call) => {
    const ended = new Promise<void>((resolve) => call.once("cancelled", resolve));
    const send = async (): Promise<void> => {
      for await (const message of handle(call.request, ended)) call.write(message);
    };
    send().then(() => { call.end(); }, (error: unknown) => { call.emit("error", status(error)); });
  };
}

function status(error: unknown): Partial<grpc.StatusObject> {
  if (!(error instanceof Refusal)) return { code: grpc.status.UNKNOWN, details: String(error) };
  const metadata = new grpc.Metadata();
  const { code, message, details } = error;
  metadata.set("grpc-status-details-bin", Buffer.from(toBinary(StatusSchema, create(StatusSchema, { code, message, details }))));
  return { code, details: message, metadata };
}
