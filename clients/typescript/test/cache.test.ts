import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, type Change } from "../src/index.js";
import { Scope } from "../src/v1/index.js";
import { Sidecar, until } from "./sidecar.js";

test("a cache follows through a restart of the server, and keeps its documents when it is closed", async (t) => {
  const sidecar = await Sidecar.start();
  t.after(() => sidecar.remove());
  using client = new Client(sidecar.address);
  const set = (maxProducerPerTopic: number) => client.updatePolicy({ topic: "ts/cache/x", policies: { maxProducerPerTopic } });
  await set(1);
  await using cache = client.cache({ topics: ["ts/cache/x"] });
  await cache.synced(AbortSignal.timeout(20_000));
  const value = (): number | undefined => cache.get("ts/cache/x-partition-3")?.policies?.maxProducerPerTopic;
  assert.deepEqual([value(), cache.list().length, cache.ageMs < 60_000], [1, 1, true]);
  const changes: Change[] = [];
  const stop = cache.listen((change) => { changes.push(change); });
  assert.deepEqual(
    [changes[0]?.topic, changes[0]?.scope, changes[0]?.before, changes.length], ["persistent://ts/cache/x", Scope.LOCAL, undefined, 1],
  );
  await sidecar.kill();
  assert.equal(value(), 1);
  await sidecar.start();
  await set(2);
  await until("the listener is called", () => changes.length > 1);
  assert.deepEqual([changes[1]?.before, changes[1]?.after].map((each) => each?.policies?.maxProducerPerTopic), [1, 2]);
  assert.equal(value(), 2);
  stop();
  await client.deletePolicy({ topic: "ts/cache/x" });
  await until("the document is gone", () => cache.get("ts/cache/x") === undefined);
  assert.equal(changes.length, 2);
  await cache.close();
  await cache.done;
});

test("a cache ends with an error that stays", async (t) => {
  const sidecar = await Sidecar.start();
  t.after(() => sidecar.remove());
  using client = new Client(sidecar.address);
  await using cache = client.cache({ namespaces: ["no namespace"] });
  await assert.rejects(cache.synced(), { kind: "invalid" });
  await assert.rejects(cache.done, { kind: "invalid" });
  assert.deepEqual([cache.ageMs, cache.list()], [Infinity, []]);
  await using late = client.cache({ namespaces: ["ts/never"] });
  await assert.rejects(late.synced(AbortSignal.abort("enough")), (error) => error === "enough");
});
