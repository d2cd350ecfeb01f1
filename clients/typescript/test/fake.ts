/** A service that answers updates and reads as a test says, and notes what came: for what a sound service can't be made to do. */
import { createServer } from "node:net";
import { once } from "node:events";
import type { TestContext } from "node:test";

import { create, fromBinary, toBinary, type DescMessage, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import * as grpc from "@grpc/grpc-js";

import { ErrorInfoSchema } from "../src/generated/google/rpc/error_details_pb.js";
import { StatusSchema } from "../src/generated/google/rpc/status_pb.js";
import {
  BookmarkKind, DeletePolicyRequestSchema, DeletePolicyResponseSchema, GetPolicyRequestSchema, GetPolicyResponseSchema, ListHistoryRequestSchema,
  ListHistoryResponseSchema, ListPoliciesRequestSchema, ListPoliciesResponseSchema, UpdatePolicyRequestSchema, UpdatePolicyResponseSchema,
  WatchPoliciesRequestSchema, WatchPoliciesResponseSchema, type DeletePolicyRequest, type DeletePolicyResponse, type UpdatePolicyRequest,
  type UpdatePolicyResponse, type WatchPoliciesRequest, type WatchPoliciesResponse,
} from "../src/v1/index.js";

/** What a test does with an attempt, counted from 1; undefined never answers. */
export type Answering = (attempt: number) => UpdatePolicyResponse | Partial<grpc.StatusObject> | undefined;

export interface Fake {
  readonly address: string;
  readonly requests: UpdatePolicyRequest[];
  /** Of the changes. */
  readonly metadata: grpc.Metadata[];
  readonly deletions: DeletePolicyRequest[];
  /** Where the updates came from: one for each connection. */
  readonly peers: Set<string>;
  reads: number;
  readonly readMetadata: grpc.Metadata[];
  /** How an attempt of a read fails, counted from 1; undefined answers it. */
  reading: (attempt: number) => Partial<grpc.StatusObject> | undefined;
  watches: number;
  /** Ends it before the test does. */
  end(): void;
}

export async function serve(t: TestContext, answering: Answering, credentials = grpc.ServerCredentials.createInsecure()): Promise<Fake> {
  const server = new grpc.Server();
  const fake: Fake & { address: string } = {
    address: "", requests: new Array<UpdatePolicyRequest>(), metadata: new Array<grpc.Metadata>(), deletions: new Array<DeletePolicyRequest>(),
    peers: new Set<string>(), reads: 0, readMetadata: new Array<grpc.Metadata>(), reading: () => undefined, watches: 0,
    end: () => { server.forceShutdown(); },
  };
  const updatePolicy: grpc.handleUnaryCall<UpdatePolicyRequest, UpdatePolicyResponse> = (call, callback) => {
    fake.requests.push(call.request);
    fake.metadata.push(call.metadata);
    fake.peers.add(call.getPeer());
    const said = answering(fake.requests.length);
    if (said === undefined) return;
    if ("code" in said) callback(said);
    else callback(null, said as UpdatePolicyResponse);
  };
  const deletePolicy: grpc.handleUnaryCall<DeletePolicyRequest, DeletePolicyResponse> = (call, callback) => {
    fake.deletions.push(call.request);
    fake.metadata.push(call.metadata);
    const said = answering(fake.deletions.length);
    if (said !== undefined && "code" in said) callback(said);
    else callback(null, create(DeletePolicyResponseSchema));
  };
  const read = <O extends DescMessage>(output: O, values?: MessageInitShape<O>): grpc.handleUnaryCall<unknown, MessageShape<O>> => (call, callback) => {
    fake.reads += 1;
    fake.readMetadata.push(call.metadata);
    const failure = fake.reading(fake.reads);
    if (failure !== undefined) callback(failure);
    else callback(null, create(output, values));
  };
  const reads = {
    getPolicy: read(GetPolicyResponseSchema, { version: "1" }),
    listPolicies: read(ListPoliciesResponseSchema),
    listHistory: read(ListHistoryResponseSchema),
  };
  // Tells of an empty namespace, and then nothing.
  const watchPolicies: grpc.handleServerStreamingCall<WatchPoliciesRequest, WatchPoliciesResponse> = (call) => {
    fake.watches += 1;
    const synced = { namespace: call.request.namespaces[0] ?? "", kind: BookmarkKind.SYNCED, token: { log: "a", positions: [] } };
    call.write(create(WatchPoliciesResponseSchema, { content: { case: "bookmark", value: synced } }));
  };
  const methods = {
    updatePolicy: method("UpdatePolicy", UpdatePolicyRequestSchema, UpdatePolicyResponseSchema),
    deletePolicy: method("DeletePolicy", DeletePolicyRequestSchema, DeletePolicyResponseSchema),
    getPolicy: method("GetPolicy", GetPolicyRequestSchema, GetPolicyResponseSchema),
    listPolicies: method("ListPolicies", ListPoliciesRequestSchema, ListPoliciesResponseSchema),
    listHistory: method("ListHistory", ListHistoryRequestSchema, ListHistoryResponseSchema),
    watchPolicies: method("WatchPolicies", WatchPoliciesRequestSchema, WatchPoliciesResponseSchema, true),
  };
  server.addService(methods, { updatePolicy, deletePolicy, watchPolicies, ...reads });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", credentials, (error, bound) => {
      if (error === null) resolve(bound);
      else reject(error);
    });
  });
  t.after(() => { server.forceShutdown(); });
  fake.address = `127.0.0.1:${port}`;
  return fake;
}

function method<I extends DescMessage, O extends DescMessage>(
  name: string, input: I, output: O, streams = false,
): grpc.MethodDefinition<MessageShape<I>, MessageShape<O>> {
  return {
    path: `/topicpolicies.v1.TopicPoliciesService/${name}`,
    requestStream: false,
    responseStream: streams,
    requestSerialize: (message) => Buffer.from(toBinary(input, message)),
    requestDeserialize: (bytes) => fromBinary(input, bytes),
    responseSerialize: (message) => Buffer.from(toBinary(output, message)),
    responseDeserialize: (bytes) => fromBinary(output, bytes),
  };
}

/** An address at which nobody listens. */
export async function nobody(): Promise<string> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  if (address === null || typeof address !== "object") throw new Error("it listens nowhere");
  await new Promise((resolve) => { probe.close(resolve); });
  return `127.0.0.1:${address.port}`;
}

/** A status as the service itself gives it. */
export function fromTheService(code: grpc.status, reason: string, facts: Record<string, string> = {}): Partial<grpc.StatusObject> {
  const info = anyPack(ErrorInfoSchema, create(ErrorInfoSchema, { domain: "topicpolicies.v1", reason, metadata: facts }));
  const metadata = new grpc.Metadata();
  metadata.set("grpc-status-details-bin", Buffer.from(toBinary(StatusSchema, create(StatusSchema, { code, message: "A sentence.", details: [info] }))));
  return { code, details: "A sentence.", metadata };
}

export function answer(values: Partial<Pick<UpdatePolicyResponse, "version" | "repeated">> = {}): UpdatePolicyResponse {
  return create(UpdatePolicyResponseSchema, values);
}
