/** The effect of updates on documents: the shared vectors, through the client and a server. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { equals, fromJson, toJson, type JsonObject, type JsonValue } from "@bufbuild/protobuf";

import { Client, ListOperation, Scope, TopicPoliciesError, TopicPoliciesSchema, type MaskPath, type UpdateOptions } from "../src/index.js";
import { readVectors, Sidecar } from "./sidecar.js";

interface Vector {
  name: string;
  document: JsonValue;
  policies: JsonObject;
  mask?: MaskPath[];
  listOperations?: Record<string, string>;
  after?: JsonValue;
  reason?: string;
}

const vectors = readVectors("apply.json") as Vector[];
const NAMES = { LIST_OPERATION_REPLACE: "REPLACE", LIST_OPERATION_UNION: "UNION", LIST_OPERATION_SUBTRACT: "SUBTRACT" } as const;

let sidecar: Sidecar;
let client: Client;
before(async () => {
  sidecar = await Sidecar.start();
  client = new Client(sidecar.address);
});
after(async () => {
  client.close();
  await sidecar.remove();
});

test("an update does what the shared vectors say", async (t) => {
  assert.ok(vectors.length > 60);
  for (const [number, vector] of vectors.entries()) {
    await t.test(vector.name, async () => {
      const topic = `ts/apply/t${number}`;
      // This server does not know the name of its cluster, so it refuses a LOCAL list of clusters.
      const scope = JSON.stringify(vector).includes("replicationClusters") ? Scope.GLOBAL : Scope.LOCAL;
      if (vector.document !== null) await client.update(topic, fromJson(TopicPoliciesSchema, vector.document), { scope, mask: ["*"] });
      const reasons = await refusal(client.update(topic, fromJson(TopicPoliciesSchema, vector.policies), { scope, ...optionsOf(vector) }));
      const expected = vector.reason === undefined ? vector.after : vector.document;
      if (vector.reason === undefined) assert.equal(reasons, undefined);
      else assert.ok(reasons?.includes(vector.reason), `${vector.reason} is not among ${String(reasons)}`);
      const { policies } = await client.get(topic, { scope });
      const found = policies === undefined ? null : toJson(TopicPoliciesSchema, policies);
      const wanted = expected == null ? undefined : fromJson(TopicPoliciesSchema, expected);
      const same = policies !== undefined && wanted !== undefined && equals(TopicPoliciesSchema, policies, wanted);
      assert.ok(same || (policies === undefined && wanted === undefined), JSON.stringify({ found, expected }));
    });
  }
});

function optionsOf({ mask, listOperations }: Vector): UpdateOptions {
  const operations = Object.entries(listOperations ?? {}).map(([path, name]) => [path, ListOperation[NAMES[name as keyof typeof NAMES]]]);
  return { ...(mask && { mask }), listOperations: Object.fromEntries(operations) as Record<string, ListOperation> };
}

/** Returns the reasons of the violations for which an update is refused; undefined if it succeeds. */
async function refusal(update: Promise<unknown>): Promise<string[] | undefined> {
  const error = await update.then(() => undefined, (thrown: unknown) => thrown);
  if (error === undefined) return undefined;
  if (!(error instanceof TopicPoliciesError)) throw error as Error;
  return error.violations.map((each) => each.reason);
}
