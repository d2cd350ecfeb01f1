import assert from "node:assert/strict";
import { test } from "node:test";

import { fullName, keyOf, namespaceOf } from "../src/names.js";
import { Scope } from "../src/v1/index.js";
import { readVectors } from "./sidecar.js";

test("a topic has one key, however it is written", () => {
  for (const topic of ["t/n/x", "persistent://t/n/x", "persistent://t/n/x-partition-12", "t/n/x-partition-0"]) {
    assert.equal(keyOf(topic, Scope.UNSPECIFIED), keyOf("persistent://t/n/x", Scope.LOCAL));
    assert.equal(namespaceOf(topic), "t/n");
  }
  assert.notEqual(keyOf("t/n/x", Scope.GLOBAL), keyOf("t/n/x", Scope.LOCAL));
});

test("a topic name is read as Pulsar reads it", () => {
  const vectors = readVectors("names.json") as { name: string; topic: string; fullName: string }[];
  assert.ok(vectors.length > 40);
  for (const { name, topic, fullName: expected } of vectors) assert.equal(fullName(topic), expected, name);
});
