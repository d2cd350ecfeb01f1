/** Which calls gRPC repeats (reads at a single address), and which the client (all others). */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { status as Code, type Metadata } from "@grpc/grpc-js";

import { CancelledError, Client, DEFAULT_RETRIES, NO_RETRIES, NotFoundError, UnavailableError, type RetryPolicy } from "../src/index.js";
import { answer, failureOf, fromTheService, unusedAddress, open, QUICK, serve } from "./fake.js";
import { until } from "./sidecar.js";

const TOPIC = "persistent://t/n/x";
const ONE = { maxProducerPerTopic: 1 };
const BUSY = { code: Code.UNAVAILABLE, details: "not now" };

/** Returns the number of previous attempts in gRPC's metadata of each attempt; undefined for a first one. */
function previous(metadata: readonly Metadata[]): unknown[] {
  return metadata.map((each) => each.get("grpc-previous-rpc-attempts")[0]);
}

const READS: Record<string, (t: TestContext, target: string) => Promise<unknown>> = {
  get: (t, target) => open(t, target).get(TOPIC),
  list: (t, target) => open(t, target).list("t/n").next(),
  history: (t, target) => open(t, target).history({ namespace: "t/n" }).next(),
};
for (const [name, read] of Object.entries(READS)) {
  for (const code of [Code.UNAVAILABLE, Code.CANCELLED]) {
    test(`gRPC repeats a read at a single address: ${name} after ${Code[code]}`, async (t) => {
      const fake = await serve(t, () => undefined);
      fake.reading = (attempt) => (attempt <= 2 ? { code, details: "not now" } : undefined);
      await read(t, fake.address);
      assert.deepEqual(previous(fake.readMetadata), [undefined, "1", "2"]);
    });
  }
}

test("gRPC repeats reads at an address that is a host name", async (t) => {
  const fake = await serve(t, () => undefined);
  fake.reading = (attempt) => (attempt <= 2 ? BUSY : undefined);
  await open(t, fake.address.replace("127.0.0.1", "localhost")).get(TOPIC);
  assert.deepEqual(previous(fake.readMetadata), [undefined, "1", "2"]);
});

test("a read has as many attempts as the policy allows, and fails with the last error", async (t) => {
  for (const maxAttempts of [2, 5]) {
    const fake = await serve(t, () => undefined);
    fake.reading = (attempt) => fromTheService(Code.UNAVAILABLE, `LOG_${attempt}`);
    const error = await failureOf(open(t, fake.address, { retries: { ...QUICK, maxAttempts } }).get(TOPIC));
    assert.deepEqual([error.constructor, error.reason, error.fromService, fake.reads], [UnavailableError, `LOG_${maxAttempts}`, true, maxAttempts]);
  }
});

test("a read that fails permanently is sent once", async (t) => {
  const fake = await serve(t, () => undefined);
  fake.reading = () => fromTheService(Code.NOT_FOUND, "NO_TOPIC");
  assert.equal((await failureOf(open(t, fake.address).get(TOPIC))).constructor, NotFoundError);
  assert.equal(fake.reads, 1);
});

test("without retries a read is sent once", async (t) => {
  const fake = await serve(t, () => undefined);
  fake.reading = () => BUSY;
  assert.equal((await failureOf(open(t, fake.address, { retries: NO_RETRIES }).get(TOPIC))).constructor, UnavailableError);
  assert.deepEqual(previous(fake.readMetadata), [undefined]);
});

test("with several addresses reads move to the next one, and gRPC repeats none", async (t) => {
  const [first, second] = [await serve(t, () => undefined), await serve(t, () => undefined)];
  first.reading = () => BUSY;
  await open(t, `${first.address},${second.address}`).get(TOPIC);
  assert.deepEqual([previous(first.readMetadata), previous(second.readMetadata)], [[undefined], [undefined]]);
});

test("with several failing addresses a read has no more attempts than the policy allows", async (t) => {
  const fakes = [await serve(t, () => undefined), await serve(t, () => undefined)];
  for (const fake of fakes) fake.reading = () => BUSY;
  const error = await failureOf(open(t, fakes.map((fake) => fake.address).join(","), { retries: QUICK }).get(TOPIC));
  assert.equal(error.constructor, UnavailableError);
  assert.deepEqual(fakes.flatMap((fake) => previous(fake.readMetadata)), Array(QUICK.maxAttempts).fill(undefined));
});

test("gRPC repeats no change and no dry run: the client does", async (t) => {
  const calls: ((client: Client) => Promise<unknown>)[] = [
    (client) => client.update(TOPIC, ONE),
    (client) => client.update(TOPIC, ONE, { validateOnly: true }),
    (client) => client.delete(TOPIC),
  ];
  for (const call of calls) {
    const fake = await serve(t, (attempt) => (attempt <= 2 ? BUSY : answer()));
    await call(open(t, fake.address));
    assert.deepEqual(previous(fake.metadata), [undefined, undefined, undefined]);
  }
});

test("gRPC repeats no change at the leader that an error named", async (t) => {
  const leader = await serve(t, (attempt) => (attempt === 1 ? BUSY : answer()));
  const follower = await serve(t, () => fromTheService(Code.UNAVAILABLE, "NOT_LEADER", { leader: leader.address }));
  await open(t, follower.address).update(TOPIC, ONE);
  assert.deepEqual([previous(follower.metadata), previous(leader.metadata)], [[undefined, undefined], [undefined, undefined]]);
});

test("with channel options about gRPC's own repeats the client repeats the reads", async (t) => {
  for (const channelOptions of [{ "grpc.enable_retries": 0 }, { "grpc.service_config": "{}" }]) {
    const fake = await serve(t, () => undefined);
    fake.reading = () => BUSY;
    assert.equal((await failureOf(open(t, fake.address, { retries: QUICK, channelOptions }).get(TOPIC))).constructor, UnavailableError);
    assert.deepEqual(previous(fake.readMetadata), Array(QUICK.maxAttempts).fill(undefined));
  }
});

test("a read waits for a connection until its deadline, also between attempts", async (t) => {
  const fake = await serve(t, () => undefined);
  fake.reading = () => {
    fake.end();
    return BUSY;
  };
  for (const address of [await unusedAddress(), fake.address]) {
    const begun = performance.now();
    const error = await failureOf(open(t, address, { retries: QUICK, timeoutMs: 2000 }).get(TOPIC));
    assert.deepEqual([error.constructor, error.code], [UnavailableError, Code.DEADLINE_EXCEEDED]);
    assert.ok(performance.now() - begun > 1900, error.message);
  }
  assert.equal(fake.reads, 1);
});

test("a signal ends the pause before a read is repeated", async (t) => {
  const fake = await serve(t, () => undefined);
  fake.reading = () => BUSY;
  const ending = new AbortController();
  const why = new Error("changed my mind");
  const client = open(t, fake.address, { retries: { ...QUICK, initialBackoffMs: 60_000, maxBackoffMs: 60_000 }, timeoutMs: 110_000 });
  const failing = assert.rejects(client.get(TOPIC, { signal: ending.signal }), (error) => error === why);
  await until("a first attempt", () => fake.reads > 0);
  ending.abort(why);
  await failing;
  assert.equal(fake.reads, 1);
});

test("once the client is closed no read is repeated", async (t) => {
  const fake = await serve(t, () => undefined);
  const client = open(t, fake.address, { retries: { ...QUICK, initialBackoffMs: 100, maxBackoffMs: 100 } });
  fake.reading = () => {
    client.close();
    return BUSY;
  };
  assert.equal((await failureOf(client.get(TOPIC))).constructor, CancelledError);
  assert.equal(fake.reads, 1);
});

test("gRPC accepts every valid retry policy", () => {
  const policies: Partial<RetryPolicy>[] = [
    { maxAttempts: 2 }, { initialBackoffMs: 1e-7 }, { initialBackoffMs: 1 / 3 }, { initialBackoffMs: 1e300, maxBackoffMs: Number.MAX_VALUE }, { multiplier: 1000 },
  ];
  for (const policy of policies) new Client("localhost:1", { retries: { ...DEFAULT_RETRIES, ...policy } }).close();
});
