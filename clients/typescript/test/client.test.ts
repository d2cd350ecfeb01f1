import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { create, equals } from "@bufbuild/protobuf";

import {
  AlreadyExistsError, Client, ConflictError, DeleteOutcome, HistoryOrder, InvalidArgumentError, ListOperation, LogKind, path, Scope,
  ServerFeature, TopicPoliciesSchema, UpdateOutcome, WatchMode, WriterMode, type HistoryEntry, type HistoryOptions, type MaskPath,
  type UpdateResult,
} from "../src/index.js";
import { SubscriptionType } from "../src/v1/index.js";
import { Sidecar } from "./sidecar.js";
import { only } from "./watching.js";

function versionOf(result: UpdateResult): string {
  return result.document?.version ?? assert.fail();
}

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

test("an update changes the masked fields and no others", async () => {
  const topic = "persistent://ts/masks/x";
  const retentionPolicies = { retentionTimeInMinutes: 10, retentionSizeInMb: 100n };
  const first = await client.update(topic, { maxProducerPerTopic: 5, messageTtlInSeconds: 60, retentionPolicies });
  assert.equal(first.outcome, UpdateOutcome.APPLIED);
  const version = versionOf(first);
  const mask: MaskPath[] = ["max_producer_per_topic", "message_ttl_in_seconds"];
  const second = await client.update(topic, { maxProducerPerTopic: 6 }, { mask, etag: version, includePrevious: true });
  assert.deepEqual([second.previousVersion, second.previous?.policies?.maxProducerPerTopic, first.previous], [version, 5, undefined]);
  const read = await client.get(topic, { atLeastVersion: versionOf(second) });
  assert.ok(read.policies && equals(TopicPoliciesSchema, read.policies, create(TopicPoliciesSchema, { maxProducerPerTopic: 6, retentionPolicies })));
  assert.equal(read.version, versionOf(second));
});

test("map entries are set and removed one by one", async () => {
  const topic = "persistent://ts/maps/x";
  for (const name of ["my-sub", "a.b", "tick`ed"]) {
    const mask = [path("subscription_policies", name, "dispatch_rate", "dispatch_throttling_rate_in_msg")];
    await client.update(topic, { subscriptionPolicies: { [name]: { dispatchRate: { dispatchThrottlingRateInMsg: 7 } } } }, { mask });
  }
  const result = await client.update(topic, {}, { mask: [path("subscription_policies", "a.b")] });
  const entries = result.document?.policies?.subscriptionPolicies ?? {};
  assert.deepEqual(Object.keys(entries).sort(), ["my-sub", "tick`ed"]);
  for (const entry of Object.values(entries)) {
    assert.deepEqual([entry.dispatchRate?.dispatchThrottlingRateInMsg, entry.dispatchRate?.ratePeriodInSecond], [7, 1]);
  }
});

test("all mistakes of a request are reported at once, and an update without anything to change is refused", async () => {
  const mask = ["no_such_field", "replication_clusters.x"] as string[] as MaskPath[];
  await assert.rejects(client.update("persistent://ts/bad/x", {}, { mask }), (error) => {
    assert.ok(error instanceof InvalidArgumentError && error.fromService);
    assert.equal(error.violations.length, 2);
    return true;
  });
  await assert.rejects(client.update("persistent://ts/bad/x", {}), { name: "InvalidArgumentError", reason: "EMPTY_MASK", fromService: true });
});

test("an etag of another version is a conflict", async () => {
  const update = client.update("persistent://ts/etag/x", { maxProducerPerTopic: 1 }, { etag: "99999999999999999999" });
  await assert.rejects(update, (error) => error instanceof ConflictError && error.fromService && error.reason === "ETAG_MISMATCH");
});

test("a repeated request is applied once", async () => {
  const first = await client.update("persistent://ts/repeat/x", { maxProducerPerTopic: 1 });
  const again = await client.update("persistent://ts/repeat/x", { maxProducerPerTopic: 1 }, { requestId: first.requestId });
  assert.deepEqual([again.replayed, versionOf(again)], [true, versionOf(first)]);
});

test("the answer to a repeat has the version even if a later change has replaced the document", async () => {
  const topic = "persistent://ts/replaced/x";
  const updated = await client.update(topic, { maxProducerPerTopic: 1 });
  const deleted = await client.delete(topic);
  await client.update(topic, { maxProducerPerTopic: 2 });
  const again = await client.update(topic, { maxProducerPerTopic: 1 }, { requestId: updated.requestId });
  assert.deepEqual([again.replayed, again.document, again.version], [true, undefined, versionOf(updated)]);
  const repeated = await client.delete(topic, { requestId: deleted.requestId });
  assert.deepEqual([repeated.replayed, repeated.version], [true, deleted.document?.version]);
  const unchanged = await client.edit(topic, () => undefined);
  assert.deepEqual([updated.version, unchanged.version], [versionOf(updated), versionOf(unchanged)]);
});

test("options of an update reach the service", async () => {
  const topic = "persistent://ts/options/x";
  const skipped = await client.update(topic, { maxProducerPerTopic: 1 }, { skipIfAbsent: true });
  assert.deepEqual([skipped.outcome, skipped.document?.policies], [UpdateOutcome.SKIPPED, undefined]);
  const would = await client.update(topic, { maxProducerPerTopic: 1 }, { validateOnly: true });
  assert.deepEqual([would.outcome, would.document?.policies?.maxProducerPerTopic], [UpdateOutcome.WOULD_APPLY, 1]);
  assert.equal((await client.get(topic)).policies, undefined);
  const types = (operation: ListOperation, subscriptionTypesEnabled: SubscriptionType[]): Promise<UpdateResult> =>
    client.update(topic, { subscriptionTypesEnabled }, { listOperations: { subscription_types_enabled: operation } });
  await types(ListOperation.UNION, [SubscriptionType.SHARED, SubscriptionType.FAILOVER]);
  await assert.rejects(client.update(topic, { maxProducerPerTopic: 1 }, { mustNotExist: true }), AlreadyExistsError);
  const left = await types(ListOperation.SUBTRACT, [SubscriptionType.SHARED]);
  assert.deepEqual(left.document?.policies?.subscriptionTypesEnabled, [SubscriptionType.FAILOVER]);
});

test("documents are listed page by page, with a token to watch from, and deleted scope by scope", async (t) => {
  const topics = 101; // one more than a page
  const changes = Array.from({ length: topics }, (_, number) => ({ topic: `ts/many/t${number}`, policies: { maxProducerPerTopic: 1 } }));
  for await (const each of client.updateMany(changes)) assert.equal(each.kind, "updated");
  const global = versionOf(await client.update("ts/many/t0", { maxProducerPerTopic: 1 }, { scope: Scope.GLOBAL }));
  const count = async (...scopes: Scope[]): Promise<number> => {
    let found = 0;
    for await (const document of client.list("ts/many", { scopes })) found += document.policies === undefined ? 0 : 1;
    return found;
  };
  assert.deepEqual([await count(), await count(Scope.LOCAL)], [topics + 1, topics]);
  const pages = client.list("ts/many", { pageSize: 7 });
  await pages.next();
  const { token } = pages;
  assert.ok(token !== undefined);
  const watch = client.watch({ namespaces: ["ts/many"], resume: token });
  t.after(() => { watch.close(); });
  await only(watch, "synced");
  await assert.rejects(client.delete("ts/many/t0", { scope: Scope.GLOBAL, etag: "99999999999999999999" }), ConflictError);
  assert.equal((await client.delete("ts/many/t0", { scope: Scope.GLOBAL, validateOnly: true })).outcome, DeleteOutcome.WOULD_DELETE);
  const deletion = { scope: Scope.GLOBAL, etag: global, includePrevious: true };
  const deleted = await client.delete("ts/many/t0", deletion);
  assert.deepEqual([deleted.outcome, deleted.previousVersion, deleted.document?.policies], [DeleteOutcome.DELETED, global, undefined]);
  assert.equal(deleted.previous?.policies?.maxProducerPerTopic, 1);
  assert.equal((await only(watch, "deleted")).previousVersion, global);
  assert.equal((await client.delete("ts/many/t0", { ...deletion, requestId: deleted.requestId })).replayed, true);
  assert.equal((await client.delete("ts/many/t0", { scope: Scope.GLOBAL })).outcome, DeleteOutcome.ABSENT);
  assert.equal((await client.delete("ts/many/t0")).outcome, DeleteOutcome.DELETED);
});

test("documents are read as of a time or version, and both scopes in one call", async () => {
  const topic = "persistent://ts/then/x";
  const first = versionOf(await client.update(topic, { maxProducerPerTopic: 1 }));
  const between = (await entriesOf(topic))[0]?.time ?? assert.fail();
  await new Promise((resolve) => { setTimeout(resolve, 20); });
  await client.update(topic, { maxProducerPerTopic: 2 });
  await client.update(topic, { maxProducerPerTopic: 3 }, { scope: Scope.GLOBAL });
  const { local, global } = await client.getBoth(topic);
  assert.deepEqual([local, global].map((each) => each.policies?.maxProducerPerTopic), [2, 3]);
  assert.equal((await client.get(topic, { asOfVersion: first })).policies?.maxProducerPerTopic, 1);
  const then = await client.getBoth(topic, { asOfTime: new Date(between.getTime() + 10) });
  assert.deepEqual([then.local.policies?.maxProducerPerTopic, then.global.policies], [1, undefined]);
  await assert.rejects(client.get(topic, { asOfVersion: first, atLeastVersion: first }), { reason: "CONTRADICTION" });
});

async function entriesOf(topic: string, options: HistoryOptions = {}): Promise<HistoryEntry[]> {
  const entries: HistoryEntry[] = [];
  for await (const entry of client.history({ topic }, options)) entries.push(entry);
  return entries;
}

test("the history is read page by page, in either order, and by actor", async () => {
  const topic = "persistent://ts/history/x";
  for (let turn = 1; turn <= 5; turn += 1) await client.update(topic, { maxProducerPerTopic: turn }, { actor: turn === 3 ? "auditor" : "others" });
  const values = (entries: HistoryEntry[]): unknown[] => entries.map((entry) => entry.document?.policies?.maxProducerPerTopic);
  assert.deepEqual(values(await entriesOf(topic, { pageSize: 2 })), [5, 4, 3, 2, 1]);
  assert.deepEqual(values(await entriesOf(topic, { order: HistoryOrder.OLDEST_FIRST })), [1, 2, 3, 4, 5]);
  assert.deepEqual(values(await entriesOf(topic, { actor: "auditor" })), [3]);
  assert.deepEqual(values(await entriesOf(topic, { actor: "" })), []);
  const pages = client.history({ namespace: "ts/history" });
  await pages.next();
  assert.deepEqual([pages.gaps, pages.following], [[], true]);
});

test("serverInfo has the version, the kind of log and the limits of the server", async () => {
  const { log, features, limits, writerMode } = await client.serverInfo();
  assert.deepEqual([log, writerMode], [LogKind.EMBEDDED, WriterMode.SOLE]);
  assert.ok(features.includes(ServerFeature.HISTORY));
  assert.ok(limits.messageBytes > 65_536 && limits.updateTimeoutMs > 0 && limits.changesPerStream > 0);
});

test("effective policies are refused by a server that does not know the cluster", async () => {
  await assert.rejects(client.effective("ts/effective/x"), { reason: "LEVELS_UNKNOWN" });
});

test("concurrent edits are repeated on conflict and lose no change", async (t) => {
  const topic = "persistent://ts/edits/x";
  const [editors, edits] = [4, 15];
  let runs = 0;
  const editor = async (): Promise<void> => {
    const own = new Client(sidecar.address);
    for (let turn = 0; turn < edits; turn += 1) {
      await own.edit(topic, (policies) => {
        runs += 1;
        policies.maxProducerPerTopic = (policies.maxProducerPerTopic ?? 0) + 1;
      });
    }
    own.close();
  };
  await Promise.all(Array.from({ length: editors }, editor));
  assert.equal((await client.get(topic)).policies?.maxProducerPerTopic, editors * edits);
  assert.ok(runs > editors * edits, "there were no conflicts, so this showed nothing");
  t.diagnostic(`${runs - editors * edits} conflicts`);
});

test("an edit that changes nothing has the previous document if that is requested", async () => {
  const topic = "persistent://ts/unchanged/x";
  const update = { includePrevious: true };
  const { version } = await client.update(topic, { maxProducerPerTopic: 1 }, update);
  const answered = await client.update(topic, { maxProducerPerTopic: 1 }, update);
  const edited = await client.edit(topic, () => undefined, update);
  assert.deepEqual([answered.previous?.version, edited.previous?.version], [version, version]);
  assert.deepEqual([edited.outcome, edited.previous?.policies], [answered.outcome, answered.previous?.policies]);
  assert.equal((await client.edit(topic, () => undefined)).previous, undefined);
});

test("an edit sends only what differs", async (t) => {
  const topic = "persistent://ts/differences/x";
  const unchanged = await client.edit(topic, () => undefined);
  assert.deepEqual([unchanged.outcome, unchanged.requestId], [UpdateOutcome.UNCHANGED, ""]);
  await assert.rejects(client.edit(topic, () => Promise.reject(new Error("changed my mind"))), /changed my mind/);
  await assert.rejects(client.edit(topic, (policies) => ({ ...policies, maxProducerPerTopic: 9 })), TypeError);
  const watch = client.watch({ topics: [topic], scopes: [Scope.LOCAL], mode: WatchMode.EVERY });
  t.after(() => { watch.close(); });
  await only(watch, "deleted");
  await only(watch, "synced");
  await client.edit(topic, (policies) => {
    policies.maxProducerPerTopic = 1;
    policies.subscriptionPolicies["a.b"] = create(TopicPoliciesSchema, {
      subscriptionPolicies: { x: { dispatchRate: { dispatchThrottlingRateInMsg: 2 } } },
    }).subscriptionPolicies["x"] ?? assert.fail();
  });
  await client.edit(topic, async (policies) => {
    await Promise.resolve();
    const rate = policies.subscriptionPolicies["a.b"]?.dispatchRate ?? assert.fail();
    rate.dispatchThrottlingRateInMsg = 3;
  });
  assert.equal((await only(watch, "changed")).origin?.updateMask?.length, 2);
  const second = await only(watch, "changed");
  assert.deepEqual(second.origin?.updateMask, ["subscription_policies.`a.b`.dispatch_rate.dispatch_throttling_rate_in_msg"]);
});

test("an edit fails with a conflict if another writer is faster every time", async () => {
  const topic = "persistent://ts/late/x";
  let runs = 0;
  const edit = client.edit(topic, async (policies) => {
    runs += 1;
    policies.maxConsumerPerTopic = 1;
    await client.update(topic, { maxProducerPerTopic: runs });
  });
  await assert.rejects(edit, ConflictError);
  assert.equal(runs, 16);
});
