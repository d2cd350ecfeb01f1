import assert from "node:assert/strict";
import { test } from "node:test";

import { status as Code } from "@grpc/grpc-js";

import { TopicPoliciesError } from "../src/index.js";
import { addressesOf, MOST_LEADERS, Routes } from "../src/routes.js";

const BROKEN = new TopicPoliciesError("The connection broke.", { code: Code.UNAVAILABLE });

function ledBy(leader: string, fromService = true): TopicPoliciesError {
  return new TopicPoliciesError("elsewhere", { code: Code.UNAVAILABLE, reason: "NOT_LEADER", fromService, metadata: leader ? { leader } : {} });
}

test("addresses are separated by commas", () => {
  const targets: Record<string, string[]> = {
    "localhost:6680": ["localhost:6680"], "one:1, two:2,three:3": ["one:1", "two:2", "three:3"],
    "ipv4:127.0.0.1:1,127.0.0.1:2": ["ipv4:127.0.0.1:1,127.0.0.1:2"], "dns:///sidecars:6680": ["dns:///sidecars:6680"], "unix:/run/a,b": ["unix:/run/a,b"],
  };
  for (const [target, addresses] of Object.entries(targets)) assert.deepEqual(addressesOf(target), addresses);
});

test("the next address is used only when the current one fails", () => {
  const routes = new Routes(["one", "two"]);
  const wrong = new TopicPoliciesError("wrong", { code: Code.INVALID_ARGUMENT });
  const steps: [string, TopicPoliciesError, string][] = [
    ["two", BROKEN, "one"], // not the current address
    ["one", BROKEN, "two"],
    ["one", BROKEN, "two"], // an older call to an address that is no longer the current one
    ["two", wrong, "two"],
    ["two", BROKEN, "one"],
  ];
  for (const [address, error, next] of steps) {
    assert.equal(routes.failed(address, error, "a/b"), false);
    assert.deepEqual([routes.writer("a/b"), routes.address], [next, next]);
  }
});

test("changes of a namespace go to its leader until a call there fails", () => {
  const routes = new Routes(["one", "two"]);
  assert.ok(routes.failed("one", ledBy("three"), "a/b"));
  assert.deepEqual([routes.writer("a/b"), routes.writer("a/c"), routes.address], ["three", "one", "one"]);
  assert.ok(!routes.failed("three", BROKEN, "a/b"));
  assert.equal(routes.writer("a/b"), "one");
});

test("an address that knows no leader is skipped by changes, but not by reads", () => {
  const routes = new Routes(["one", "two"]);
  for (const [address, next] of [["one", "two"], ["two", "one"], ["three", "one"]] as const) {
    assert.ok(!routes.failed(address, ledBy(""), "a/b"));
    assert.deepEqual([routes.writer("a/b"), routes.address], [next, "one"]);
  }
});

test("a server that names itself as leader is repeated after a pause, and NOT_LEADER of another service is ignored", () => {
  assert.ok(!new Routes(["one"]).failed("one", ledBy("one"), "a/b"));
  const routes = new Routes(["one"]);
  assert.ok(!routes.failed("one", ledBy("two", false), "a/b"));
  assert.equal(routes.writer("a/b"), "one");
});

test("only the current address can be left for the next one", () => {
  const routes = new Routes(["one", "two"]);
  routes.leave("two");
  assert.equal(routes.address, "one");
  routes.leave("one");
  assert.equal(routes.address, "two");
});

test("the number of remembered leaders is bounded, and the newest are kept", () => {
  const routes = new Routes(["one"]);
  for (let number = 0; number <= MOST_LEADERS; number += 1) routes.failed("one", ledBy("two"), `a/${number}`);
  assert.deepEqual([routes.writer("a/0"), routes.writer("a/1"), routes.writer(`a/${MOST_LEADERS}`)], ["one", "two", "two"]);
});
