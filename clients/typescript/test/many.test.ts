/** Many changes over one stream. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { status as Code } from "@grpc/grpc-js";

import {
  Client, DeleteOutcome, InvalidArgumentError, NO_RETRIES, OutcomeUnknownError, PermissionDeniedError,
  UnavailableError, UpdateOutcome, type Changes, type Deletion, type ManyOptions, type Settled, type Update,
} from "../src/index.js";
import { BATCH_BYTES, MOST_CHANGES } from "../src/pipeline.js";
import { answer, fromTheService, unusedAddress, open, serve, serviceStatus, type Settling } from "./fake.js";
import { Sidecar, until } from "./sidecar.js";

const BROKEN = { code: Code.UNAVAILABLE, details: "not now" };

let sidecar: Sidecar;
before(async () => { sidecar = await Sidecar.start(); });
after(() => sidecar.remove());

/** Returns updates of a number of topics in turn; the field is set to the index of the update. */
function updates(count: number, topics: number, namespace = "t/n"): Update[] {
  return Array.from({ length: count }, (_, maxProducerPerTopic) => {
    return { topic: `${namespace}/x${maxProducerPerTopic % topics}`, policies: { maxProducerPerTopic } };
  });
}

async function all(client: Client, changes: Changes, options?: ManyOptions): Promise<Settled[]> {
  const settled: Settled[] = [];
  for await (const each of client.updateMany(changes, options)) settled.push(each);
  return settled;
}

const refuse = (code: Code, reason: string, facts: Record<string, string> = {}): ReturnType<Settling> =>
  ({ case: "error", value: serviceStatus(code, reason, facts) });
const take: Settling = () => ({ case: "updated", value: answer() });

test("many changes are made, each with its result, and changes of one document are made in order", async (t) => {
  const client = open(t, sidecar.address);
  const wrong: Update = { topic: "ts/bulk/x0", policies: {} };
  const deletion: Deletion = { topic: "ts/bulk/x1", delete: true };
  const changes = [...updates(2000, 10, "ts/bulk"), wrong, deletion];
  const settled = await all(client, changes);
  assert.deepEqual(settled.map((each) => each.index).sort((a, b) => a - b), changes.map((_, index) => index));
  assert.ok(settled.every((each) => each.change === changes[each.index]));
  const failed = settled.filter((each) => each.kind === "failed");
  const refused = failed.map((each) => [each.index, each.error.constructor, each.error.reason]);
  assert.deepEqual(refused, [[2000, InvalidArgumentError, "EMPTY_MASK"]]);
  const deleted = settled.filter((each) => each.kind === "deleted");
  assert.deepEqual(deleted.map((each) => [each.index, each.result.outcome]), [[2001, DeleteOutcome.DELETED]]);
  for (const topic of [0, 2, 9]) {
    assert.equal((await client.get(`ts/bulk/x${topic}`)).policies?.maxProducerPerTopic, 1990 + topic);
    const versions = settled.flatMap((each) => (each.kind === "updated" && each.index % 10 === topic ? [each.result] : []));
    for (const [at, result] of versions.slice(1).entries()) assert.equal(result.previousVersion, versions[at]?.document?.version);
  }
  assert.ok(settled.every((each) => each.kind !== "updated" || each.result.outcome === UpdateOutcome.APPLIED));
});

test("changes at hand go in one batch, bounded in changes and bytes, and no change waits for more", async (t) => {
  const fake = await serve(t, () => undefined);
  const client = open(t, fake.address);
  await all(client, updates(2 * MOST_CHANGES, 10), { maxInFlight: 2 * MOST_CHANGES });
  const sizes = fake.batches.map((batch) => batch.length);
  assert.ok(Math.max(...sizes) > 100 && Math.max(...sizes) <= MOST_CHANGES, sizes.join());
  const seen = fake.batches.length;
  const large = "x".repeat(BATCH_BYTES / 3);
  await all(client, updates(4, 1).map((each) => ({ ...each, policies: { replicationClusters: [large] } })));
  const batches = fake.batches.slice(seen).map((batch) => batch.length);
  assert.ok(batches.length >= 2 && Math.max(...batches) <= 2, batches.join());
  async function* slowly(): AsyncGenerator<Update> {
    for (const each of updates(3, 1)) {
      const before = fake.batches.length;
      yield each;
      await until("the change arrived alone", () => fake.batches.length > before);
    }
  }
  assert.equal((await all(client, slowly())).length, 3);
});

test("maxInFlight bounds the changes that are read and sent while the caller takes no results", async (t) => {
  const fake = await serve(t, () => undefined);
  let given = 0;
  function* counted(): Generator<Update> {
    for (const each of updates(100, 10)) {
      given += 1;
      yield each;
    }
  }
  const settled = open(t, fake.address).updateMany(counted(), { maxInFlight: 8 });
  await settled.next();
  await new Promise((resolve) => { setTimeout(resolve, 50); });
  assert.ok(given <= 10, `${given} changes were read`);
  assert.ok(fake.batches.flat().length <= 8);
  let results = 1;
  for await (const each of settled) results += each.kind === "updated" ? 1 : 0;
  assert.deepEqual([results, given], [100, 100]);
});

test("after a stream breaks, changes without a result are repeated in order with the same request ids", async (t) => {
  const fake = await serve(t, () => undefined);
  fake.settling = (change, before) => (fake.streams === 1 && before >= 3 ? BROKEN : take(change, before));
  const settled = await all(open(t, fake.address), updates(10, 1));
  assert.deepEqual(settled.map((each) => [each.index, each.kind]), Array.from({ length: 10 }, (_, index) => [index, "updated"]));
  assert.equal(fake.streams, 2);
  const ids = new Map<bigint, Set<string>>();
  for (const { sequence, change } of fake.batches.flat()) {
    assert.ok(change.case === "update");
    ids.set(sequence, (ids.get(sequence) ?? new Set()).add(change.value.requestId));
  }
  assert.equal(ids.size, 10);
  assert.ok([...ids.values()].every((each) => each.size === 1 && !each.has("")));
});

test("many changes refused by a follower go to the leader in order, and later changes go there at once", async (t) => {
  const [follower, leader] = [await serve(t, () => undefined), await serve(t, () => undefined)];
  follower.settling = () => refuse(Code.UNAVAILABLE, "NOT_LEADER", { leader: leader.address });
  const client = open(t, follower.address);
  const settled = await all(client, updates(50, 5));
  assert.deepEqual(settled.map((each) => [each.index, each.kind]), Array.from({ length: 50 }, (_, index) => [index, "updated"]));
  assert.deepEqual([follower.streams, leader.streams], [1, 1]);
  await all(client, updates(5, 5));
  assert.deepEqual([follower.streams, leader.streams], [1, 2]);
});

test("changes of namespaces with different leaders each go to their own leader", async (t) => {
  const [one, other] = [await serve(t, () => undefined), await serve(t, () => undefined)];
  one.settling = (change, before) => {
    assert.ok(change.change.case === "update");
    const elsewhere = change.change.value.topic.startsWith("t/o/");
    return elsewhere ? refuse(Code.UNAVAILABLE, "NOT_LEADER", { leader: other.address }) : take(change, before);
  };
  const changes = updates(20, 2).flatMap((each, index) => [each, { ...each, topic: `t/o/x${index % 2}` }]);
  const settled = await all(open(t, one.address), changes);
  assert.ok(settled.length === 40 && settled.every((each) => each.kind === "updated"));
  assert.ok(other.batches.flat().every(({ change }) => change.case === "update" && change.value.topic.startsWith("t/o/")));
  assert.equal(other.batches.flat().length, 20);
});

test("changes refused by a server that is stopping go to the next address without an error", async (t) => {
  const [first, second] = [await serve(t, () => undefined), await serve(t, () => undefined)];
  first.settling = (change, before) => (before < 2 ? take(change, before) : refuse(Code.UNAVAILABLE, "SHUTTING_DOWN"));
  const settled = await all(open(t, `${first.address},${second.address}`), updates(10, 1));
  assert.deepEqual(settled.map((each) => [each.index, each.kind]), Array.from({ length: 10 }, (_, index) => [index, "updated"]));
  assert.equal(second.batches.flat().length, 8);
});

test("many changes fail at their time limit if followers name each other", async (t) => {
  const [one, other] = [await serve(t, () => undefined), await serve(t, () => undefined)];
  one.settling = () => refuse(Code.UNAVAILABLE, "NOT_LEADER", { leader: other.address });
  other.settling = () => refuse(Code.UNAVAILABLE, "NOT_LEADER", { leader: one.address });
  const client = open(t, one.address);
  const limits = Array.from({ length: 24 }, (_, index) => 200 + 20 * index);
  const settled = (await Promise.all(limits.map((timeoutMs) => all(client, updates(1, 1), { timeoutMs })))).flat();
  const errors = settled.map((each) => (each.kind === "failed" ? each.error : undefined));
  const refused = errors.filter((each) => each instanceof UnavailableError && each.reason === "NOT_LEADER");
  const unknown = errors.filter((each) => each instanceof OutcomeUnknownError); // the time limit ended before the last answer arrived
  assert.ok(refused.length > 0);
  assert.equal(refused.length + unknown.length, limits.length);
});

test("a change that fails does not affect the others, and an unknown outcome is reported as such", async (t) => {
  const fake = await serve(t, () => undefined);
  const answers: ReturnType<Settling>[] = [
    refuse(Code.PERMISSION_DENIED, ""), refuse(Code.DEADLINE_EXCEEDED, "OUTCOME_UNKNOWN"), refuse(Code.INTERNAL, "INTERNAL"),
    { case: "updated", value: answer() },
  ];
  fake.settling = (_, before) => answers[before];
  const settled = await all(open(t, fake.address), updates(4, 1));
  assert.deepEqual(settled.map((each) => (each.kind === "failed" ? each.error.constructor : each.kind)), [
    PermissionDeniedError, OutcomeUnknownError, OutcomeUnknownError, "updated",
  ]);
  const [, unknown] = settled;
  assert.ok(unknown?.kind === "failed" && unknown.error instanceof OutcomeUnknownError && unknown.error.requestId === unknown.requestId);
});

test("a result of a kind that this client does not know leaves the outcome unknown, at once", async (t) => {
  const fake = await serve(t, () => undefined);
  fake.settling = (change, before) => (before === 0 ? { case: undefined } : take(change, before));
  const settled = await all(open(t, fake.address), updates(2, 2), { timeoutMs: 2000 });
  const [unknown, updated] = settled.sort((a, b) => a.index - b.index);
  assert.ok(unknown?.kind === "failed" && unknown.error instanceof OutcomeUnknownError, String(unknown?.kind === "failed" && unknown.error));
  assert.deepEqual([unknown.error.requestId, unknown.error.code], [unknown.requestId, Code.UNKNOWN]);
  assert.equal(updated?.kind, "updated");
  assert.equal(fake.batches.flat().length, 2);
});

test("a change that can't be encoded fails alone, and nothing of it is sent", async (t) => {
  const fake = await serve(t, () => undefined);
  const [sound] = updates(1, 1);
  assert.ok(sound !== undefined);
  const unencodable = { ...sound, policies: { maxProducerPerTopic: 2 ** 40 } };
  const huge = { ...sound, policies: { replicationClusters: ["x".repeat(3 << 20)] } };
  const settled = await all(open(t, fake.address), [unencodable, sound, huge]);
  assert.deepEqual(settled.map((each) => each.kind).sort(), ["failed", "failed", "updated"]);
  assert.equal(fake.batches.flat().length, 1);
});

test("after silence of the service, changes in flight have an unknown outcome, and the iteration throws if more were unread", async (t) => {
  const fake = await serve(t, () => undefined);
  fake.settling = () => undefined;
  const results: Settled[] = [];
  const reading = async (): Promise<void> => {
    for await (const each of open(t, fake.address).updateMany(updates(5, 1), { maxInFlight: 2, timeoutMs: 200 })) results.push(each);
  };
  await assert.rejects(reading(), { code: Code.DEADLINE_EXCEEDED });
  assert.deepEqual(results.map((each) => each.kind === "failed" && each.error.constructor), [OutcomeUnknownError, OutcomeUnknownError]);
});

test("many changes without a connection are reported as not made", async (t) => {
  const client = open(t, await unusedAddress());
  const withoutRetries = open(t, await unusedAddress(), { retries: NO_RETRIES });
  for (const [settled] of [await all(client, updates(1, 1), { timeoutMs: 300 }), await all(withoutRetries, updates(1, 1))]) {
    assert.ok(settled?.kind === "failed" && settled.error.constructor === UnavailableError, settled?.kind);
  }
});

test("a permanent failure of the whole stream is not retried", async (t) => {
  const fake = await serve(t, () => undefined);
  fake.settling = () => fromTheService(Code.UNAUTHENTICATED, "");
  const [settled] = await all(open(t, fake.address), updates(1, 1));
  assert.ok(settled?.kind === "failed" && settled.error instanceof PermissionDeniedError);
  assert.equal(fake.streams, 1);
});

test("an error of the iterable of changes is thrown after all changes that it gave have their results", async (t) => {
  const fake = await serve(t, () => undefined);
  const why = new Error("no more");
  function* failing(): Generator<Update> {
    yield* updates(3, 1);
    throw why;
  }
  const results: Settled[] = [];
  const reading = async (): Promise<void> => {
    for await (const each of open(t, fake.address).updateMany(failing())) results.push(each);
  };
  await assert.rejects(reading(), (error) => error === why);
  assert.deepEqual(results.map((each) => each.kind), ["updated", "updated", "updated"]);
});

test("a signal ends many changes with its reason, after the changes in flight have failed", async (t) => {
  const fake = await serve(t, () => undefined);
  fake.settling = () => undefined;
  const [ending, why] = [new AbortController(), new Error("changed my mind")];
  const results: Settled[] = [];
  const reading = async (): Promise<void> => {
    for await (const each of open(t, fake.address).updateMany(updates(3, 1), { signal: ending.signal })) results.push(each);
  };
  const failing = assert.rejects(reading(), (error) => error === why);
  await until("the changes arrived", () => fake.batches.flat().length === 3);
  ending.abort(why);
  await failing;
  assert.deepEqual(results.map((each) => each.kind === "failed" && each.error.constructor), Array(3).fill(OutcomeUnknownError));
  await assert.rejects(all(open(t, fake.address), updates(1, 1), { signal: ending.signal }), (error) => error === why);
});

test("closing the client ends many changes, and leaving the loop ends the reading of changes", async (t) => {
  const fake = await serve(t, () => undefined);
  let left = false;
  async function* endless(): AsyncGenerator<Update> {
    try {
      for (;;) {
        yield* updates(1, 1);
        await new Promise((resolve) => { setTimeout(resolve, 1); });
      }
    } finally {
      left = true;
    }
  }
  for await (const each of open(t, fake.address).updateMany(endless())) if (each.kind === "updated") break;
  await until("the iterable of changes was closed", () => left);
  fake.settling = () => undefined;
  const client = open(t, fake.address);
  const streams = fake.streams;
  const failing = all(client, updates(1, 1));
  await until("the stream is open", () => fake.streams > streams);
  client.close();
  const [settled] = await failing;
  assert.equal(settled?.kind, "failed");
});
