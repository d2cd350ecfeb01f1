import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { status as Code } from "@grpc/grpc-js";

import {
  CancelledError, Client, ConflictError, DEFAULT_RETRIES, FailedPreconditionError, InvalidArgumentError, NO_RETRIES, NotFoundError,
  OutcomeUnknownError, PermissionDeniedError, ResourceExhaustedError, TopicPoliciesError, UnavailableError, type ClientOptions, type RetryPolicy,
} from "../src/index.js";
import { isLocal } from "../src/connection.js";
import { delayMs } from "../src/retries.js";
import { answer, fromTheService, nobody, serve } from "./fake.js";

const QUICK: RetryPolicy = { maxAttempts: 5, initialBackoffMs: 1, maxBackoffMs: 10, multiplier: 2 };
const TOPIC = "persistent://t/n/x";

function open(t: TestContext, target: string, options: ClientOptions = { retries: QUICK }): Client {
  const client = new Client(target, options);
  t.after(() => { client.close(); });
  return client;
}

test("an update is repeated with the same request id when the service is unavailable", async (t) => {
  const fake = await serve(t, (attempt) => (attempt < 4 ? { code: Code.UNAVAILABLE, details: "not now" } : answer({ version: "2" })));
  const result = await open(t, fake.address).update(TOPIC, { maxProducerPerTopic: 1 });
  assert.equal(result.version, "2");
  assert.equal(fake.requests.length, 4);
  const ids = new Set(fake.requests.map((request) => request.requestId));
  assert.ok(ids.size === 1 && !ids.has(""));
});

test("what can't help to repeat is not repeated", async (t) => {
  const kinds: [Code, typeof TopicPoliciesError][] = [
    [Code.INVALID_ARGUMENT, InvalidArgumentError], [Code.ABORTED, ConflictError], [Code.FAILED_PRECONDITION, FailedPreconditionError],
    [Code.RESOURCE_EXHAUSTED, ResourceExhaustedError], [Code.PERMISSION_DENIED, PermissionDeniedError], [Code.UNAUTHENTICATED, PermissionDeniedError],
    [Code.NOT_FOUND, NotFoundError],
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

test("without retries nothing is repeated, and the service's word that nothing was done counts", async (t) => {
  const fake = await serve(t, () => fromTheService(Code.UNAVAILABLE, "LOG"));
  await assert.rejects(open(t, fake.address, { retries: NO_RETRIES }).update(TOPIC, { maxProducerPerTopic: 1 }), UnavailableError);
  assert.equal(fake.requests.length, 1);
});

test("a service that always refuses leaves nothing unknown", async (t) => {
  const fake = await serve(t, () => fromTheService(Code.UNAVAILABLE, "LOG"));
  await assert.rejects(open(t, fake.address).update(TOPIC, { maxProducerPerTopic: 1 }), UnavailableError);
  assert.equal(fake.requests.length, 5);
});

test("the outcome of a change that was sent and not answered is unknown, and a repeat is possible", async (t) => {
  const fake = await serve(t, (attempt) => (attempt === 1 ? undefined : answer({ repeated: true })));
  const client = open(t, fake.address, { timeoutMs: 300 });
  const error = await client.update(TOPIC, { maxProducerPerTopic: 1 }).then(() => undefined, (thrown: unknown) => thrown);
  assert.ok(error instanceof OutcomeUnknownError);
  const again = await client.update(TOPIC, { maxProducerPerTopic: 1 }, { requestId: error.requestId });
  assert.ok(again.repeated);
  assert.deepEqual(fake.requests.map((request) => request.requestId), [error.requestId, error.requestId]);
});

test("an unavailable service after broken attempts leaves the outcome unknown", async (t) => {
  const fake = await serve(t, (attempt) => (attempt === 1 ? { code: Code.UNAVAILABLE, details: "a proxy's own words" } : fromTheService(Code.UNAVAILABLE, "LOG")));
  await assert.rejects(open(t, fake.address).update(TOPIC, { maxProducerPerTopic: 1 }), OutcomeUnknownError);
  assert.equal(fake.requests.length, 5);
});

test("without a connection a change was certainly not made", async (t) => {
  const address = await nobody();
  for (const retries of [DEFAULT_RETRIES, NO_RETRIES]) {
    const client = open(t, address, { timeoutMs: 400, retries });
    await assert.rejects(client.update(TOPIC, { maxProducerPerTopic: 1 }), UnavailableError);
  }
});

test("a signal ends a call", async (t) => {
  const fake = await serve(t, () => undefined);
  const client = open(t, fake.address);
  await assert.rejects(client.get(TOPIC, { signal: AbortSignal.abort() }), CancelledError);
  await assert.rejects(client.update(TOPIC, { maxProducerPerTopic: 1 }, { signal: AbortSignal.timeout(200) }), OutcomeUnknownError);
});

test("the actor and a fresh token go with every call", async (t) => {
  const fake = await serve(t, () => answer());
  let tokens = 0;
  const client = open(t, fake.address, { actor: "retention-bot", token: () => `secret-${(tokens += 1)}` });
  for (let turn = 0; turn < 2; turn += 1) await client.update(TOPIC, { maxProducerPerTopic: 1 });
  assert.deepEqual(fake.metadata.map((each) => each.get("topicpolicies-actor")), [["retention-bot"], ["retention-bot"]]);
  assert.deepEqual(fake.metadata.map((each) => each.get("authorization")), [["Bearer secret-1"], ["Bearer secret-2"]]);
});

test("what makes no sense is refused at once", () => {
  const senseless: ClientOptions[] = [
    { actor: "größe" }, { actor: " x" }, { actor: "a\nb" }, { retries: { ...DEFAULT_RETRIES, maxAttempts: 6 } },
    { retries: { ...DEFAULT_RETRIES, initialBackoffMs: 0 } }, { retries: { ...DEFAULT_RETRIES, multiplier: NaN } },
  ];
  for (const options of senseless) assert.throws(() => new Client("localhost:1", options), InvalidArgumentError);
  const inTheClear = (): Client => new Client("192.0.2.1:6680", { tls: false, token: () => "secret" });
  assert.throws(inTheClear, (error) => error instanceof InvalidArgumentError && error.reason === "TOKEN_IN_THE_CLEAR");
});

test("TLS is what a target on another machine gets", async (t) => {
  const fake = await serve(t, () => answer());
  await assert.rejects(open(t, fake.address, { tls: true, retries: NO_RETRIES }).update(TOPIC, { maxProducerPerTopic: 1 }), UnavailableError);
  const targets: Record<string, boolean> = {
    "localhost:6680": true, "127.0.0.1:1": true, "[::1]:1": true, "::1": true, "unix:/tmp/x": true, "dns:localhost:1": true, "dns:///localhost:1": true,
    localhost: true, "example:1": false, "10.0.0.1:1": false, "localhost.example:1": false, "127.0.0.1.example:1": false,
  };
  for (const [target, local] of Object.entries(targets)) assert.equal(isLocal(target), local, target);
});

test("pauses grow and keep in the upper half of their ceiling", () => {
  for (const [attempt, ceiling] of [[1, 100], [2, 200], [7, 5000], [1000, 5000]] as const) {
    assert.equal(delayMs(DEFAULT_RETRIES, attempt, 0), ceiling / 2);
    assert.equal(delayMs(DEFAULT_RETRIES, attempt, 1), ceiling);
  }
});
