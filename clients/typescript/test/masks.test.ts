import assert from "node:assert/strict";
import { test } from "node:test";

import { fromJson, type JsonValue } from "@bufbuild/protobuf";

import { mask as maskOf, path, pathsBetween, type MaskPath } from "../src/index.js";
import { written } from "../src/paths.js";
import { TopicPoliciesSchema } from "../src/v1/index.js";
import { readVectors } from "./sidecar.js";

interface Vectors {
  differences: { name: string; before: JsonValue; after: JsonValue; mask: string[] }[];
  paths: { segments: string[]; text: string }[];
}

const vectors = readVectors("masks.json") as Vectors;

test("the mask between two documents is that of the shared vectors", async (t) => {
  assert.ok(vectors.differences.length > 40);
  for (const { name, before, after, mask } of vectors.differences) {
    await t.test(name, () => {
      const found = pathsBetween(fromJson(TopicPoliciesSchema, before), fromJson(TopicPoliciesSchema, after));
      assert.deepEqual(found.sort(), mask.sort());
    });
  }
});

test("a path is written as in the shared vectors", () => {
  assert.ok(vectors.paths.length > 7);
  for (const { segments, text } of vectors.paths) assert.equal(written(segments), text);
  assert.equal(path("subscription_policies", "my-sub", "dispatch_rate"), "subscription_policies.`my-sub`.dispatch_rate");
  assert.equal(path(), "*");
});

test("the compiler accepts all paths, and refuses others", () => {
  const known: MaskPath[] = [
    "*", "max_producer_per_topic", "retention_policies", "retention_policies.retention_size_in_mb", "subscription_policies",
    "replication_clusters", "offload_policies.s3_managed_ledger_offload_bucket", path("subscription_policies", "any key at all"),
    path("back_log_quota_map", "message_age", "policy"),
    path("offload_policies", "managed_ledger_extra_configurations", "k"),
  ];
  const refused = [
    // @ts-expect-error: a typo in a field
    "max_producers_per_topic" satisfies MaskPath,
    // @ts-expect-error: camel case
    "maxProducerPerTopic" satisfies MaskPath,
    // @ts-expect-error: a typo in a leaf
    "retention_policies.retention_size" satisfies MaskPath,
    // @ts-expect-error: lists have no parts
    "replication_clusters.0" satisfies MaskPath,
    // @ts-expect-error: keys are for `path` to write
    "subscription_policies.x" satisfies MaskPath,
    // @ts-expect-error: a typo behind a key
    path("subscription_policies", "my-sub", "dispatch"),
    // @ts-expect-error: a typo before it
    path("subscription_policy", "my-sub"),
    // @ts-expect-error: behind a plain value
    path("max_producer_per_topic", "x"),
  ];
  assert.deepEqual([known.length, refused.length], [10, 8]);
  assert.deepEqual(maskOf(...known).paths, known);
});
