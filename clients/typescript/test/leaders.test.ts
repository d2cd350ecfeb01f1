/** Calls to sidecars of which one, the leader, writes a namespace, and the others, its followers, name it. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { status as Code, type StatusObject } from "@grpc/grpc-js";

import { DEFAULT_RETRIES, FailedPreconditionError, NO_RETRIES, UnavailableError } from "../src/index.js";
import { MOST_HOPS } from "../src/attempts.js";
import { answer, failureOf, fromTheService, unusedAddress, open, QUICK, serve, type Answering, type Fake } from "./fake.js";
import { only } from "./watching.js";

const TOPIC = "persistent://t/n/x";
const ONE = { maxProducerPerTopic: 1 };

/** Returns the error of a follower; `leader` is empty if the follower does not know the leader. */
function refused(leader = ""): Partial<StatusObject> {
  return fromTheService(Code.UNAVAILABLE, "NOT_LEADER", leader === "" ? {} : { leader });
}

const leading: Answering = () => answer({ version: "2" });

function following(leader: { readonly address: string }): Answering {
  return () => refused(leader.address);
}

/** Returns how many updates each service received. Checks that all of them have the same request id. */
function updateCounts(...fakes: Fake[]): number[] {
  const ids = new Set(fakes.flatMap((fake) => fake.requests.map((request) => request.requestId)));
  assert.ok(ids.size === 1 && !ids.has(""), `request ids: ${[...ids].join(", ")}`);
  return fakes.map((fake) => fake.requests.length);
}

test("a change refused by a follower goes to the leader, and later changes go there at once over one connection", async (t) => {
  const leader = await serve(t, leading);
  const follower = await serve(t, following(leader));
  const client = open(t, follower.address, { actor: "retention-bot", token: () => "secret" });
  assert.equal((await client.update(TOPIC, ONE)).document?.version, "2");
  assert.deepEqual(updateCounts(follower, leader), [1, 1]);
  for (let turn = 0; turn < 4; turn += 1) await client.update(TOPIC, ONE);
  assert.deepEqual([follower.requests.length, leader.requests.length, leader.peers.size], [1, 5, 1]);
  for (const sent of leader.metadata) {
    assert.deepEqual([sent.get("topicpolicies-actor"), sent.get("authorization")], [["retention-bot"], ["Bearer secret"]]);
  }
});

test("a deletion refused by a follower goes to the leader with the same request id", async (t) => {
  const leader = await serve(t, leading);
  const follower = await serve(t, following(leader));
  await open(t, follower.address).delete(TOPIC);
  assert.deepEqual([follower.deletions.length, leader.deletions.length], [1, 1]);
  assert.equal(follower.deletions[0]?.requestId, leader.deletions[0]?.requestId);
});

test("reads, dry runs and watches stay at the follower", async (t) => {
  const leader = await serve(t, leading);
  const follower = await serve(t, (attempt) => (attempt === 1 ? refused(leader.address) : answer()));
  const client = open(t, follower.address);
  await client.update(TOPIC, ONE);
  assert.deepEqual(updateCounts(follower, leader), [1, 1]);
  await client.update(TOPIC, ONE, { validateOnly: true });
  await client.get(TOPIC);
  const watch = client.watch({ namespaces: ["t/n"] });
  await only(watch, "synced");
  watch.close();
  assert.deepEqual([follower.requests.length, follower.reads, follower.watches], [2, 1, 1]);
  assert.deepEqual([leader.requests.length, leader.reads, leader.watches], [1, 0, 0]);
});

test("a leader that changes twice is followed with one request id", async (t) => {
  const last = await serve(t, leading);
  const second = await serve(t, following(last));
  const first = await serve(t, following(second));
  const follower = await serve(t, following(first));
  assert.equal((await open(t, follower.address).update(TOPIC, ONE)).document?.version, "2");
  assert.deepEqual(updateCounts(follower, first, second, last), [1, 1, 1, 1]);
});

test("a change fails with NOT_LEADER after the maximum of hops if followers name each other", async (t) => {
  const named = { address: "" };
  const one = await serve(t, following(named));
  const other = await serve(t, following(one));
  named.address = other.address;
  const error = await failureOf(open(t, other.address).update(TOPIC, ONE));
  assert.deepEqual([error.constructor, error.reason], [UnavailableError, "NOT_LEADER"]);
  const [here = 0, there = 0] = updateCounts(one, other);
  assert.ok(here > 0 && here + there === MOST_HOPS + 1, `the servers received ${here} and ${there} updates`);
});

test("the time limit of a call bounds its hops between servers too", async (t) => {
  const named = { address: "" };
  const one = await serve(t, following(named));
  const other = await serve(t, following(one));
  named.address = other.address;
  const growing = { ...QUICK, initialBackoffMs: 50, maxBackoffMs: 60_000, multiplier: 1000 }; // the second pause is longer than the call
  const error = await failureOf(open(t, other.address, { retries: growing, timeoutMs: 5000 }).update(TOPIC, ONE));
  assert.deepEqual([error.constructor, error.reason], [UnavailableError, "NOT_LEADER"]);
  assert.deepEqual(updateCounts(one, other), [1, 2]);
});

test("an unreachable leader is forgotten, and the follower is called again", async (t) => {
  const leader = await serve(t, leading);
  const unreachable = await unusedAddress();
  const follower = await serve(t, (attempt) => refused(attempt < 3 ? unreachable : leader.address)); // the follower has not noticed yet
  await open(t, follower.address).update(TOPIC, ONE);
  assert.deepEqual(updateCounts(follower, leader), [3, 1]);
});

test("a change whose leader stays unreachable is reported as not made", async (t) => {
  const follower = await serve(t, following({ address: await unusedAddress() }));
  const error = await failureOf(open(t, follower.address, { retries: QUICK, timeoutMs: 1000 }).update(TOPIC, ONE));
  assert.equal(error.constructor, UnavailableError);
  assert.ok((updateCounts(follower)[0] ?? 0) >= 2);
});

test("a leader that hangs is abandoned, and its successor gets the same request id", async (t) => {
  const [hanging, successor] = [await serve(t, () => undefined), await serve(t, leading)];
  const follower = await serve(t, (attempt) => refused((attempt === 1 ? hanging : successor).address));
  await open(t, follower.address, { retries: { ...DEFAULT_RETRIES, attemptTimeoutMs: 1000 } }).update(TOPIC, ONE);
  const [, stuck = 0, after] = updateCounts(follower, hanging, successor);
  assert.ok(stuck > 0 && after === 1);
});

test("a change of unknown outcome is repeated, and its result comes from the next leader", async (t) => {
  const successor = await serve(t, () => answer({ replayed: true }));
  const former = await serve(t, (attempt) => {
    return attempt === 1 ? fromTheService(Code.DEADLINE_EXCEEDED, "OUTCOME_UNKNOWN") : refused(successor.address);
  });
  assert.ok((await open(t, former.address).update(TOPIC, ONE)).replayed);
  assert.deepEqual(updateCounts(former, successor), [2, 1]);
});

test("a change whose refusal names no leader is repeated until there is one", async (t) => {
  const follower = await serve(t, (attempt) => (attempt <= 10 ? refused() : answer()));
  await open(t, follower.address).update(TOPIC, ONE);
  assert.deepEqual(updateCounts(follower), [11]);
});

test("changes whose refusal names no leader go to the next address, but reads stay", async (t) => {
  const [first, second] = [await serve(t, () => refused()), await serve(t, leading)];
  const client = open(t, `${first.address}, ${second.address}`);
  await client.update(TOPIC, ONE);
  assert.deepEqual(updateCounts(first, second), [1, 1]);
  await client.update(TOPIC, ONE);
  await client.get(TOPIC);
  assert.deepEqual([first.requests.length, second.requests.length, first.reads, second.reads], [1, 2, 1, 0]);
});

test("the next address is used when one is unreachable", async (t) => {
  const last = await serve(t, leading);
  const client = open(t, [await unusedAddress(), await unusedAddress(), last.address].join(","));
  await client.get(TOPIC);
  await client.update(TOPIC, ONE);
  assert.deepEqual([last.reads, last.requests.length], [1, 1]);
});

test("a change is reported as not made if none of several addresses is reachable", async (t) => {
  const client = open(t, `${await unusedAddress()},${await unusedAddress()}`, { retries: QUICK, timeoutMs: 500 });
  assert.equal((await failureOf(client.update(TOPIC, ONE))).constructor, UnavailableError);
});

test("a watch moves to the next address when its server is lost", async (t) => {
  const [first, second] = [await serve(t, leading), await serve(t, leading)];
  const watch = open(t, `${first.address},${second.address}`).watch({ namespaces: ["t/n"] });
  await only(watch, "synced");
  first.end();
  await only(watch, "interrupted");
  await only(watch, "synced");
  assert.deepEqual([first.watches, second.watches], [1, 1]);
});

test("without retries the error names the leader, and only the next call goes there", async (t) => {
  const leader = await serve(t, leading);
  const follower = await serve(t, following(leader));
  const client = open(t, follower.address, { retries: NO_RETRIES });
  const error = await failureOf(client.update(TOPIC, ONE));
  assert.deepEqual([error.metadata["leader"], leader.requests.length], [leader.address, 0]);
  await client.update(TOPIC, ONE);
  assert.deepEqual([follower.requests.length, leader.requests.length], [1, 1]);
});

test("a token is not sent in the clear to a leader on another machine, and the next change starts at the follower again", async (t) => {
  const follower = await serve(t, following({ address: "192.0.2.1:6680" }));
  let tokens = 0;
  const client = open(t, follower.address, { retries: QUICK, token: () => `secret-${(tokens += 1)}` });
  for (const turn of [1, 2]) {
    const error = await failureOf(client.update(TOPIC, ONE));
    assert.deepEqual([error.constructor, error.reason], [FailedPreconditionError, "UNUSABLE_ADDRESS"]);
    assert.deepEqual([tokens, follower.requests.length], [turn, turn]);
  }
});

test("closing the client ends a call that waits for a leader", async (t) => {
  const follower = await serve(t, () => refused());
  const client = open(t, follower.address, { retries: { ...DEFAULT_RETRIES, initialBackoffMs: 60_000, maxBackoffMs: 60_000 }, timeoutMs: 120_000 });
  const failing = failureOf(client.update(TOPIC, ONE));
  while (follower.requests.length === 0) await new Promise((resolve) => { setTimeout(resolve, 5); });
  client.close();
  assert.equal((await failing).reason, "NOT_LEADER");
});
