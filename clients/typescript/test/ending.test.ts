/** The time limit, the signal and the end of the client each end a call; invalid options and other failures end nothing else. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import {
  CancelledError, Client, DEFAULT_RETRIES, DeadlineExceededError, InvalidArgumentError, NO_RETRIES, OutcomeUnknownError, UnavailableError,
  type Settled,
} from "../src/index.js";
import { answer, failureOf, unusedAddress, open, serve } from "./fake.js";
import { until } from "./sidecar.js";

const TOPIC = "persistent://t/n/x";

function never(): Promise<string> {
  return new Promise(() => undefined);
}

async function all(changes: AsyncIterable<Settled>): Promise<Settled[]> {
  const settled: Settled[] = [];
  for await (const each of changes) settled.push(each);
  return settled;
}

test("the wait for a token ends with the call's time limit, its signal, and the client", async (t) => {
  const fake = await serve(t, () => answer());
  const client = open(t, fake.address, { token: never });
  await assert.rejects(client.get(TOPIC, { timeoutMs: 50 }), UnavailableError);
  await assert.rejects(client.update(TOPIC, { maxProducerPerTopic: 1 }, { timeoutMs: 50 }), UnavailableError);
  await assert.rejects(client.get(TOPIC, { signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
  const watch = client.watch({ namespaces: ["t/n"] });
  const event = watch.next();
  watch.close();
  assert.equal((await event).done, true);
  const cache = client.cache({ namespaces: ["t/n"] });
  await cache.close();
  const under = [client.get(TOPIC), client.update(TOPIC, { maxProducerPerTopic: 1 })].map(failureOf);
  const many = all(client.updateMany([{ topic: TOPIC, policies: { maxProducerPerTopic: 1 } }]));
  await sleep(20);
  client.close();
  for (const error of await Promise.all(under)) assert.ok(error instanceof CancelledError);
  const [settled] = await many;
  assert.ok(settled?.kind === "failed" && settled.error instanceof UnavailableError);
  assert.deepEqual([fake.reads, fake.requests.length, fake.watches, fake.streams], [0, 0, 0, 0]);
});

test("a token that comes late is sent, and the error of a token function is thrown as it is", async (t) => {
  const fake = await serve(t, () => answer());
  await open(t, fake.address, { token: () => sleep(20, "late") }).update(TOPIC, { maxProducerPerTopic: 1 });
  assert.deepEqual(fake.metadata.map((each) => each.get("authorization")), [["Bearer late"]]);
  const failing = open(t, fake.address, { token: () => Promise.reject(new RangeError("no token today")) });
  await assert.rejects(failing.get(TOPIC), RangeError);
});

test("an infinite time limit is no limit, and NaN is refused", async (t) => {
  const fake = await serve(t, () => answer());
  for (const timeoutMs of [Infinity, 1e300, 1e14, 2 ** 31]) {
    const client = open(t, fake.address, { timeoutMs });
    await client.get(TOPIC);
    await client.stub.getPolicy({ topic: TOPIC });
    await client.update(TOPIC, { maxProducerPerTopic: 1 });
    assert.equal((await all(client.updateMany([{ topic: TOPIC, policies: { maxProducerPerTopic: 1 } }])))[0]?.kind, "updated");
  }
  const client = open(t, fake.address);
  await client.get(TOPIC, { timeoutMs: Infinity });
  await assert.rejects(client.get(TOPIC, { timeoutMs: NaN }), InvalidArgumentError);
  assert.throws(() => client.updateMany([], { timeoutMs: NaN }), InvalidArgumentError);
  assert.throws(() => new Client(fake.address, { timeoutMs: NaN }), InvalidArgumentError);
});

test("a time limit that is longer than a timer can wait is kept without using the processor", async (t) => {
  const fake = await serve(t, () => answer());
  fake.settling = () => undefined;
  const client = open(t, fake.address, { retries: NO_RETRIES });
  const many = all(client.updateMany([{ topic: TOPIC, policies: { maxProducerPerTopic: 1 } }], { timeoutMs: 2 ** 31 }));
  await until("the change was sent", () => fake.batches.length === 1);
  const before = process.cpuUsage();
  await sleep(300);
  const used = process.cpuUsage(before);
  assert.ok(used.user + used.system < 150_000, `${used.user + used.system} µs`);
  client.close();
  await many;
});

test("a limit of changes in flight that is not a whole number from 1 is refused", async (t) => {
  const client = open(t, await unusedAddress());
  for (const maxInFlight of [0, -1, NaN, 1.5, Infinity]) {
    assert.throws(() => client.updateMany([], { maxInFlight }), (error) => error instanceof InvalidArgumentError && error.reason === "OUT_OF_BOUNDS");
  }
});

test("an empty request id is replaced by a new one in the service's form", async (t) => {
  const fake = await serve(t, () => answer());
  const client = open(t, fake.address);
  await client.update(TOPIC, { maxProducerPerTopic: 1 }, { requestId: "" });
  await client.update(TOPIC, { maxProducerPerTopic: 1 });
  const ids = fake.requests.map(({ requestId }) => requestId);
  for (const id of ids) assert.match(id, /^[0-9a-f]{32}$/);
  assert.equal(new Set(ids).size, 2);
});

test("calls of a client that is closed before it connects fail as cancelled, since nothing was sent", async (t) => {
  const client = open(t, await unusedAddress());
  const calls = [
    client.get(TOPIC), client.update(TOPIC, { maxProducerPerTopic: 1 }), client.delete(TOPIC),
    client.edit(TOPIC, (policies) => { policies.maxProducerPerTopic = 1; }),
  ].map(failureOf);
  const pausing = open(t, await unusedAddress(), { retries: { ...DEFAULT_RETRIES, initialBackoffMs: 5000 } });
  const many = all(pausing.updateMany([{ topic: TOPIC, policies: { maxProducerPerTopic: 1 } }]));
  await sleep(1000); // the first attempt has failed, and the pause has begun
  client.close();
  pausing.close();
  for (const error of await Promise.all(calls)) assert.ok(error instanceof CancelledError);
  const [settled] = await many;
  assert.ok(settled?.kind === "failed" && settled.error instanceof CancelledError);
});

test("a signal that ends a change for which there never was a connection ends it with its reason", async (t) => {
  const sockets: Socket[] = [];
  const silent = createServer((socket) => { sockets.push(socket); }).listen(0, "127.0.0.1"); // takes connections, and says nothing
  await once(silent, "listening");
  t.after(() => {
    silent.close();
    for (const socket of sockets) socket.destroy();
  });
  const place = silent.address();
  const unready = `127.0.0.1:${typeof place === "object" ? (place?.port ?? 0) : 0}`;
  for (const address of [await unusedAddress(), unready, `${await unusedAddress()},${unready}`]) {
    const client = open(t, address);
    await assert.rejects(client.update(TOPIC, { maxProducerPerTopic: 1 }, { signal: AbortSignal.timeout(200) }), { name: "TimeoutError" });
  }
  const fake = await serve(t, () => undefined);
  const sent = open(t, fake.address).update(TOPIC, { maxProducerPerTopic: 1 }, { signal: AbortSignal.timeout(500) });
  assert.ok((await failureOf(sent)) instanceof OutcomeUnknownError);
});

test("the wait for the token of a stream ends with its time", async (t) => {
  const client = open(t, (await serve(t, () => answer())).address, { timeoutMs: 300, token: never });
  const [settled] = await all(client.updateMany([{ topic: TOPIC, policies: { maxProducerPerTopic: 1 } }]));
  assert.ok(settled?.kind === "failed" && settled.error instanceof UnavailableError);
  const watch = client.watch({ namespaces: ["t/n"], patienceMs: 300 });
  await assert.rejects(watch.next(), UnavailableError);
});

test("a watch of a silent service gives up when its patience is over, and the reader's own time does not count", async (t) => {
  const watch = open(t, (await serve(t, () => answer())).address).watch({ namespaces: ["t/n"], patienceMs: 300 });
  assert.equal((await watch.next()).value?.kind, "synced");
  await sleep(500);
  const began = performance.now();
  await assert.rejects(watch.next(), DeadlineExceededError);
  assert.ok(performance.now() - began > 250);
});

test("an edit whose async function does not end is ended by its signal, its time limit, and the client", async (t) => {
  const fake = await serve(t, () => answer());
  const client = open(t, fake.address);
  await assert.rejects(client.edit(TOPIC, never, { signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
  await assert.rejects(client.edit(TOPIC, never, { timeoutMs: 50 }), DeadlineExceededError);
  const edit = failureOf(client.edit(TOPIC, never));
  await sleep(50);
  client.close();
  assert.ok((await edit) instanceof CancelledError);
  assert.equal(fake.requests.length, 0);
});

test("many calls at the same time, with one signal or none, are not reported as a leak of listeners", async (t) => {
  const warnings: Error[] = [];
  const note = (warning: Error): void => { warnings.push(warning); };
  process.on("warning", note);
  t.after(() => { process.off("warning", note); });
  const client = open(t, await unusedAddress());
  const elsewhere = open(t, `${await unusedAddress()},${await unusedAddress()}`);
  const { signal } = new AbortController();
  const ending = new AbortController();
  const calls = Array.from({ length: 20 }, () => [
    client.get(TOPIC, { signal: ending.signal }), elsewhere.get(TOPIC, { signal: ending.signal }), elsewhere.update(TOPIC, {}),
    all(client.updateMany([{ topic: TOPIC, policies: {} }], { signal })),
  ]).flat();
  await sleep(300);
  ending.abort();
  client.close();
  elsewhere.close();
  await Promise.allSettled(calls);
  assert.deepEqual(warnings, []);
});
