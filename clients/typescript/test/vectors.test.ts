import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { create, equals, fromJson, type JsonValue } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { status as Code } from "@grpc/grpc-js";

import { PolicyCache } from "../src/cache.js";
import { ErrorInfoSchema } from "../src/generated/google/rpc/error_details_pb.js";
import { Client, mask, TopicPoliciesError, type MaskPath } from "../src/index.js";
import { SERVICE_CONFIG } from "../src/service-config.js";
import {
  ChangeOutcome, ListOperation, Scope, TopicPoliciesSchema, WatchEventSchema, type PolicyDocument, type TopicPolicies, type WatchEvent,
} from "../src/v1/index.js";
import { BEGINS_AGAIN, Places } from "../src/watch.js";
import { readVectors, Sidecar } from "./sidecar.js";

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

function policiesOf(text: JsonValue): TopicPolicies | undefined {
  return text === null ? undefined : fromJson(TopicPoliciesSchema, text);
}

function assertSame(found: TopicPolicies | undefined, wanted: TopicPolicies | undefined): void {
  const same = found === undefined || wanted === undefined ? found === wanted : equals(TopicPoliciesSchema, found, wanted);
  if (!same) assert.deepEqual(found, wanted);
}

async function putDocument(topic: string, scope: Scope, text: JsonValue): Promise<void> {
  const policies = policiesOf(text);
  if (policies !== undefined) await client.updatePolicy({ topic, scope, policies, updateMask: mask("*") });
}

interface Application {
  name: string;
  document: JsonValue;
  policies: JsonValue;
  mask?: MaskPath[];
  listOperations?: Record<string, string>;
  after?: JsonValue;
  reason?: string;
}

test("an update does what the vectors say", async (t) => {
  for (const [number, vector] of (readVectors("apply.json") as Application[]).entries()) {
    await t.test(vector.name, async () => {
      const topic = `ts/apply/t${number}`;
      // This server does not know the name of its cluster, so it refuses a LOCAL list of clusters.
      const scope = JSON.stringify(vector).includes("replicationClusters") ? Scope.GLOBAL : Scope.LOCAL;
      await putDocument(topic, scope, vector.document);
      const operations = Object.entries(vector.listOperations ?? {}).map(([path, name]) => {
        return [path, ListOperation[name.replace("LIST_OPERATION_", "") as keyof typeof ListOperation]] as const;
      });
      const updateMask = mask(...(vector.mask ?? []));
      const policies = policiesOf(vector.policies) ?? create(TopicPoliciesSchema);
      const update = client.updatePolicy({ topic, scope, policies, updateMask, listOperations: Object.fromEntries(operations) });
      if (vector.reason === undefined) await update;
      else {
        await assert.rejects(update, (error) => error instanceof TopicPoliciesError && error.reason === "INVALID_REQUEST"
          && error.violations.some(({ reason }) => reason === vector.reason));
      }
      assertSame((await client.getPolicy({ topic, scope })).policies, policiesOf(vector.reason === undefined ? vector.after ?? null : vector.document));
    });
  }
});

interface Edit {
  name: string;
  document: JsonValue;
  meanwhile?: JsonValue;
  edit: JsonValue;
  options?: ("skipIfAbsent" | "includePrevious" | "validateOnly")[];
  runs: number;
  outcome: keyof typeof ChangeOutcome;
  previous?: JsonValue;
  after: JsonValue;
}

test("an edit does what the vectors say", async (t) => {
  for (const [number, vector] of (readVectors("edits.json") as Edit[]).entries()) {
    await t.test(vector.name, async () => {
      const topic = `ts/edits/t${number}`;
      await putDocument(topic, Scope.LOCAL, vector.document);
      let runs = 0;
      const options = Object.fromEntries((vector.options ?? []).map((option) => [option, true]));
      const result = await client.edit({ topic, ...options }, async (policies) => {
        const { maxProducerPerTopic = policies.maxProducerPerTopic, messageTtlInSeconds = policies.messageTtlInSeconds } = policiesOf(vector.edit) ?? {};
        Object.assign(policies, { maxProducerPerTopic, messageTtlInSeconds });
        if ((runs += 1) > 1 || vector.meanwhile === undefined) return;
        const meanwhile = policiesOf(vector.meanwhile);
        await (meanwhile === undefined ? client.deletePolicy({ topic }) : client.updatePolicy({ topic, policies: meanwhile }));
      });
      assert.deepEqual([runs, ChangeOutcome[result.outcome]], [vector.runs, vector.outcome]);
      assert.equal(result.previous !== undefined, vector.previous !== undefined);
      assertSame(result.previous?.policies, policiesOf(vector.previous ?? null));
      const found = await client.getPolicy({ topic });
      assert.equal(result.version, found.version);
      assertSame(found.policies, policiesOf(vector.after));
    });
  }
});

interface Ending {
  name: string;
  call: "read" | "change" | "watch";
  code: keyof typeof Code;
  reason: string;
  domain?: string;
  repeat?: boolean;
  error?: string;
  resume?: boolean;
  began?: boolean;
}

test("errors are of the kinds of the vectors", async (t) => {
  for (const { name, call, code, reason, domain = "topicpolicies", repeat, error, resume, began } of readVectors("retries.json") as Ending[]) {
    await t.test(name, () => {
      const details = reason === "" ? [] : [anyPack(ErrorInfoSchema, create(ErrorInfoSchema, { domain, reason }))];
      const found = new TopicPoliciesError(Code[code], "It is so.", details, call === "change" ? "an id" : undefined);
      if (call === "watch") {
        for (const each of began === undefined ? [false, true] : [began]) assert.equal(found.resumable(each), resume);
        return;
      }
      assert.deepEqual([found.kind === "outcome unknown", found.code], [error === "outcome unknown", Code[code]]);
      assert.equal(SERVICE_CONFIG.methodConfig[0]?.retryPolicy.retryableStatusCodes.includes(code), repeat);
    });
  }
});

interface Watching {
  name: string;
  namespaces: string[];
  steps: {
    connect?: Record<string, string>;
    receive?: JsonValue[];
    at?: number;
    expect?: {
      documents?: Record<string, string>;
      listener?: [string, string | null, string | null][];
      tokens?: Record<string, string>;
      synced?: string[];
      age?: number | null;
    };
  }[];
}

test("a watch and its cache behave as the vectors say", async (t) => {
  for (const { name, namespaces, steps } of readVectors("watch.json") as Watching[]) {
    await t.test(name, () => {
      const places = new Places<WatchEvent>({}, (event) => event.resumeToken);
      const cache = new PolicyCache({ namespaces }, () => ({ [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => undefined) }) }));
      const nameOf = ({ topic, scope }: { topic: string; scope: Scope }): string => `${topic} ${Scope[scope]}`;
      const versionOf = (document: PolicyDocument | undefined): string | null => document?.version ?? null;
      const calls: [string, string | null, string | null][] = [];
      cache.listen((change) => calls.push([nameOf(change), versionOf(change.before), versionOf(change.after)]));
      let now = 0;
      for (const { connect, receive, at, expect } of steps) {
        if (at !== undefined) now = at * 1000;
        if (connect !== undefined) {
          for (const namespace of places.again()) cache.apply(create(WatchEventSchema, { namespace, content: BEGINS_AGAIN }), now);
          assert.deepEqual(Object.fromEntries(places.tokens), connect);
        }
        for (const each of receive ?? []) {
          const event = fromJson(WatchEventSchema, each);
          places.take(event);
          cache.apply(event, now);
        }
        if (expect?.documents) assert.deepEqual(Object.fromEntries(cache.list().map((each) => [nameOf(each), each.version])), expect.documents);
        if (expect?.listener) assert.deepEqual(calls.splice(0), expect.listener);
        if (expect?.tokens) assert.deepEqual(Object.fromEntries(places.tokens), expect.tokens);
        if (expect?.synced) assert.deepEqual(cache.syncedNamespaces.sort(), expect.synced);
        if (expect?.age !== undefined) assert.equal(cache.ageAt(now) / 1000, expect.age ?? Infinity);
      }
    });
  }
});
