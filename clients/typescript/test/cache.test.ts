import assert from "node:assert/strict";
import { after, before, test, type TestContext } from "node:test";

import {
  Client, InvalidArgumentError, NamespaceState, Scope, type Change, type Document, type PolicyCache,
} from "../src/index.js";
import { Sidecar, until } from "./sidecar.js";

let sidecar: Sidecar;
let client: Client;
before(async () => {
  sidecar = await Sidecar.start();
  client = new Client(sidecar.address);
});
after(async () => {
  client.close();
  await sidecar.remove();
});

async function caching(t: TestContext, selection: Parameters<Client["cache"]>[0], by: Client = client): Promise<PolicyCache> {
  const cache = by.cache(selection);
  t.after(() => cache.close());
  await cache.synced(AbortSignal.timeout(20_000));
  return cache;
}

function producers(document: Document | undefined): number | undefined {
  return document?.policies?.maxProducerPerTopic;
}

test("a cache has the snapshot and every change", async (t) => {
  const topic = "persistent://ts/cache/x";
  await client.update(topic, { maxProducerPerTopic: 1 });
  const cache = await caching(t, { namespaces: ["ts/cache"] });
  assert.deepEqual([producers(cache.get(topic)), cache.isSynced], [1, true]);
  await client.update("ts/cache/y", { maxProducerPerTopic: 2 }, { scope: Scope.GLOBAL });
  await until("the new document is in the cache", () => cache.documents().length === 2);
  const names = ["persistent://ts/cache/y", "ts/cache/y", "ts/cache/y-partition-3", "ts/cache/y-partition-03", "ts/other/y"];
  assert.deepEqual(names.map((name) => producers(cache.get(name, Scope.GLOBAL))), [2, 2, 2, undefined, undefined]);
  await client.delete(topic);
  await until("the cache has removed the deleted document", () => cache.get(topic) === undefined);
});

test("a listener receives the existing documents and then every change, and one that throws does not disturb the others", async (t) => {
  const topic = "persistent://ts/listener/x";
  await client.update(topic, { maxProducerPerTopic: 1 });
  const cache = await caching(t, { topics: [topic] });
  const warnings: Error[] = [];
  const note = (warning: Error): void => { warnings.push(warning); };
  process.on("warning", note);
  t.after(() => process.off("warning", note));
  cache.listen(() => { throw new Error("a bad listener"); });
  cache.listen(async () => {
    await Promise.resolve();
    throw new Error("a bad promise of a listener");
  });
  const received: (number | undefined)[][] = [];
  const stop = cache.listen((change: Change) => received.push([producers(change.before), producers(change.after)]));
  assert.deepEqual(received, [[undefined, 1]]);
  await client.update(topic, { maxProducerPerTopic: 2 });
  await until("the listener has the change", () => received.length === 2);
  await client.delete(topic);
  await until("the listener has the deletion", () => received.length === 3);
  assert.deepEqual(received.slice(1), [[1, 2], [2, undefined]]);
  stop();
  await client.update(topic, { maxProducerPerTopic: 3 });
  await until("the cache has the change", () => cache.get(topic) !== undefined);
  assert.equal(received.length, 3);
  for (const message of ["a bad listener", "a bad promise of a listener"]) assert.ok(warnings.some((warning) => warning.message === message));
});

test("a listener is not called after another listener has removed it", async (t) => {
  const topic = "persistent://ts/removed/x";
  const cache = await caching(t, { topics: [topic] });
  let calls = 0;
  cache.listen(() => { stop(); });
  const stop = cache.listen(() => { calls += 1; });
  await client.update(topic, { maxProducerPerTopic: 1 });
  await until("the cache has the change", () => cache.get(topic) !== undefined);
  assert.equal(calls, 0);
});

test("a cache serves its documents while the server is down, and catches up afterwards", async (t) => {
  const ownSidecar = await Sidecar.start();
  const ownClient = new Client(ownSidecar.address);
  t.after(async () => {
    ownClient.close();
    await ownSidecar.remove();
  });
  const topic = "persistent://ts/away/x";
  await ownClient.update(topic, { maxProducerPerTopic: 1 });
  const cache = await caching(t, { namespaces: ["ts/away"], bookmarkIntervalMs: 1000 }, ownClient);
  await until("the copy has become older", () => cache.stalenessMs > 600);
  await until("a bookmark has confirmed it", () => cache.stalenessMs < 500);
  await ownSidecar.kill();
  await until("the copy is stale, and its state has the reason", () => cache.stalenessMs > 1500 && cache.state("ts/away")?.problem !== "");
  assert.deepEqual([producers(cache.get(topic)), cache.isSynced], [1, true]);
  await ownSidecar.start();
  await ownClient.update(topic, { maxProducerPerTopic: 2 });
  await until("the cache has caught up", () => producers(cache.get(topic)) === 2 && cache.stalenessMs < 1200);
  assert.equal(cache.state("ts/away")?.problem, "");
});

test("the staleness of a cache is infinite before its first snapshot, and leaving its block closes it", async () => {
  let used: PolicyCache;
  {
    await using cache = client.cache({ namespaces: ["ts/fresh"] });
    used = cache;
    assert.deepEqual([cache.stalenessMs, cache.state("ts/fresh")?.stalenessMs], [Infinity, Infinity]);
    await cache.synced(AbortSignal.timeout(20_000));
    assert.ok(cache.stalenessMs < 20_000);
    assert.equal(cache.state("ts/other"), undefined);
    assert.ok([NamespaceState.UNSPECIFIED, NamespaceState.READY].includes(cache.state("ts/fresh")?.state ?? NamespaceState.FAILED));
  }
  await client.update("ts/fresh/x", { maxProducerPerTopic: 1 });
  assert.equal(used.get("ts/fresh/x"), undefined);
});

test("a cache that can't follow fails with the reason, and closing a cache ends a wait for it", async () => {
  const invalid = client.cache({ namespaces: ["not a namespace"] });
  await assert.rejects(invalid.synced(), InvalidArgumentError);
  assert.ok(invalid.error instanceof InvalidArgumentError);
  const nowhere = new Client("127.0.0.1:1");
  const unsynced = nowhere.cache({ namespaces: ["t/n"] });
  await assert.rejects(unsynced.synced(AbortSignal.timeout(50)), { name: "TimeoutError" });
  const waiting = unsynced.synced();
  await Promise.all([assert.rejects(waiting, /closed/), unsynced.close()]);
  nowhere.close();
});
