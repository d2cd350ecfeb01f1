/** A service that answers updates and reads as a test says, and notes what came: for what a sound service can't be made to do. */
import assert from "node:assert/strict";
import { createServer } from "node:net";
import { once } from "node:events";
import type { TestContext } from "node:test";

import { create, fromBinary, toBinary, type DescMessage, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import * as grpc from "@grpc/grpc-js";

import { ErrorInfoSchema } from "../src/generated/google/rpc/error_details_pb.js";
import { StatusSchema, type Status } from "../src/generated/google/rpc/status_pb.js";
import { Client, TopicPoliciesError, type ClientOptions, type RetryPolicy } from "../src/index.js";
import {
  BookmarkKind, DeletePolicyRequestSchema, DeletePolicyResponseSchema, GetEffectivePolicyRequestSchema, GetEffectivePolicyResponseSchema,
  GetPolicyRequestSchema, GetPolicyResponseSchema, ListHistoryRequestSchema, ListHistoryResponseSchema, ListPoliciesRequestSchema, ListPoliciesResponseSchema, Scope, UpdatePoliciesRequestSchema, UpdatePoliciesResponseSchema,
  UpdatePolicyRequestSchema, UpdatePolicyResponseSchema, WatchPoliciesRequestSchema, WatchPoliciesResponseSchema, type DeletePolicyRequest,
  type DeletePolicyResponse, type PolicyChangeRequest, type PolicyChangeResult, type UpdatePoliciesRequest, type UpdatePoliciesResponse,
  type UpdatePolicyRequest, type UpdatePolicyResponse, type WatchPoliciesRequest, type WatchPoliciesResponse,
} from "../src/v1/index.js";

/** What a test does with an attempt, counted from 1; undefined never answers. */
export type Answering = (attempt: number) => UpdatePolicyResponse | Partial<grpc.StatusObject> | undefined;

/** What a stream of changes does with one, of so many that came before; an error ends the stream, undefined never answers. */
export type Settling = (change: PolicyChangeRequest, before: number) => PolicyChangeResult["result"] | Partial<grpc.StatusObject> | undefined;

export interface Fake {
  readonly address: string;
  readonly requests: UpdatePolicyRequest[];
  /** Of the changes. */
  readonly metadata: grpc.Metadata[];
  readonly deletions: DeletePolicyRequest[];
  /** Where the updates came from: one for each connection. */
  readonly peers: Set<string>;
  /** The changes of each batch of each stream. */
  readonly batches: PolicyChangeRequest[][];
  streams: number;
  settling: Settling;
  reads: number;
  readonly readMetadata: grpc.Metadata[];
  /** The trailing metadata of reads that are answered. */
  readTrailing: grpc.Metadata | undefined;
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
    peers: new Set<string>(), reads: 0, readMetadata: new Array<grpc.Metadata>(), readTrailing: undefined, reading: () => undefined, watches: 0,
    batches: new Array<PolicyChangeRequest[]>(), streams: 0, settling: () => ({ case: "updated", value: answer() }),
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
  const updatePolicies: grpc.handleBidiStreamingCall<UpdatePoliciesRequest, UpdatePoliciesResponse> = (call) => {
    fake.streams += 1;
    call.on("data", ({ changes }: UpdatePoliciesRequest) => {
      const before = fake.batches.flat().length;
      fake.batches.push(changes);
      for (const [index, change] of changes.entries()) {
        const said = fake.settling(change, before + index);
        if (said === undefined) continue;
        if ("case" in said) {
          call.write(create(UpdatePoliciesResponseSchema, { results: [{ sequence: change.sequence, result: said }] }));
          continue;
        }
        call.emit("error", said);
        return;
      }
    });
    call.on("end", () => { call.end(); });
  };
  const read = <O extends DescMessage>(output: O, values?: MessageInitShape<O>): grpc.handleUnaryCall<unknown, MessageShape<O>> => (call, callback) => {
    fake.reads += 1;
    fake.readMetadata.push(call.metadata);
    const failure = fake.reading(fake.reads);
    if (failure !== undefined) callback(failure);
    else callback(null, create(output, values), fake.readTrailing);
  };
  const reads = {
    getPolicy: read(GetPolicyResponseSchema, { documents: [{ topic: "persistent://t/n/x", scope: Scope.LOCAL, version: "1" }] }),
    listPolicies: read(ListPoliciesResponseSchema, { documents: [{ topic: "persistent://t/n/x", scope: Scope.LOCAL, version: "1" }] }),
    getEffectivePolicy: read(GetEffectivePolicyResponseSchema),
    listHistory: read(ListHistoryResponseSchema),
  };
  // Tells of an empty namespace, and then nothing.
  const watchPolicies: grpc.handleServerStreamingCall<WatchPoliciesRequest, WatchPoliciesResponse> = (call) => {
    fake.watches += 1;
    const value = { kind: BookmarkKind.SYNCED, token: { log: "a", positions: [] }, confirmedTime: { seconds: 1n, nanos: 0 } };
    const [namespace = ""] = call.request.namespaces;
    call.write(create(WatchPoliciesResponseSchema, { events: [{ namespace, content: { case: "bookmark", value } }] }));
  };
  const methods = {
    updatePolicy: method("UpdatePolicy", UpdatePolicyRequestSchema, UpdatePolicyResponseSchema),
    deletePolicy: method("DeletePolicy", DeletePolicyRequestSchema, DeletePolicyResponseSchema),
    getPolicy: method("GetPolicy", GetPolicyRequestSchema, GetPolicyResponseSchema),
    getEffectivePolicy: method("GetEffectivePolicy", GetEffectivePolicyRequestSchema, GetEffectivePolicyResponseSchema),
    listPolicies: method("ListPolicies", ListPoliciesRequestSchema, ListPoliciesResponseSchema),
    listHistory: method("ListHistory", ListHistoryRequestSchema, ListHistoryResponseSchema),
    watchPolicies: method("WatchPolicies", WatchPoliciesRequestSchema, WatchPoliciesResponseSchema, { answers: true }),
    updatePolicies: method("UpdatePolicies", UpdatePoliciesRequestSchema, UpdatePoliciesResponseSchema, { requests: true, answers: true }),
  };
  server.addService(methods, { updatePolicy, updatePolicies, deletePolicy, watchPolicies, ...reads });
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
  name: string, input: I, output: O, streams: { requests?: true; answers?: true } = {},
): grpc.MethodDefinition<MessageShape<I>, MessageShape<O>> {
  return {
    path: `/topicpolicies.v1.TopicPoliciesService/${name}`,
    requestStream: streams.requests ?? false,
    responseStream: streams.answers ?? false,
    requestSerialize: (message) => Buffer.from(toBinary(input, message)),
    requestDeserialize: (bytes) => fromBinary(input, bytes),
    responseSerialize: (message) => Buffer.from(toBinary(output, message)),
    responseDeserialize: (bytes) => fromBinary(output, bytes),
  };
}

/** Repeats as often as may be, after short pauses. */
export const QUICK: RetryPolicy = { maxAttempts: 5, initialBackoffMs: 1, maxBackoffMs: 10, multiplier: 2 };

/** A client that is closed with the test. */
export function open(t: TestContext, target: string, options: ClientOptions = { retries: QUICK }): Client {
  const client = new Client(target, options);
  t.after(() => { client.close(); });
  return client;
}

/** What a promise fails with. */
export async function failureOf(promise: Promise<unknown>): Promise<TopicPoliciesError> {
  const error = await promise.then(() => undefined, (thrown: unknown) => thrown);
  assert.ok(error instanceof TopicPoliciesError, String(error));
  return error;
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

/** The status of an error as the service itself gives it. */
export function serviceStatus(code: grpc.status, reason: string, facts: Record<string, string> = {}): Status {
  const info = anyPack(ErrorInfoSchema, create(ErrorInfoSchema, { domain: "topicpolicies", reason, metadata: facts }));
  return create(StatusSchema, { code, message: "A sentence.", details: [info] });
}

/** The same as a call ends with it. */
export function fromTheService(code: grpc.status, reason: string, facts: Record<string, string> = {}): Partial<grpc.StatusObject> {
  const metadata = new grpc.Metadata();
  metadata.set("grpc-status-details-bin", Buffer.from(toBinary(StatusSchema, serviceStatus(code, reason, facts))));
  return { code, details: "A sentence.", metadata };
}

export function answer(values: { version?: string; replayed?: boolean } = {}): UpdatePolicyResponse {
  const { version = "1", replayed = false } = values;
  return create(UpdatePolicyResponseSchema, { document: { topic: "persistent://t/n/x", scope: Scope.LOCAL, version }, replayed });
}
