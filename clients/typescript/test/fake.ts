/**
 * A service that answers updates and reads as a test specifies, and records the requests: for cases that the real service can't be made to
 * produce.
 */
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

/** The answer to an attempt, counted from 1; undefined never answers. */
export type Answering = (attempt: number) => UpdatePolicyResponse | Partial<grpc.StatusObject> | undefined;

/** The result of a change, given how many changes arrived before on all streams; an error ends the stream, undefined never answers. */
export type Settling = (change: PolicyChangeRequest, before: number) => PolicyChangeResult["result"] | Partial<grpc.StatusObject> | undefined;

export interface Fake {
  readonly address: string;
  readonly requests: UpdatePolicyRequest[];
  /** The metadata of the changes. */
  readonly metadata: grpc.Metadata[];
  readonly deletions: DeletePolicyRequest[];
  /** The peers that sent updates: one for each connection. */
  readonly peers: Set<string>;
  /** The changes of each batch of each stream. */
  readonly batches: PolicyChangeRequest[][];
  streams: number;
  settling: Settling;
  reads: number;
  readonly readMetadata: grpc.Metadata[];
  /** The trailing metadata of reads that are answered. */
  readTrailing: grpc.Metadata | undefined;
  /** The error of an attempt of a read, counted from 1; undefined: the read succeeds. */
  reading: (attempt: number) => Partial<grpc.StatusObject> | undefined;
  watches: number;
  /** Stops the service before the test ends. */
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
    const result = answering(fake.requests.length);
    if (result === undefined) return;
    if ("code" in result) callback(result);
    else callback(null, result as UpdatePolicyResponse);
  };
  const deletePolicy: grpc.handleUnaryCall<DeletePolicyRequest, DeletePolicyResponse> = (call, callback) => {
    fake.deletions.push(call.request);
    fake.metadata.push(call.metadata);
    const result = answering(fake.deletions.length);
    if (result !== undefined && "code" in result) callback(result);
    else callback(null, create(DeletePolicyResponseSchema));
  };
  const updatePolicies: grpc.handleBidiStreamingCall<UpdatePoliciesRequest, UpdatePoliciesResponse> = (call) => {
    fake.streams += 1;
    call.on("data", ({ changes }: UpdatePoliciesRequest) => {
      const before = fake.batches.flat().length;
      fake.batches.push(changes);
      for (const [index, change] of changes.entries()) {
        const result = fake.settling(change, before + index);
        if (result === undefined) continue;
        if ("case" in result) {
          call.write(create(UpdatePoliciesResponseSchema, { results: [{ sequence: change.sequence, result: result }] }));
          continue;
        }
        call.emit("error", result);
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
  // Sends SYNCED for an empty namespace, and then nothing.
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

/** Repeats as often as a policy may, after short pauses. */
export const QUICK: RetryPolicy = { maxAttempts: 5, initialBackoffMs: 1, maxBackoffMs: 10, multiplier: 2 };

/** Creates a client that is closed when the test ends. */
export function open(t: TestContext, target: string, options: ClientOptions = { retries: QUICK }): Client {
  const client = new Client(target, options);
  t.after(() => { client.close(); });
  return client;
}

/** Returns the error with which a promise fails. */
export async function failureOf(promise: Promise<unknown>): Promise<TopicPoliciesError> {
  const error = await promise.then(() => undefined, (thrown: unknown) => thrown);
  assert.ok(error instanceof TopicPoliciesError, String(error));
  return error;
}

/** Returns an address at which nothing listens. */
export async function unusedAddress(): Promise<string> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  if (address === null || typeof address !== "object") throw new Error("it listens nowhere");
  await new Promise((resolve) => { probe.close(resolve); });
  return `127.0.0.1:${address.port}`;
}

/** Returns the status of an error of the service itself. */
export function serviceStatus(code: grpc.status, reason: string, facts: Record<string, string> = {}): Status {
  const info = anyPack(ErrorInfoSchema, create(ErrorInfoSchema, { domain: "topicpolicies", reason, metadata: facts }));
  return create(StatusSchema, { code, message: "A sentence.", details: [info] });
}

/** Returns the same status in the form in which a call ends with it. */
export function fromTheService(code: grpc.status, reason: string, facts: Record<string, string> = {}): Partial<grpc.StatusObject> {
  const metadata = new grpc.Metadata();
  metadata.set("grpc-status-details-bin", Buffer.from(toBinary(StatusSchema, serviceStatus(code, reason, facts))));
  return { code, details: "A sentence.", metadata };
}

export function answer(values: { version?: string; replayed?: boolean } = {}): UpdatePolicyResponse {
  const { version = "1", replayed = false } = values;
  return create(UpdatePolicyResponseSchema, { document: { topic: "persistent://t/n/x", scope: Scope.LOCAL, version }, replayed });
}
