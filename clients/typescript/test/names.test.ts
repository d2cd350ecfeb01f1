import assert from "node:assert/strict";
import { test } from "node:test";

import { fullName, keyOf, namespaceOf } from "../src/names.js";
import { Scope } from "../src/v1/index.js";

test("a topic has one key, however it is written", () => {
  for (const topic of ["t/n/x", "persistent://t/n/x", "persistent://t/n/x-partition-12", "t/n/x-partition-0"]) {
    assert.equal(keyOf(topic, Scope.UNSPECIFIED), keyOf("persistent://t/n/x", Scope.LOCAL));
    assert.equal(namespaceOf(topic), "t/n");
  }
  assert.notEqual(keyOf("t/n/x", Scope.GLOBAL), keyOf("t/n/x", Scope.LOCAL));
});

test("a partition's number is one that Pulsar takes for it, and all else is a topic of its own", () => {
  const bases: Record<string, string> = {
    "x-partition-0": "x", "x-partition-7": "x", "x-partition-2147483647": "x", "x-partition-1-partition-2": "x-partition-1",
    "x-partition-01": "x-partition-01", "x-partition-00": "x-partition-00", "x-partition-2147483648": "x-partition-2147483648",
    "x-partition-99999999999": "x-partition-99999999999", "x-partition--1": "x-partition--1", "x-partition-+1": "x-partition-+1",
    "x-partition-": "x-partition-", "x-partition-1a": "x-partition-1a", "x-partition-\u0663": "x-partition-\u0663",
    "x-partition-1\n": "x-partition-1\n",
  };
  for (const [local, base] of Object.entries(bases)) assert.equal(fullName(`t/n/${local}`), `persistent://t/n/${base}`);
});
