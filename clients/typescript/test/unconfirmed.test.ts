import assert from "node:assert/strict";
import { test } from "node:test";

import { InterceptingCall, Metadata, type Interceptor } from "@grpc/grpc-js";

import { Scope, type Client, type Document } from "../src/index.js";
import { answer, open, serve } from "./fake.js";

const TOPIC = "persistent://t/n/x";
const SINCE = new Date(Date.UTC(2026, 2, 1, 12, 0, 0, 250));

/** Returns `unconfirmedSince` of the answer to every kind of read. */
async function unconfirmedTimes(client: Client): Promise<(Date | undefined)[]> {
  const documents: Document[] = [await client.get(TOPIC)];
  const [list, history] = [client.list("t/n"), client.history({ topic: TOPIC })];
  for await (const document of list) documents.push(document);
  for await (const { problem } of history) assert.fail(problem);
  assert.equal(documents.length, 2);
  const { unconfirmedSince } = await client.effective(TOPIC);
  return [...documents.map((each) => each.unconfirmedSince), list.unconfirmedSince, history.unconfirmedSince, unconfirmedSince];
}

test("every read returns since when its answer is unconfirmed", async (t) => {
  const fake = await serve(t, () => answer({}));
  const client = open(t, fake.address);
  for (const [value, expected] of [
    [undefined, undefined], ["2026-03-01T12:00:00.250+00:00", SINCE], ["2026-03-01T14:00:00.250+02:00", SINCE], ["yesterday", undefined],
  ] as const) {
    fake.readTrailing = new Metadata();
    if (value !== undefined) fake.readTrailing.set("topicpolicies-unconfirmed-since", value);
    assert.deepEqual(await unconfirmedTimes(client), new Array(5).fill(expected), value);
  }
});

test("a confirmed document has no property unconfirmedSince", async (t) => {
  const fake = await serve(t, () => answer({}));
  const { policies, ...document } = await open(t, fake.address).get(TOPIC);
  assert.deepEqual([policies, document], [undefined, { topic: TOPIC, scope: Scope.LOCAL, version: "1", disabled: false }]);
});

test("an interceptor of the caller can add metadata to each attempt of every call", async (t) => {
  const fake = await serve(t, () => answer({}));
  const traced: Interceptor = (options, next) => new InterceptingCall(next(options), {
    start(metadata, listener, go) {
      metadata.set("traceparent", "00-1-2-01");
      go(metadata, listener);
    },
  });
  const client = open(t, fake.address, { interceptors: [traced] });
  await client.update(TOPIC, { maxProducerPerTopic: 1 });
  await client.get(TOPIC);
  assert.deepEqual([...fake.metadata, ...fake.readMetadata].map((each) => each.get("traceparent")), [["00-1-2-01"], ["00-1-2-01"]]);
});
