import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { create, equals } from "@bufbuild/protobuf";

import {
  Client, ConflictError, DeleteOutcome, InvalidArgumentError, ListOperation, path, Scope, TopicPoliciesSchema, UpdateOutcome, WatchMode,
  type TopicPolicies,
} from "../src/index.js";
import { SubscriptionType } from "../src/v1/index.js";
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

test("an update changes the masked fields and no others", async () => {
  const topic = "persistent://ts/masks/x";
  const retentionPolicies = { retentionTimeInMinutes: 10, retentionSizeInMb: 100n };
  const first = await client.update(topic, { maxProducerPerTopic: 5, messageTtlInSeconds: 60, retentionPolicies });
  assert.equal(first.outcome, UpdateOutcome.APPLIED);
  const mask = ["max_producer_per_topic", "message_ttl_in_seconds"];
  const second = await client.update(topic, { maxProducerPerTopic: 6 }, { mask, etag: first.version });
  assert.equal(second.previousVersion, first.version);
  const read = await client.get(topic, { atLeast: second.version });
  assert.ok(read.policies && equals(TopicPoliciesSchema, read.policies, create(TopicPoliciesSchema, { maxProducerPerTopic: 6, retentionPolicies })));
  assert.equal(read.version, second.version);
});

test("entries of maps are set and removed one by one", async () => {
  const topic = "persistent://ts/maps/x";
  for (const name of ["my-sub", "a.b", "tick`ed"]) {
    const mask = [path("subscription_policies", name, "dispatch_rate", "dispatch_throttling_rate_in_msg")];
    await client.update(topic, { subscriptionPolicies: { [name]: { dispatchRate: { dispatchThrottlingRateInMsg: 7 } } } }, { mask });
  }
  const result = await client.update(topic, {}, { mask: [path("subscription_policies", "a.b")] });
  const entries = result.policies?.subscriptionPolicies ?? {};
  assert.deepEqual(Object.keys(entries).sort(), ["my-sub", "tick`ed"]);
  for (const entry of Object.values(entries)) {
    assert.deepEqual([entry.dispatchRate?.dispatchThrottlingRateInMsg, entry.dispatchRate?.ratePeriodInSecond], [7, 1]);
  }
});

test("everything that is wrong is said at once, and an update without anything to change is not sent", async () => {
  const mask = ["no_such_field", "replication_clusters.x"];
  await assert.rejects(client.update("persistent://ts/bad/x", {}, { mask }), (error) => {
    assert.ok(error instanceof InvalidArgumentError && error.fromService);
    assert.equal(error.violations.length, 2);
    return true;
  });
  await assert.rejects(client.update("persistent://ts/bad/x", {}), (error) => error instanceof InvalidArgumentError && error.reason === "EMPTY_MASK" && !error.fromService);
});

test("another version than the etag is a conflict", async () => {
  const update = client.update("persistent://ts/etag/x", { maxProducerPerTopic: 1 }, { etag: "no such version" });
  await assert.rejects(update, (error) => error instanceof ConflictError && error.fromService && error.reason !== "");
});

test("a repeated request is applied once", async () => {
  const first = await client.update("persistent://ts/repeat/x", { maxProducerPerTopic: 1 });
  const again = await client.update("persistent://ts/repeat/x", { maxProducerPerTopic: 1 }, { requestId: first.requestId });
  assert.deepEqual([again.repeated, again.version], [true, first.version]);
});

test("options of an update reach the service", async () => {
  const topic = "persistent://ts/options/x";
  const skipped = await client.update(topic, { maxProducerPerTopic: 1 }, { skipIfAbsent: true });
  assert.deepEqual([skipped.outcome, skipped.policies], [UpdateOutcome.SKIPPED, undefined]);
  await client.update(topic, { maxProducerPerTopic: 1 }, { validateOnly: true });
  assert.equal((await client.get(topic)).policies, undefined);
  const types = (operation: ListOperation, subscriptionTypesEnabled: SubscriptionType[]): Promise<{ policies: TopicPolicies | undefined }> =>
    client.update(topic, { subscriptionTypesEnabled }, { listOperations: { subscription_types_enabled: operation } });
  await types(ListOperation.UNION, [SubscriptionType.SHARED, SubscriptionType.FAILOVER]);
  const left = await types(ListOperation.SUBTRACT, [SubscriptionType.SHARED]);
  assert.deepEqual(left.policies?.subscriptionTypesEnabled, [SubscriptionType.FAILOVER]);
});

test("documents are listed page by page and deleted scope by scope", async () => {
  const topics = 101; // one more than a page
  for (let number = 0; number < topics; number += 1) await client.update(`ts/many/t${number}`, { maxProducerPerTopic: 1 });
  const global = await client.update("ts/many/t0", { maxProducerPerTopic: 1 }, { scope: Scope.GLOBAL });
  const count = async (...scopes: Scope[]): Promise<number> => {
    let found = 0;
    for await (const document of client.list("ts/many", { scopes })) found += document.policies === undefined ? 0 : 1;
    return found;
  };
  assert.deepEqual([await count(), await count(Scope.LOCAL)], [topics + 1, topics]);
  const scopes = new Map([[Scope.LOCAL, "wrong"], [Scope.GLOBAL, global.version]]);
  const [local, other] = await client.delete("ts/many/t0", { scopes });
  assert.ok(local?.error instanceof ConflictError);
  assert.deepEqual([other?.error, other?.outcome, other?.previousVersion], [undefined, DeleteOutcome.DELETED, global.version]);
  assert.equal((await client.delete("ts/many/t0"))[0]?.outcome, DeleteOutcome.DELETED);
  assert.equal((await client.delete("ts/many/t0"))[0]?.outcome, DeleteOutcome.ABSENT);
});

test("edits at once are repeated on conflict and lose nothing", async (t) => {
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

test("an edit sends only what differs", async (t) => {
  const topic = "persistent://ts/differences/x";
  const unchanged = await client.edit(topic, () => undefined);
  assert.deepEqual([unchanged.outcome, unchanged.requestId], [UpdateOutcome.UNCHANGED, ""]);
  await assert.rejects(client.edit(topic, () => Promise.reject(new Error("changed my mind"))), /changed my mind/);
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
  assert.equal((await only(watch, "changed")).origin?.updateMask?.paths.length, 2);
  const second = await only(watch, "changed");
  assert.deepEqual(second.origin?.updateMask?.paths, ["subscription_policies.`a.b`.dispatch_rate.dispatch_throttling_rate_in_msg"]);
});

test("an edit that is too late every time is a conflict", async () => {
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
