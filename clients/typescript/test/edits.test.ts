/** The effect of edits, and how often they run their functions: the shared vectors, through the client and a server. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { equals, fromJson, type JsonValue } from "@bufbuild/protobuf";

import { Client, TopicPoliciesSchema, UpdateOutcome, type EditOptions, type TopicPolicies } from "../src/index.js";
import { readVectors, Sidecar } from "./sidecar.js";

interface Vector {
  name: string;
  document: JsonValue;
  start?: boolean;
  meanwhile?: JsonValue;
  edit: JsonValue;
  options?: ("skipIfAbsent" | "includePrevious" | "validateOnly")[];
  runs: number;
  outcome: keyof typeof UpdateOutcome;
  previous?: JsonValue;
  after: JsonValue;
}

const vectors = readVectors("edits.json") as Vector[];

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

test("an edit does what the shared vectors say", async (t) => {
  assert.ok(vectors.length >= 16);
  for (const [number, vector] of vectors.entries()) {
    await t.test(vector.name, async () => {
      const topic = `ts/edits/t${number}`;
      if (vector.document !== null) await client.update(topic, message(vector.document), { mask: ["*"] });
      const start = await client.get(topic);
      if (vector.meanwhile === null) await client.delete(topic);
      else if (vector.meanwhile !== undefined) await client.update(topic, message(vector.meanwhile));
      const chosen = Object.fromEntries((vector.options ?? []).map((option) => [option, true])) as EditOptions;
      let runs = 0;
      const result = await client.edit(topic, (policies) => {
        runs += 1;
        for (const [name, value] of Object.entries(vector.edit as object)) {
          if (name === "maxProducerPerTopic") policies.maxProducerPerTopic = value as number;
          else if (name === "messageTTLInSeconds") policies.messageTtlInSeconds = value as number;
          else assert.fail(name);
        }
      }, vector.start === true ? { ...chosen, start } : chosen);
      assert.deepEqual([runs, UpdateOutcome[result.outcome]], [vector.runs, vector.outcome]);
      assert.equal(result.previous !== undefined, vector.previous !== undefined);
      if (vector.previous !== undefined) assertEqual(result.previous?.policies, vector.previous);
      const document = await client.get(topic);
      assertEqual(document.policies, vector.after);
      assert.equal(result.version, document.version);
    });
  }
});

function message(written: JsonValue): TopicPolicies {
  return fromJson(TopicPoliciesSchema, written);
}

function assertEqual(policies: TopicPolicies | undefined, written: JsonValue): void {
  if (written === null) assert.equal(policies, undefined);
  else assert.ok(policies !== undefined && equals(TopicPoliciesSchema, policies, message(written)));
}
