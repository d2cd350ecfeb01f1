import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { create } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { status as Code } from "@grpc/grpc-js";

import { isLocal } from "../src/connection.js";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../src/generated/google/rpc/error_details_pb.js";
import { Client, TopicPoliciesError, type BatchResult, type ErrorKind } from "../src/index.js";
import { SERVICE_CONFIG } from "../src/service-config.js";
import { TopicPoliciesService, type BatchUpdatePoliciesRequest, type UpdatePolicyRequest, type WatchPoliciesRequest } from "../src/v1/index.js";
import { refusal, Refusal, serve } from "./fake.js";
import { read } from "./sidecar.js";

const UPDATE = { topic: "t/n/x", policies: { maxProducerPerTopic: 1 } };
const ID = /^[0-9a-f]{32}$/;

async function failure(call: Promise<unknown>): Promise<TopicPoliciesError> {
  const error = await call.then(() => undefined, (thrown: unknown) => thrown);
  assert.ok(error instanceof TopicPoliciesError, String(error));
  return error;
}

test("the service config is that of all clients", () => {
  assert.deepEqual(SERVICE_CONFIG, JSON.parse(read("service_config.json")));
});

test("the first program of the README is the example", () => {
  const [, program] = /```ts\n([^]*?)```/.exec(read("typescript", "README.md")) ?? [];
  assert.equal(program, read("typescript", "example", "main.ts").replace("../src/index.js", "topicpolicies"));
});

test("gRPC repeats a change with the same request id", async () => {
  const seen: UpdatePolicyRequest[] = [];
  using service = await serve({
    updatePolicy: (request) => {
      if (seen.push(request) < 3) throw refusal(Code.UNAVAILABLE, "NOT_APPENDED");
      return { requestId: request.requestId };
    },
  });
  using client = new Client(service.address, { actor: "somebody" });
  const { requestId } = await client.updatePolicy(UPDATE);
  assert.match(requestId, ID);
  assert.deepEqual(seen.map((each) => [each.requestId, each.actor]), Array(3).fill([requestId, "somebody"]));
  await client.updatePolicy({ ...UPDATE, requestId: "mine", actor: "another" });
  assert.deepEqual([seen[3]?.requestId, seen[3]?.actor], ["mine", "another"]);
});

test("an error has its kind and its details", async () => {
  using service = await serve({
    updatePolicy: () => {
      throw new Refusal(
        Code.RESOURCE_EXHAUSTED,
        anyPack(ErrorInfoSchema, create(ErrorInfoSchema, { domain: "topicpolicies", reason: "LIMIT_REACHED", metadata: { most: "5" } })),
        anyPack(BadRequestSchema, create(BadRequestSchema, { fieldViolations: [{ field: "topic" }] })),
        anyPack(RetryInfoSchema, create(RetryInfoSchema, { retryDelay: { seconds: 1n, nanos: 500_000_000 } })),
      );
    },
  });
  using client = new Client(service.address);
  const error = await failure(client.updatePolicy(UPDATE));
  assert.deepEqual([error.kind, error.code, error.reason, error.metadata["most"]], ["limit", Code.RESOURCE_EXHAUSTED, "LIMIT_REACHED", "5"]);
  assert.deepEqual([error.violations[0]?.field, error.retryAfterMs, error.message], ["topic", 1500, "It is so."]);
});

test("a change without an answer has an unknown outcome and a request id", async () => {
  const seen: string[] = [];
  using service = await serve({
    updatePolicy: async ({ requestId }) => {
      seen.push(requestId);
      await sleep(60_000, undefined, { ref: false });
      return {};
    },
  });
  using client = new Client(service.address, { timeoutMs: 2000 }); // the request arrives before that, however slow the machine
  const late = await failure(client.updatePolicy(UPDATE));
  const ended = await failure(client.updatePolicy(UPDATE, { timeoutMs: 20_000, signal: AbortSignal.timeout(2000) }));
  for (const [number, each] of [late, ended].entries()) assert.deepEqual([each.kind, each.requestId], ["outcome unknown", seen[number]]);
});

test("a read ends at its time limit, or with the reason of its signal", async () => {
  using service = await serve({ getPolicy: () => new Promise(() => undefined) });
  using client = new Client(service.address, { timeoutMs: 50 });
  assert.equal((await failure(client.getPolicy({ topic: "t/n/x" }))).kind, "timeout" satisfies ErrorKind);
  const signal = AbortSignal.timeout(50);
  await assert.rejects(client.getPolicy({ topic: "t/n/x" }, { signal, timeoutMs: 20_000 }), (error) => error === signal.reason);
  await assert.rejects(client.getPolicy({ topic: "t/n/x" }, { signal }), (error) => error === signal.reason);
});

test("a token is read for every call, and never sent in the clear to another machine", async () => {
  const seen: unknown[] = [];
  using service = await serve({ updatePolicy: (_, metadata) => { seen.push(metadata.get("authorization")); return {}; } });
  let number = 0;
  const token = (): Promise<string> => Promise.resolve(`token ${number += 1}`);
  using client = new Client(service.address, { token });
  await client.updatePolicy(UPDATE);
  await client.updatePolicy(UPDATE);
  assert.deepEqual(seen, [["Bearer token 1"], ["Bearer token 2"]]);
  assert.throws(() => new Client("sidecar.example:6680", { tls: false, token }), /TLS/);
  using refusing = new Client(service.address, { token: () => { throw new Error("no token"); } });
  await assert.rejects(refusing.updatePolicy(UPDATE), /no token/);
});

test("addresses of this machine need no TLS", () => {
  for (const each of ["localhost:1", "127.0.0.1:1", "[::1]:1", "unix:/run/x", "dns:localhost:1", "dns:///localhost:1", "ipv4:127.0.0.1:1"]) {
    assert.ok(isLocal(each), each);
  }
  for (const each of ["sidecar:1", "10.0.0.1:1", "dns:///sidecar:1", "localhost.example:1", "ipv4:10.0.0.1:1", ""]) assert.ok(!isLocal(each), each);
});

test("another address is used if one can't be reached", async () => {
  using gone = await serve({ updatePolicy: () => ({}) });
  using service = await serve({ updatePolicy: () => ({ version: "1" }) });
  gone[Symbol.dispose]();
  using client = new Client(`ipv4:${gone.address},${service.address}`);
  assert.equal((await client.updatePolicy(UPDATE)).version, "1");
});

test("a list reads page after page and ends with an error", async () => {
  using service = await serve({
    listPolicies: ({ pageToken }) => {
      if (pageToken === "") return { documents: [{ topic: "a" }, { topic: "b" }], nextPageToken: "1", resumeToken: "k" };
      if (pageToken === "1") return { documents: [{ topic: "c" }], nextPageToken: "2" };
      throw refusal(Code.INVALID_ARGUMENT, "INVALID_REQUEST");
    },
  });
  using client = new Client(service.address);
  const topics: string[] = [];
  await assert.rejects(async () => {
    for await (const { topic } of client.listPolicies({ namespace: "t/n" })) topics.push(topic);
  }, { kind: "invalid" });
  assert.deepEqual(topics, ["a", "b", "c"]);
  assert.equal((await client.call(TopicPoliciesService.method.listPolicies, { namespace: "t/n" })).resumeToken, "k");
});

test("a batch is sent in parts, and each change has a result", async () => {
  const seen: BatchUpdatePoliciesRequest[] = [];
  using service = await serve({
    batchUpdatePolicies: (request) => {
      if (seen.push(request) === 2) throw new Refusal(Code.INTERNAL);
      return { results: request.changes.map(({ change }) => ({ result: { case: "success", value: { requestId: change.value?.requestId ?? "" } } })) };
    },
  });
  using client = new Client(service.address, { actor: "somebody" });
  const changes = Array.from({ length: 2500 }, (_, number) => ({ change: number % 2 === 0
    ? { case: "update", value: UPDATE } as const
    : { case: "delete", value: { topic: `t/n/${number}` } } as const }));
  const results = await client.batch(changes);
  const idOf = ({ result, error }: BatchResult): string => result?.requestId ?? error?.requestId ?? "";
  assert.deepEqual([results.length, new Set(results.map(idOf)).size, seen.length], [2500, 2500, 3]);
  assert.ok(results.every((each, index) => (index >= 1000 && index < 2000 ? each.error?.kind === "outcome unknown" : each.result !== undefined)));
  assert.equal(seen[0]?.changes[0]?.change.value?.actor, "somebody");
  assert.deepEqual(await client.batch([]), []);
  const unsent = await client.batch(changes.slice(0, 2), { signal: AbortSignal.abort(new Error("enough")) });
  assert.deepEqual(unsent.map(({ error }) => [error?.kind, error?.message]), Array(2).fill(["failed", "Nothing was sent: Error: enough"]));
  const large = { change: { case: "update", value: { topic: "x".repeat(1 << 20) } } } as const;
  await client.batch(Array<typeof large>(5).fill(large));
  assert.equal(seen.length, 6);
});

test("a large batch is repeated too", async () => {
  let attempts = 0;
  using service = await serve({
    batchUpdatePolicies: () => {
      if ((attempts += 1) === 1) throw refusal(Code.UNAVAILABLE, "NOT_APPENDED");
      return { results: [{ result: { case: "success", value: {} } }] };
    },
  });
  using client = new Client(service.address);
  const [only] = await client.batch([{ change: { case: "update", value: { topic: "x".repeat(2 << 20) } } }]);
  assert.deepEqual([only?.error, attempts], [undefined, 2]);
});

test("a watch goes on where it broke, and ends with an error that stays", async () => {
  const seen: WatchPoliciesRequest[] = [];
  const change = { namespace: "t/n", content: { case: "change", value: {} } } as const;
  using service = await serve({
    async *watchPolicies(request) {
      await Promise.resolve();
      const number = seen.push(request);
      if (number === 1) yield { events: [change] };
      else if (number === 2) {
        yield { events: [change, { namespace: "t/n", resumeToken: "k1", content: { case: "bookmark", value: { synced: true } } }] };
        return;
      } else if (number === 3) throw refusal(Code.RESOURCE_EXHAUSTED, "LIMIT_REACHED");
      throw number === 1 ? new Refusal(Code.UNAVAILABLE) : refusal(Code.PERMISSION_DENIED, "PERMISSION_DENIED");
    },
  });
  using client = new Client(service.address);
  const found: unknown[] = [];
  await assert.rejects(async () => {
    for await (const { content } of client.watchPolicies({ namespaces: ["t/n"], resumeTokens: { "t/m": "k0" } })) found.push(content.case);
  }, { kind: "denied" });
  assert.deepEqual(found, ["change", "reset", "change", "bookmark"]);
  const [early, late] = [{ "t/m": "k0" }, { "t/m": "k0", "t/n": "k1" }];
  assert.deepEqual(seen.map((each) => each.resumeTokens), [early, early, late, late]);
});

test("a watch ends with its signal, and if its reader leaves it", async () => {
  const endings: Promise<void>[] = [];
  using service = await serve({
    async *watchPolicies(_, ended) {
      endings.push(ended);
      yield { events: [{ namespace: "t/n" }] };
      await ended;
    },
  });
  using client = new Client(service.address);
  for await (const event of client.watchPolicies({})) {
    assert.equal(event.namespace, "t/n");
    break;
  }
  const ending = new AbortController();
  await assert.rejects(async () => {
    for await (const event of client.watchPolicies({}, { signal: ending.signal })) ending.abort(event.namespace);
  }, (error) => error === ending.signal.reason);
  await Promise.all(endings);
  assert.equal(endings.length, 2);
});
