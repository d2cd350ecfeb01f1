import assert from "node:assert/strict";
import { test } from "node:test";

import { Metadata, status as Code } from "@grpc/grpc-js";

import {
  AlreadyExistsError, Client, ConflictError, DEFAULT_RETRIES, FailedPreconditionError, InvalidArgumentError, NO_RETRIES, NotFoundError,
  OutcomeUnknownError, PermissionDeniedError, ResourceExhaustedError, TopicPoliciesError, UnavailableError, type ClientOptions,
} from "../src/index.js";
import { isLocal } from "../src/connection.js";
import { delayMs } from "../src/retries.js";
import { answer, fromTheService, unusedAddress, open, QUICK, serve } from "./fake.js";

const TOPIC = "persistent://t/n/x";

test("an update is repeated with the same request id when the service is unavailable", async (t) => {
  const fake = await serve(t, (attempt) => (attempt < 4 ? { code: Code.UNAVAILABLE, details: "not now" } : answer({ version: "2" })));
  const result = await open(t, fake.address).update(TOPIC, { maxProducerPerTopic: 1 });
  assert.equal(result.document?.version, "2");
  assert.equal(fake.requests.length, 4);
  const ids = new Set(fake.requests.map((request) => request.requestId));
  assert.ok(ids.size === 1 && !ids.has(""));
});

test("a permanent failure is not repeated", async (t) => {
  const kinds: [Code, typeof TopicPoliciesError][] = [
    [Code.INVALID_ARGUMENT, InvalidArgumentError], [Code.ABORTED, ConflictError], [Code.FAILED_PRECONDITION, FailedPreconditionError],
    [Code.RESOURCE_EXHAUSTED, ResourceExhaustedError], [Code.PERMISSION_DENIED, PermissionDeniedError], [Code.UNAUTHENTICATED, PermissionDeniedError],
    [Code.NOT_FOUND, NotFoundError], [Code.ALREADY_EXISTS, AlreadyExistsError],
  ];
  for (const [code, kind] of kinds) {
    const fake = await serve(t, () => fromTheService(code, "A_REASON"));
    await assert.rejects(open(t, fake.address).update(TOPIC, { maxProducerPerTopic: 1 }), (error) => {
      assert.ok(error instanceof TopicPoliciesError);
      assert.deepEqual([error.constructor, error.code, error.reason, error.fromService], [kind, code, "A_REASON", true]);
      return true;
    });
    assert.equal(fake.requests.length, 1);
  }
});

test("without retries nothing is repeated, and a change that the service refuses is reported as not made", async (t) => {
  const fake = await serve(t, () => fromTheService(Code.UNAVAILABLE, "LOG"));
  await assert.rejects(open(t, fake.address, { retries: NO_RETRIES }).update(TOPIC, { maxProducerPerTopic: 1 }), UnavailableError);
  assert.equal(fake.requests.length, 1);
});

test("a change that the service always refuses is reported as not made", async (t) => {
  const fake = await serve(t, () => fromTheService(Code.UNAVAILABLE, "LOG"));
  await assert.rejects(open(t, fake.address).update(TOPIC, { maxProducerPerTopic: 1 }), UnavailableError);
  assert.equal(fake.requests.length, 5);
});

test("a change that was sent and not answered has an unknown outcome and can be repeated", async (t) => {
  const fake = await serve(t, (attempt) => (attempt === 1 ? undefined : answer({ replayed: true })));
  const client = open(t, fake.address, { timeoutMs: 300 });
  const error = await client.update(TOPIC, { maxProducerPerTopic: 1 }).then(() => undefined, (thrown: unknown) => thrown);
  assert.ok(error instanceof OutcomeUnknownError);
  const again = await client.update(TOPIC, { maxProducerPerTopic: 1 }, { requestId: error.requestId });
  assert.ok(again.replayed);
  assert.deepEqual(fake.requests.map((request) => request.requestId), [error.requestId, error.requestId]);
});

test("the outcome is unknown if the service is unavailable after a broken attempt", async (t) => {
  const fake = await serve(t, (attempt) => (attempt === 1 ? { code: Code.UNAVAILABLE, details: "a proxy's own words" } : fromTheService(Code.UNAVAILABLE, "LOG")));
  await assert.rejects(open(t, fake.address).update(TOPIC, { maxProducerPerTopic: 1 }), OutcomeUnknownError);
  assert.equal(fake.requests.length, 5);
});

test("a change without a connection is reported as not made", async (t) => {
  const address = await unusedAddress();
  for (const retries of [DEFAULT_RETRIES, NO_RETRIES]) {
    const client = open(t, address, { timeoutMs: 400, retries });
    await assert.rejects(client.update(TOPIC, { maxProducerPerTopic: 1 }), UnavailableError);
  }
});

test("a signal ends a call with its reason, unless the outcome of a change is unknown", async (t) => {
  const fake = await serve(t, () => undefined);
  const client = open(t, fake.address);
  const why = new Error("changed my mind");
  const signal = AbortSignal.abort(why);
  for (const call of [client.get(TOPIC, { signal }), client.update(TOPIC, {}, { signal })]) {
    await assert.rejects(call, (error) => error === why);
  }
  assert.deepEqual([fake.reads, fake.requests.length], [0, 0]);
  const unconnected = open(t, await unusedAddress());
  await assert.rejects(unconnected.get(TOPIC, { signal: AbortSignal.timeout(100) }), { name: "TimeoutError" });
  await assert.rejects(client.update(TOPIC, { maxProducerPerTopic: 1 }, { signal: AbortSignal.timeout(200) }), OutcomeUnknownError);
});

test("values that a message can't have are an InvalidArgumentError, and nothing is sent", async (t) => {
  const fake = await serve(t, () => answer());
  await assert.rejects(open(t, fake.address).update(TOPIC, { maxProducerPerTopic: 2 ** 40 }), InvalidArgumentError);
  assert.equal(fake.requests.length, 0);
});

test("an error of another domain does not count as the service's own", async (t) => {
  const fake = await serve(t, () => ({ ...fromTheService(Code.ABORTED, "A_REASON"), metadata: new Metadata() }));
  const error = await open(t, fake.address).update(TOPIC, { maxProducerPerTopic: 1 }).then(() => undefined, (thrown: unknown) => thrown);
  assert.ok(error instanceof ConflictError);
  assert.deepEqual([error.fromService, error.reason], [false, ""]);
});

test("the client's actor and reason are sent with every call, and those of a change in its request", async (t) => {
  const fake = await serve(t, () => answer());
  const client = open(t, fake.address, { actor: "retention-bot", reason: "nightly" });
  await client.update(TOPIC, { maxProducerPerTopic: 1 });
  await client.update(TOPIC, { maxProducerPerTopic: 1 }, { actor: "Jürgen", reason: "größer" });
  assert.deepEqual(fake.requests.map(({ actor, reason }) => [actor, reason]), [["", ""], ["Jürgen", "größer"]]);
  for (const each of fake.metadata) {
    assert.deepEqual([each.get("topicpolicies-actor"), each.get("topicpolicies-reason")], [["retention-bot"], ["nightly"]]);
  }
});

test("no mask is sent if none is given", async (t) => {
  const fake = await serve(t, () => answer());
  const client = open(t, fake.address);
  await client.update(TOPIC, { maxProducerPerTopic: 1, retentionPolicies: { retentionTimeInMinutes: 1 } });
  await client.update(TOPIC, { maxProducerPerTopic: 1 }, { mask: ["max_producer_per_topic"] });
  assert.deepEqual(fake.requests.map((request) => request.updateMask?.paths), [undefined, ["max_producer_per_topic"]]);
});

test("the stub has the client's connection and metadata, and repeats nothing", async (t) => {
  const fake = await serve(t, (attempt) => (attempt === 1 ? { code: Code.UNAVAILABLE, details: "not now" } : answer({ version: "7" })));
  const { stub } = open(t, fake.address, { retries: QUICK, actor: "retention-bot", token: () => "secret" });
  await assert.rejects(stub.updatePolicy({ topic: TOPIC }), UnavailableError);
  assert.equal((await stub.updatePolicy({ topic: TOPIC })).document?.version, "7");
  const sent = fake.metadata.map((each) => [each.get("topicpolicies-actor"), each.get("authorization")]);
  assert.deepEqual(sent, Array(2).fill([["retention-bot"], ["Bearer secret"]]));
  for await (const { events } of stub.watchPolicies({ namespaces: ["t/n"] })) {
    assert.deepEqual(events.map((event) => event.content.case), ["bookmark"]);
    break;
  }
  async function* requests() {
    await Promise.resolve();
    yield { changes: [{ sequence: 5n, change: { case: "update" as const, value: { topic: TOPIC } } }] };
  }
  const results: unknown[] = [];
  for await (const { results: batch } of stub.updatePolicies(requests())) results.push(...batch.map((each) => [each.sequence, each.result.case]));
  assert.deepEqual(results, [[5n, "updated"]]);
});

test("every call sends the actor and a fresh token", async (t) => {
  const fake = await serve(t, () => answer());
  let tokens = 0;
  const client = open(t, fake.address, { actor: "retention-bot", token: () => `secret-${(tokens += 1)}` });
  for (let turn = 0; turn < 2; turn += 1) await client.update(TOPIC, { maxProducerPerTopic: 1 });
  assert.deepEqual(fake.metadata.map((each) => each.get("topicpolicies-actor")), [["retention-bot"], ["retention-bot"]]);
  assert.deepEqual(fake.metadata.map((each) => each.get("authorization")), [["Bearer secret-1"], ["Bearer secret-2"]]);
});

test("invalid options are refused when the client is created", () => {
  const invalid: ClientOptions[] = [
    { actor: "größe" }, { actor: " x" }, { actor: "a\nb" }, { retries: { ...DEFAULT_RETRIES, maxAttempts: 6 } },
    { retries: { ...DEFAULT_RETRIES, initialBackoffMs: 0 } }, { retries: { ...DEFAULT_RETRIES, multiplier: NaN } },
  ];
  for (const options of invalid) assert.throws(() => new Client("localhost:1", options), InvalidArgumentError);
  for (const name of ["actor", "reason"]) {
    const malformed = (): Client => new Client("localhost:1", { [name]: "größe" });
    assert.throws(malformed, (error) => error instanceof InvalidArgumentError && error.reason === `MALFORMED_${name.toUpperCase()}`);
  }
  const inTheClear = (): Client => new Client("192.0.2.1:6680", { tls: false, token: () => "secret" });
  assert.throws(inTheClear, (error) => error instanceof InvalidArgumentError && error.reason === "TOKEN_IN_THE_CLEAR");
});

test("TLS is the default for a target on another machine", async (t) => {
  const fake = await serve(t, () => answer());
  await assert.rejects(open(t, fake.address, { tls: true, retries: NO_RETRIES }).update(TOPIC, { maxProducerPerTopic: 1 }), UnavailableError);
  const targets: Record<string, boolean> = {
    "localhost:6680": true, "127.0.0.1:1": true, "[::1]:1": true, "::1": true, "unix:/tmp/x": true, "unix-abstract:x": true, "dns:localhost:1": true, "dns:///localhost:1": true,
    localhost: true, "example:1": false, "10.0.0.1:1": false, "localhost.example:1": false, "127.0.0.1.example:1": false,
  };
  for (const [target, local] of Object.entries(targets)) assert.equal(isLocal(target), local, target);
});

test("pauses grow and stay in the upper half of their limit", () => {
  for (const [attempt, ceiling] of [[1, 100], [2, 200], [7, 5000], [1000, 5000]] as const) {
    assert.equal(delayMs(DEFAULT_RETRIES, attempt, 0), ceiling / 2);
    assert.equal(delayMs(DEFAULT_RETRIES, attempt, 1), ceiling);
  }
});
