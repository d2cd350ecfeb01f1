/** Sidecars of which one writes a namespace, and the others name it. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { status as Code, type StatusObject } from "@grpc/grpc-js";

import { DEFAULT_RETRIES, FailedPreconditionError, NO_RETRIES, UnavailableError } from "../src/index.js";
import { MOST_HOPS } from "../src/attempts.js";
import { answer, failureOf, fromTheService, nobody, open, QUICK, serve, type Answering, type Fake } from "./fake.js";
import { only } from "./watching.js";

const TOPIC = "persistent://t/n/x";
const ONE = { maxProducerPerTopic: 1 };

/** What a follower answers; the leader may be unknown. */
function refused(leader = ""): Partial<StatusObject> {
  return fromTheService(Code.UNAVAILABLE, "NOT_LEADER", leader === "" ? {} : { leader });
}

const leading: Answering = () => answer({ version: "2" });

function following(leader: { readonly address: string }): Answering {
  return () => refused(leader.address);
}

/** Checks that all that came is one request; gives how often it came to each. */
function met(...fakes: Fake[]): number[] {
  const ids = new Set(fakes.flatMap((fake) => fake.requests.map((request) => request.requestId)));
  assert.ok(ids.size === 1 && !ids.has(""), `request ids: ${[...ids].join(", ")}`);
  return fakes.map((fake) => fake.requests.length);
}

test("a change that a follower refuses goes to the leader, and so do the next ones at once over one connection", async (t) => {
  const leader = await serve(t, leading);
  const follower = await serve(t, following(leader));
  const client = open(t, follower.address, { actor: "retention-bot", token: () => "secret" });
  assert.equal((await client.update(TOPIC, ONE)).document?.version, "2");
  assert.deepEqual(met(follower, leader), [1, 1]);
  for (let turn = 0; turn < 4; turn += 1) await client.update(TOPIC, ONE);
  assert.deepEqual([follower.requests.length, leader.requests.length, leader.peers.size], [1, 5, 1]);
  for (const sent of leader.metadata) {
    assert.deepEqual([sent.get("topicpolicies-actor"), sent.get("authorization")], [["retention-bot"], ["Bearer secret"]]);
  }
});

test("a deletion goes to the leader too", async (t) => {
  const leader = await serve(t, leading);
  const follower = await serve(t, following(leader));
  await open(t, follower.address).delete(TOPIC);
  assert.deepEqual([follower.deletions.length, leader.deletions.length], [1, 1]);
  assert.equal(follower.deletions[0]?.requestId, leader.deletions[0]?.requestId);
});

test("reads and dry runs and watches stay where they are", async (t) => {
  const leader = await serve(t, leading);
  const follower = await serve(t, (attempt) => (attempt === 1 ? refused(leader.address) : answer()));
  const client = open(t, follower.address);
  await client.update(TOPIC, ONE);
  assert.deepEqual(met(follower, leader), [1, 1]);
  await client.update(TOPIC, ONE, { validateOnly: true });
  await client.get(TOPIC);
  const watch = client.watch({ namespaces: ["t/n"] });
  await only(watch, "synced");
  watch.close();
  assert.deepEqual([follower.requests.length, follower.reads, follower.watches], [2, 1, 1]);
  assert.deepEqual([leader.requests.length, leader.reads, leader.watches], [1, 0, 0]);
});

test("a leader that changes twice is followed with one request", async (t) => {
  const last = await serve(t, leading);
  const second = await serve(t, following(last));
  const first = await serve(t, following(second));
  const follower = await serve(t, following(first));
  assert.equal((await open(t, follower.address).update(TOPIC, ONE)).document?.version, "2");
  assert.deepEqual(met(follower, first, second, last), [1, 1, 1, 1]);
});

test("followers that name each other are left after so many hops, with what they said", async (t) => {
  const named = { address: "" };
  const one = await serve(t, following(named));
  const other = await serve(t, following(one));
  named.address = other.address;
  const error = await failureOf(open(t, other.address).update(TOPIC, ONE));
  assert.deepEqual([error.constructor, error.reason], [UnavailableError, "NOT_LEADER"]);
  const [here = 0, there = 0] = met(one, other);
  assert.ok(here > 0 && here + there === MOST_HOPS + 1, `${here} and ${there} updates came`);
});

test("the call's time bounds hops too", async (t) => {
  const named = { address: "" };
  const one = await serve(t, following(named));
  const other = await serve(t, following(one));
  named.address = other.address;
  const growing = { ...QUICK, initialBackoffMs: 50, maxBackoffMs: 60_000, multiplier: 1000 }; // the second pause is longer than the call
  const error = await failureOf(open(t, other.address, { retries: growing, timeoutMs: 5000 }).update(TOPIC, ONE));
  assert.deepEqual([error.constructor, error.reason], [UnavailableError, "NOT_LEADER"]);
  assert.deepEqual(met(one, other), [1, 2]);
});

test("a leader out of reach is forgotten, and the followers are asked again", async (t) => {
  const leader = await serve(t, leading);
  const gone = await nobody();
  const follower = await serve(t, (attempt) => refused(attempt < 3 ? gone : leader.address)); // it has not noticed yet
  await open(t, follower.address).update(TOPIC, ONE);
  assert.deepEqual(met(follower, leader), [3, 1]);
});

test("a leader that stays out of reach leaves nothing unknown", async (t) => {
  const follower = await serve(t, following({ address: await nobody() }));
  const error = await failureOf(open(t, follower.address, { retries: QUICK, timeoutMs: 1000 }).update(TOPIC, ONE));
  assert.equal(error.constructor, UnavailableError);
  assert.ok((met(follower)[0] ?? 0) >= 2);
});

test("a leader that hangs is left, and its successor is asked with the same request", async (t) => {
  const [hanging, successor] = [await serve(t, () => undefined), await serve(t, leading)];
  const follower = await serve(t, (attempt) => refused((attempt === 1 ? hanging : successor).address));
  await open(t, follower.address, { retries: { ...DEFAULT_RETRIES, attemptTimeoutMs: 1000 } }).update(TOPIC, ONE);
  const [, stuck = 0, after] = met(follower, hanging, successor);
  assert.ok(stuck > 0 && after === 1);
});

test("a former leader that does not know the outcome is asked again, and its successor tells", async (t) => {
  const successor = await serve(t, () => answer({ replayed: true }));
  const former = await serve(t, (attempt) => {
    return attempt === 1 ? fromTheService(Code.DEADLINE_EXCEEDED, "OUTCOME_UNKNOWN") : refused(successor.address);
  });
  assert.ok((await open(t, former.address).update(TOPIC, ONE)).replayed);
  assert.deepEqual(met(former, successor), [2, 1]);
});

test("where nobody is named a change is repeated until somebody leads", async (t) => {
  const follower = await serve(t, (attempt) => (attempt <= 10 ? refused() : answer()));
  await open(t, follower.address).update(TOPIC, ONE);
  assert.deepEqual(met(follower), [11]);
});

test("where nobody is named the next address is asked, but reads stay", async (t) => {
  const [first, second] = [await serve(t, () => refused()), await serve(t, leading)];
  const client = open(t, `${first.address}, ${second.address}`);
  await client.update(TOPIC, ONE);
  assert.deepEqual(met(first, second), [1, 1]);
  await client.update(TOPIC, ONE);
  await client.get(TOPIC);
  assert.deepEqual([first.requests.length, second.requests.length, first.reads, second.reads], [1, 2, 1, 0]);
});

test("of several addresses the next is taken when one is out of reach", async (t) => {
  const last = await serve(t, leading);
  const client = open(t, [await nobody(), await nobody(), last.address].join(","));
  await client.get(TOPIC);
  await client.update(TOPIC, ONE);
  assert.deepEqual([last.reads, last.requests.length], [1, 1]);
});

test("of several addresses, none of which answers, nothing is unknown", async (t) => {
  const client = open(t, `${await nobody()},${await nobody()}`, { retries: QUICK, timeoutMs: 500 });
  assert.equal((await failureOf(client.update(TOPIC, ONE))).constructor, UnavailableError);
});

test("a watch moves on to the next address when its own is lost", async (t) => {
  const [first, second] = [await serve(t, leading), await serve(t, leading)];
  const watch = open(t, `${first.address},${second.address}`).watch({ namespaces: ["t/n"] });
  await only(watch, "synced");
  first.end();
  await only(watch, "interrupted");
  await only(watch, "synced");
  assert.deepEqual([first.watches, second.watches], [1, 1]);
});

test("without retries the leader is told, and only the next call goes there", async (t) => {
  const leader = await serve(t, leading);
  const follower = await serve(t, following(leader));
  const client = open(t, follower.address, { retries: NO_RETRIES });
  const error = await failureOf(client.update(TOPIC, ONE));
  assert.deepEqual([error.metadata["leader"], leader.requests.length], [leader.address, 0]);
  await client.update(TOPIC, ONE);
  assert.deepEqual([follower.requests.length, leader.requests.length], [1, 1]);
});

test("a token is not sent in the clear to a leader on another machine, and its follower is asked again", async (t) => {
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
