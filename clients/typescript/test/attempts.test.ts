/** Whether and when a call is repeated: the shared vectors, and cases that they lack. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { create } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { status as Code } from "@grpc/grpc-js";

import { DEFAULT_RETRIES, OutcomeUnknownError, TopicPoliciesError } from "../src/index.js";
import { Attempts } from "../src/attempts.js";
import { fromStatus } from "../src/errors.js";
import { RetryInfoSchema } from "../src/generated/google/rpc/error_details_pb.js";
import { Routes } from "../src/routes.js";
import { WatchSession } from "../src/session.js";
import { readVectors } from "./sidecar.js";

interface Failure { code: keyof typeof Code; reason: string; service: boolean; metadata?: Record<string, string>; neverSent?: boolean }
interface Vector {
  name: string;
  call: "read" | "change" | "watch";
  failures: Failure[];
  then: "repeat" | "repeat at once" | "give up" | "outcome unknown";
  at?: string;
  code?: keyof typeof Code;
}

const vectors = readVectors("retries.json") as Vector[];
const HERE = "127.0.0.1:6680";
const CHANGE = { namespace: "t/n", requestId: "0123456789abcdef0123456789abcdef" };

function errorOf({ code, reason, service, metadata = {}, neverSent = false }: Failure): TopicPoliciesError {
  const message = neverSent ? "No connection established. Last error: none" : "so it is";
  return new TopicPoliciesError(message, { code: Code[code], reason, metadata, fromService: service });
}

/** Returns the pause before a call is repeated, and the address of the repeat; or the error with which the call fails. */
function outcomeOf({ call, failures }: Vector): { pause?: number; at?: string; error?: TopicPoliciesError } {
  if (call === "watch") {
    const session = new WatchSession({ namespaces: ["t/n"] });
    session.connect(0);
    try {
      return { pause: Math.min(...failures.map((failure) => session.broke(errorOf(failure), 0, 0.5).retryInMs)) };
    } catch (error) {
      assert.ok(error instanceof TopicPoliciesError);
      return { error };
    }
  }
  const attempts = new Attempts(DEFAULT_RETRIES, new Routes([HERE]), call === "change" ? CHANGE : undefined, false);
  let pause: number | undefined;
  for (const [index, failure] of failures.entries()) {
    assert.ok(index === 0 || pause !== undefined, "the call failed too early");
    pause = attempts.failed(attempts.address, errorOf(failure), 0.5);
  }
  const [last] = failures.slice(-1);
  assert.ok(last !== undefined);
  return pause === undefined ? { error: attempts.ended(errorOf(last)) } : { pause, at: attempts.address };
}

test("calls are repeated as the shared vectors say", async (t) => {
  assert.ok(vectors.length > 50);
  for (const vector of vectors) {
    await t.test(vector.name, () => {
      const { pause, at, error } = outcomeOf(vector);
      switch (vector.then) {
        case "repeat":
          assert.ok(pause !== undefined && pause > 0, String(error));
          break;
        case "repeat at once":
          assert.deepEqual([pause, at], [0, vector.at]);
          break;
        case "give up":
          assert.ok(error !== undefined && !(error instanceof OutcomeUnknownError), error?.name ?? `again after ${pause ?? "no"} ms`);
          assert.equal(Code[error.code], vector.code);
          break;
        case "outcome unknown":
          assert.ok(error instanceof OutcomeUnknownError, String(error));
          assert.match(error.message, /\. Repeat it with request id \w+ to learn it\.$/);
          assert.equal(error.requestId, CHANGE.requestId);
      }
    });
  }
});

test("the pauses of a watch grow to 10 seconds, and a server without room gets the longest pause at once", () => {
  const session = new WatchSession({ namespaces: ["t/n"] });
  session.connect(0);
  const lost = errorOf({ code: "UNAVAILABLE", reason: "", service: false });
  const pauses = Array.from({ length: 9 }, () => session.broke(lost, 0, 1).retryInMs);
  assert.deepEqual(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
  const first = new WatchSession({ namespaces: ["t/n"] });
  first.connect(0);
  assert.equal(first.broke(errorOf({ code: "RESOURCE_EXHAUSTED", reason: "TOO_MANY_WATCHES", service: true }), 0, 0).retryInMs, 5000);
});

test("the delay after a limit is that of the service plus the usual pause", () => {
  const delay = create(RetryInfoSchema, { retryDelay: { seconds: 3n, nanos: 500_000_000 } });
  const error = fromStatus(Code.RESOURCE_EXHAUSTED, "too much", [anyPack(RetryInfoSchema, delay)]);
  assert.equal(error.retryAfterMs, 3500);
  for (const change of [undefined, CHANGE]) {
    const attempts = new Attempts(DEFAULT_RETRIES, new Routes([HERE]), change, change === undefined);
    for (let number = 0; number < 20; number += 1) { // more than maxAttempts: nothing was done
      const pause = attempts.failed(HERE, error, 0.5);
      assert.ok(pause !== undefined && pause > 3500 && pause <= 3500 + DEFAULT_RETRIES.maxBackoffMs, String(pause));
    }
    assert.equal(attempts.ended(error), error);
    const once = new Attempts({ ...DEFAULT_RETRIES, maxAttempts: 1 }, new Routes([HERE]), change, false);
    assert.equal(once.failed(HERE, error, 0.5), undefined);
  }
  const session = new WatchSession({ namespaces: ["t/n"] });
  session.connect(0);
  assert.equal(session.broke(error, 0, 0).retryInMs, 3550);
});

test("a watch whose token expires is reopened once: the next stream may have a newer token", () => {
  const session = new WatchSession({ namespaces: ["public/a"] });
  const expired = errorOf({ code: "UNAUTHENTICATED", reason: "CREDENTIALS_EXPIRED", service: true });
  assert.equal(session.broke(expired, 0, 0).error, expired);
  assert.throws(() => session.broke(expired, 0, 0), expired.constructor);
});
