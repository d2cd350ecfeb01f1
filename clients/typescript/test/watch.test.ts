import assert from "node:assert/strict";
import { after, before, test, type TestContext } from "node:test";

import {
  Client, HistoryKind, InvalidArgumentError, ResumeToken, Scope, WatchMode, type Selection, type Watch, type WatchEvent,
} from "../src/index.js";
import { Sidecar } from "./sidecar.js";
import { only } from "./watching.js";

let sidecar: Sidecar;
let client: Client;
before(async () => {
  sidecar = await Sidecar.start();
  client = new Client(sidecar.address, { actor: "tester" });
});
after(async () => {
  client.close();
  await sidecar.remove();
});

function watching(t: TestContext, selection: Selection, by: Client = client): Watch {
  const watch = by.watch(selection);
  t.after(() => { watch.close(); });
  return watch;
}

async function put(topic: string, maxProducerPerTopic: number, by: Client = client): Promise<string> {
  return (await by.update(topic, { maxProducerPerTopic })).document?.version ?? "";
}

test("a watch delivers a snapshot, then synced, then changes", async (t) => {
  const topic = "persistent://ts/watch/x";
  const first = await put(topic, 1);
  const watch = watching(t, { namespaces: ["ts/watch"] });
  const snapshot = await only(watch, "changed");
  const { document } = snapshot;
  assert.deepEqual([document.topic, document.scope, document.version, snapshot.snapshot], [topic, Scope.LOCAL, first, true]);
  await only(watch, "synced");
  const second = await put(topic, 2);
  const change = await only(watch, "changed");
  assert.deepEqual([change.document.version, change.previousVersion, change.snapshot], [second, first, false]);
  assert.deepEqual([change.document.policies.maxProducerPerTopic, change.origin?.actor], [2, "tester"]);
  await client.delete(topic);
  assert.equal((await only(watch, "deleted")).previousVersion, second);
});

test("a watch delivers the absence of a topic without a document", async (t) => {
  const watch = watching(t, { topics: ["persistent://ts/absent/x"], scopes: [Scope.LOCAL] });
  assert.ok((await only(watch, "deleted")).snapshot);
  await only(watch, "synced");
});

test("a watch resumes across a restart of the service, and misses and repeats nothing", async (t) => {
  const ownSidecar = await Sidecar.start();
  const ownClient = new Client(ownSidecar.address);
  t.after(async () => {
    ownClient.close();
    await ownSidecar.remove();
  });
  const topic = "persistent://ts/restart/x";
  const watch = watching(t, { namespaces: ["ts/restart"], mode: WatchMode.EVERY }, ownClient);
  await only(watch, "synced");
  const versions: string[] = [];
  const received: string[] = [];
  for (let turn = 1; turn <= 3; turn += 1) {
    versions.push(await put(topic, turn, ownClient));
    received.push((await only(watch, "changed")).document.version);
  }
  await ownSidecar.kill();
  const interrupted = await only(watch, "interrupted");
  assert.ok(interrupted.attempt === 1 && interrupted.retryInMs > 0);
  await ownSidecar.start();
  versions.push(await put(topic, 10, ownClient));
  while (received.length < versions.length) {
    const { value } = await watch.next();
    assert.ok(value !== undefined && value.kind !== "reset", "the watch starts over");
    if (value.kind === "changed") {
      assert.ok(!value.snapshot);
      received.push(value.document.version);
    }
  }
  assert.deepEqual(received, versions);
});

test("a watch resumes from a saved token", async (t) => {
  const topic = "persistent://ts/saved/x";
  const first = watching(t, { namespaces: ["ts/saved"] });
  await only(first, "synced");
  await put(topic, 1);
  await only(first, "changed");
  const saved = first.token.toString();
  first.close();
  assert.ok((await first.next()).done);
  const missed = await put(topic, 2);
  const second = watching(t, { namespaces: ["ts/saved"], resume: ResumeToken.parse(saved) });
  const change = await only(second, "changed");
  assert.deepEqual([change.document.version, change.snapshot], [missed, false]);
  await only(second, "synced");
});

test("a token that can't be resumed causes a reset and a snapshot on the same stream", async (t) => {
  const topic = "persistent://ts/over/x";
  await put(topic, 1);
  const resume = new ResumeToken([["ts/over", { log: "another log", positions: ["00000000000000000001"], leftOut: "" }]]);
  const watch = watching(t, { namespaces: ["ts/over"], resume });
  const reset = await only(watch, "reset");
  assert.deepEqual([reset.namespace, reset.reason], ["ts/over", "TOKEN_OUT_OF_RANGE"]);
  assert.ok((await only(watch, "changed")).snapshot);
  await only(watch, "synced");
});

async function all(watch: Watch): Promise<WatchEvent[]> {
  const received: WatchEvent[] = [];
  for await (const event of watch) received.push(event);
  return received;
}

test("every change is delivered from the beginning, with the previous document, and the watch ends when synced", async (t) => {
  const topic = "persistent://ts/every/x";
  const versions = [await put(topic, 1), await put(topic, 2), await put(topic, 3)];
  const watch = watching(t, { topics: [topic], mode: WatchMode.EVERY, fromBeginning: true, endWhenSynced: true, includePrevious: true });
  const changes = (await all(watch)).filter((event) => event.kind === "changed");
  assert.deepEqual(changes.map((each) => [each.document.version, each.previousVersion, each.snapshot]), [
    [versions[0], "0", false], [versions[1], versions[0], false], [versions[2], versions[1], false],
  ]);
  assert.deepEqual(changes.map((each) => each.previous?.policies?.maxProducerPerTopic), [undefined, 1, 2]);
});

test("every event of the history is delivered in the mode ENTRIES", async (t) => {
  const topic = "persistent://ts/entries/x";
  await client.update(topic, { maxProducerPerTopic: 1 }, { actor: "tester", reason: "why not" });
  await client.delete(topic);
  const received = await all(watching(t, { namespaces: ["ts/entries"], mode: WatchMode.ENTRIES, endWhenSynced: true }));
  const entries = received.flatMap((event) => (event.kind === "entry" ? [event.entry] : []));
  assert.deepEqual(entries.slice(0, 2).map((each) => each.kind), [HistoryKind.UPDATE, HistoryKind.DELETE]);
  const { origin, changed } = entries[0] ?? assert.fail();
  assert.deepEqual([origin?.actor, origin?.reason, changed], ["tester", "why not", ["max_producer_per_topic"]]);
});

test("a signal ends a watch with its reason", async () => {
  const ending = new AbortController();
  const why = new Error("seen enough");
  const watch = client.watch({ namespaces: ["ts/signal"], signal: ending.signal });
  await only(watch, "synced");
  const waiting = assert.rejects(only(watch, "changed"), (error) => error === why);
  ending.abort(why);
  await waiting;
  await assert.rejects(client.watch({ namespaces: ["ts/signal"], signal: ending.signal }).next(), (error) => error === why);
});

test("leaving the block of a watch closes it", async () => {
  let used: Watch;
  {
    await using watch = client.watch({ namespaces: ["ts/using"] });
    used = watch;
    await only(watch, "synced");
  }
  assert.ok((await used.next()).done);
});

test("a watch with an invalid selection fails", async (t) => {
  assert.throws(() => client.watch({}), InvalidArgumentError);
  await assert.rejects(watching(t, { namespaces: ["not a namespace"] }).next(), InvalidArgumentError);
});

test("leaving the loop ends the watch", async () => {
  const watch = client.watch({ namespaces: ["ts/leaving"] });
  for await (const event of watch) if (event.kind === "synced") break;
  assert.ok((await watch.next()).done);
});

test("closing a watch ends a pending next", async () => {
  const watch = client.watch({ namespaces: ["ts/closing"] });
  await only(watch, "synced");
  const waiting = watch.next();
  watch.close();
  assert.ok((await waiting).done);
});
