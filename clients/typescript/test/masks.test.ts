import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { create, fromJson, type JsonValue } from "@bufbuild/protobuf";

import { path, pathsBetween, pathsOf, TopicPoliciesSchema } from "../src/index.js";
import { keyOf, namespaceOf } from "../src/types.js";
import { Scope } from "../src/v1/index.js";
import { ROOT } from "./sidecar.js";

interface Vectors {
  differences: { name: string; before: JsonValue; after: JsonValue; mask: string[] }[];
  paths: { segments: string[]; text: string }[];
}

const vectors = JSON.parse(readFileSync(join(ROOT, "clients", "vectors", "masks.json"), "utf8")) as Vectors;

test("the mask between two documents is the same as in every language", async (t) => {
  assert.ok(vectors.differences.length > 40);
  for (const { name, before, after, mask } of vectors.differences) {
    await t.test(name, () => {
      const found = pathsBetween(fromJson(TopicPoliciesSchema, before), fromJson(TopicPoliciesSchema, after));
      assert.deepEqual(found.sort(), mask.sort());
    });
  }
});

test("a path is written as in every language", () => {
  assert.ok(vectors.paths.length > 7);
  for (const { segments, text } of vectors.paths) assert.equal(path(...segments), text);
});

test("the paths of a document are its fields that are set", () => {
  const policies = create(TopicPoliciesSchema, { maxProducerPerTopic: 0, replicationClusters: [], retentionPolicies: {} });
  assert.deepEqual(pathsOf(policies).sort(), ["max_producer_per_topic", "retention_policies"]);
});

test("a topic has one key, however it is written", () => {
  for (const topic of ["t/n/x", "persistent://t/n/x", "persistent://t/n/x-partition-12"]) {
    assert.equal(keyOf(topic, Scope.UNSPECIFIED), keyOf("persistent://t/n/x", Scope.LOCAL));
    assert.equal(namespaceOf(topic), "t/n");
  }
  assert.notEqual(keyOf("t/n/x", Scope.GLOBAL), keyOf("t/n/x", Scope.LOCAL));
});
