/** Odd answers, tokens, dates and environments. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";

import { create, toBinary } from "@bufbuild/protobuf";
import { anyPack, AnySchema, type Any } from "@bufbuild/protobuf/wkt";
import * as grpc from "@grpc/grpc-js";

import { RetryInfoSchema } from "../src/generated/google/rpc/error_details_pb.js";
import { StatusSchema, type Status } from "../src/generated/google/rpc/status_pb.js";
import { InvalidArgumentError, NotFoundError, OutcomeUnknownError } from "../src/index.js";
import { answer, failureOf, open, QUICK, serve } from "./fake.js";

const TOPIC = "t/n/x";

function statusWith(code: grpc.status, detail: Any): Status {
  return create(StatusSchema, { code, message: "A sentence.", details: [detail] });
}

function callWith(code: grpc.status, detail: Any): Partial<grpc.StatusObject> {
  const metadata = new grpc.Metadata();
  metadata.set("grpc-status-details-bin", Buffer.from(toBinary(StatusSchema, statusWith(code, detail))));
  return { code, details: "A sentence.", metadata };
}

test("a detail that can't be decoded is ignored", async (t) => {
  const broken = create(AnySchema, { typeUrl: "type.googleapis.com/google.rpc.ErrorInfo", value: Buffer.from([0x0a, 0xff, 0xff]) });
  const fake = await serve(t, () => callWith(grpc.status.NOT_FOUND, broken));
  fake.settling = () => ({ case: "error", value: statusWith(grpc.status.NOT_FOUND, broken) });
  const client = open(t, fake.address);
  assert.ok((await failureOf(client.update(TOPIC, {}))) instanceof NotFoundError);
  for await (const settled of client.updateMany([{ topic: TOPIC, policies: {} }])) {
    assert.ok(settled.kind === "failed" && settled.error instanceof NotFoundError);
  }
});

test("a service that says to wait for longer than a timer can is not asked again at once", async (t) => {
  const detail = anyPack(RetryInfoSchema, create(RetryInfoSchema, { retryDelay: { seconds: 60n * 86_400n, nanos: 0 } }));
  const fake = await serve(t, () => callWith(grpc.status.RESOURCE_EXHAUSTED, detail));
  const call = open(t, fake.address).update(TOPIC, {}, { timeoutMs: Infinity, signal: AbortSignal.timeout(500) });
  await assert.rejects(call, { name: "TimeoutError" });
  assert.equal(fake.requests.length, 1);
});

test("a token that can't be metadata is refused without showing it", async (t) => {
  const fake = await serve(t, () => answer());
  for (const token of ["secret\n", "s\u00e9cret"]) {
    const client = open(t, fake.address, { retries: QUICK, token: () => token });
    const error = await failureOf(client.update(TOPIC, {}));
    assert.ok(error instanceof InvalidArgumentError && error.reason === "MALFORMED_TOKEN" && !error.message.includes(token.trim()));
  }
  let asked = 0;
  const client = open(t, fake.address, { token: () => (asked++ === 0 ? "half\n" : "whole") });
  const kinds = [];
  for await (const event of client.watch({ namespaces: ["t/n"] })) {
    kinds.push(event.kind);
    if (event.kind === "synced") break;
  }
  assert.deepEqual(kinds, ["interrupted", "synced"]);
});

test("a token function that fails when a change is repeated leaves the outcome unknown", async (t) => {
  const fake = await serve(t, () => ({ code: grpc.status.UNAVAILABLE, details: "lost" }));
  let asked = 0;
  const token = (): string => {
    asked += 1;
    if (asked === 2) throw new Error("the identity provider is down");
    return "token";
  };
  const error = await failureOf(open(t, fake.address, { retries: QUICK, token }).update(TOPIC, {}));
  assert.ok(error instanceof OutcomeUnknownError && error.message.includes("the identity provider is down"));
  assert.equal(error.requestId, fake.requests[0]?.requestId);
});

test("calls to this machine do not go through a proxy of the environment", async (t) => {
  let connections = 0;
  const proxy = createServer((socket) => { connections += 1; socket.destroy(); }).listen(0, "127.0.0.1");
  await once(proxy, "listening");
  t.after(() => { proxy.close(); });
  const fake = await serve(t, () => answer());
  const place = proxy.address();
  process.env["http_proxy"] = `http://127.0.0.1:${typeof place === "object" ? (place?.port ?? 0) : 0}`;
  try {
    for (const address of [fake.address, fake.address.replace("127.0.0.1", "localhost")]) {
      await open(t, address, { retries: QUICK, timeoutMs: 5000, token: () => "secret" }).update(TOPIC, {});
    }
  } finally {
    delete process.env["http_proxy"];
  }
  assert.equal(connections, 0);
});

test("an invalid Date and an interval that is no number are an InvalidArgumentError, and fractions of a ms are rounded", async (t) => {
  const client = open(t, (await serve(t, () => answer())).address);
  const never = new Date("never");
  assert.ok((await failureOf(client.get(TOPIC, { asOfTime: never }))) instanceof InvalidArgumentError);
  assert.throws(() => client.history({ topic: TOPIC }, { startTime: never }), InvalidArgumentError);
  assert.throws(() => client.history({ topic: TOPIC }, { endTime: never }), InvalidArgumentError);
  assert.throws(() => client.watch({ namespaces: ["t/n"], bookmarkIntervalMs: Number.NaN }), InvalidArgumentError);
  for await (const event of client.watch({ namespaces: ["t/n"], bookmarkIntervalMs: 1500.1 })) {
    assert.equal(event.kind, "synced");
    break;
  }
});
