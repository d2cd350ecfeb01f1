import assert from "node:assert/strict";
import { after, before, test, type TestContext } from "node:test";

import { create } from "@bufbuild/protobuf";
import { status as Code } from "@grpc/grpc-js";

import {
  Client, DEFAULT_RETRIES, InvalidArgumentError, OutOfRangeError, ResumeToken, Scope, UnavailableError, WatchMode,
  type Selection, type Watch,
} from "../src/index.js";
import { NamespaceState, WatchPoliciesResponseSchema } from "../src/generated/topicpolicies/v1/service_pb.js";
import { WatchSession } from "../src/session.js";
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
  return (await by.update(topic, { maxProducerPerTopic })).version;
}

test("a watch tells a snapshot, then synced, then changes", async (t) => {
  const topic = "persistent://ts/watch/x";
  const first = await put(topic, 1);
  const watch = watching(t, { namespaces: ["ts/watch"] });
  const snapshot = await only(watch, "changed");
  assert.deepEqual([snapshot.topic, snapshot.scope, snapshot.version, snapshot.snapshot], [topic, Scope.LOCAL, first, true]);
  await only(watch, "synced");
  const second = await put(topic, 2);
  const change = await only(watch, "changed");
  assert.deepEqual([change.version, change.previousVersion, change.snapshot], [second, first, false]);
  assert.deepEqual([change.policies.maxProducerPerTopic, change.origin?.actor], [2, "tester"]);
  await client.delete(topic);
  assert.equal((await only(watch, "deleted")).previousVersion, second);
});

test("an absent topic is said to be absent", async (t) => {
  const watch = watching(t, { topics: ["persistent://ts/absent/x"], scopes: [Scope.LOCAL] });
  assert.ok((await only(watch, "deleted")).snapshot);
  await only(watch, "synced");
});

test("a watch resumes across a restart of the service, and misses and repeats nothing", async (t) => {
  const own = await Sidecar.start();
  const its = new Client(own.address);
  t.after(async () => {
    its.close();
    await own.remove();
  });
  const topic = "persistent://ts/restart/x";
  const watch = watching(t, { namespaces: ["ts/restart"], mode: WatchMode.EVERY }, its);
  await only(watch, "synced");
  const versions: string[] = [];
  const told: string[] = [];
  for (let turn = 1; turn <= 3; turn += 1) {
    versions.push(await put(topic, turn, its));
    told.push((await only(watch, "changed")).version);
  }
  await own.kill();
  const interrupted = await only(watch, "interrupted");
  assert.ok(interrupted.attempt === 1 && interrupted.retryInMs > 0);
  await own.start();
  versions.push(await put(topic, 10, its));
  while (told.length < versions.length) {
    const { value } = await watch.next();
    assert.ok(value !== undefined && value.kind !== "restarted", "it began again");
    if (value.kind === "changed") {
      assert.ok(!value.snapshot);
      told.push(value.version);
    }
  }
  assert.deepEqual(told, versions);
});

test("a watch goes on from a saved token", async (t) => {
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
  assert.deepEqual([change.version, change.snapshot], [missed, false]);
  await only(second, "synced");
});

test("a token that can't be resumed starts over with a snapshot", async (t) => {
  const topic = "persistent://ts/over/x";
  await put(topic, 1);
  const resume = new ResumeToken([["ts/over", { log: "another log", positions: ["00000000000000000001"] }]]);
  const watch = watching(t, { namespaces: ["ts/over"], resume });
  assert.ok((await only(watch, "interrupted")).error instanceof OutOfRangeError);
  assert.equal((await only(watch, "restarted")).namespace, "ts/over");
  assert.ok((await only(watch, "changed")).snapshot);
  await only(watch, "synced");
});

test("a watch that makes no sense fails", async (t) => {
  assert.throws(() => client.watch({}), InvalidArgumentError);
  await assert.rejects(watching(t, { namespaces: ["not a namespace"] }).next(), InvalidArgumentError);
});

test("leaving the loop ends the watch", async () => {
  const watch = client.watch({ namespaces: ["ts/leaving"] });
  for await (const event of watch) if (event.kind === "synced") break;
  assert.ok((await watch.next()).done);
});

test("closing a watch wakes whoever waits for it", async () => {
  const watch = client.watch({ namespaces: ["ts/closing"] });
  await only(watch, "synced");
  const waiting = watch.next();
  watch.close();
  assert.ok((await waiting).done);
});

test("a watch without patience left gives up", () => {
  const session = new WatchSession({ namespaces: ["t/n"], patienceMs: 1000 }, DEFAULT_RETRIES);
  session.connect(0);
  const lost = new UnavailableError("lost", { code: Code.UNAVAILABLE });
  assert.equal(session.broke(lost, 500, 0).attempt, 1);
  assert.throws(() => session.broke(lost, 990, 0), UnavailableError);
});

test("a failed namespace says why", () => {
  const session = new WatchSession({ namespaces: ["t/n"] }, DEFAULT_RETRIES);
  session.connect(0);
  const told = (state: NamespaceState, reason: string) => {
    const value = { namespace: "t/n", state, message: "so it is", reason };
    return session.received(create(WatchPoliciesResponseSchema, { content: { case: "status", value } }), 0);
  };
  const common = { namespace: "t/n", message: "so it is" };
  assert.deepEqual(told(NamespaceState.FAILED, "WHY"), { kind: "unavailable", ...common, reason: "WHY" });
  assert.deepEqual(told(NamespaceState.LOADING, ""), { kind: "loading", ...common });
});

test("tokens are read back, and nothing else is", () => {
  const token = new ResumeToken([["t/n", { log: "log", positions: ["1", ""] }], ["t/m", { log: "log", positions: [] }]]);
  const text = '{"namespaces":{"t/m":{"log":"log","positions":[]},"t/n":{"log":"log","positions":["1",""]}}}';
  assert.equal(token.toString(), text);
  assert.equal(ResumeToken.parse(text).toString(), text);
  for (const wrong of ["", "x", "{}", "[]", '{"namespaces":[]}', '{"namespaces":{"t/n":{}}}', '{"namespaces":{"t/n":{"log":1,"positions":[]}}}']) {
    assert.throws(() => ResumeToken.parse(wrong), InvalidArgumentError, wrong);
  }
});
