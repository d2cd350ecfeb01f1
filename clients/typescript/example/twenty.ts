/** The twenty tasks that every client does alike (tests/clients/twenty.md): `twenty ADDRESS NAMESPACE`, on an empty namespace. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import { status as Code } from "@grpc/grpc-js";

import { Client, mask, TopicPoliciesError, type MaskPath } from "../src/index.js";
import {
  ChangeOutcome, ListOperation, LogKind, PolicySource, Scope, SubscriptionType, type ChangeResult, type HistoryEntry, type PolicyDocument,
  type UpdatePolicyRequestSchema,
} from "../src/v1/index.js";

type Update = MessageInitShape<typeof UpdatePolicyRequestSchema>;

const LIMIT_MS = 30_000;
const [address = "", namespace = ""] = process.argv.slice(2);
const client = new Client(address, { timeoutMs: LIMIT_MS });
const [a, b, c] = ["a", "b", "c"].map((name) => `persistent://${namespace}/${name}`) as [string, string, string];
let printed = 0;

try {
  const first = await oneDocument();
  await refusals();
  await manyDocuments(first);
  await following();
} catch (error) {
  console.error(`${printed + 1} failed: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
} finally {
  client.close();
}

/** Lines 01 to 08; returns the version of the first update. */
async function oneDocument(): Promise<string> {
  const beginning = { requestId: "0123456789abcdef0123456789abcdef", actor: "tour", reason: "first" };
  const first = await set(a, 5, beginning);
  print("update", ChangeOutcome[first.outcome], replayed(first));
  const again = await set(a, 5, beginning);
  print("repeat", ChangeOutcome[again.outcome], replayed(again), again.version === first.version ? "same version" : "other version");
  print("unchanged", ChangeOutcome[(await set(a, 5)).outcome]);
  const would = await set(a, 6, { validateOnly: true });
  print("dry run", ChangeOutcome[would.outcome], fieldOf(would.document), fieldOf(await client.getPolicy({ topic: a })));

  await client.updatePolicy({ topic: a, policies: { retentionPolicies: { retentionTimeInMinutes: 10, retentionSizeInMb: 100n } } });
  await set(a, 7);
  const kept = await client.getPolicy({ topic: a });
  print("no mask", fieldOf(kept), kept.policies?.retentionPolicies?.retentionTimeInMinutes);
  const leaves = mask("retention_policies.retention_time_in_minutes", "retention_policies.retention_size_in_mb");
  await client.updatePolicy({ topic: a, updateMask: leaves });
  print("clear", (await client.getPolicy({ topic: a })).policies?.retentionPolicies === undefined ? "unset" : "set");

  await types(ListOperation.REPLACE, SubscriptionType.SHARED);
  const union = await types(ListOperation.UNION, SubscriptionType.FAILOVER, SubscriptionType.SHARED);
  const left = await types(ListOperation.SUBTRACT, SubscriptionType.SHARED);
  print("list", typesOf(union.document), typesOf(await client.getPolicy({ topic: a })));
  const late = await refused(set(a, 8, { precondition: { condition: { case: "version", value: left.previousVersion } } }));
  print("version", late.reason, Code[late.code]);
  return first.version;
}

/** Lines 09 to 12. */
async function refusals(): Promise<void> {
  const exists = await refused(set(a, 8, { precondition: { condition: { case: "exists", value: false } } }));
  print("absent", exists.reason, Code[exists.code]);
  print("skip", ChangeOutcome[(await set(b, 1, { skipIfAbsent: true })).outcome]);
  const unknown = ["nope", "also.nope"] as string[] as MaskPath[];
  const { code, violations } = await refused(client.updatePolicy({ topic: a, updateMask: mask(...unknown) }));
  print("violations", Code[code], violations.map((each) => each.field).join(), violations.map((each) => each.reason).join());
  const added = await client.edit({ topic: a }, (policies) => {
    policies.maxProducerPerTopic = (policies.maxProducerPerTopic ?? 0) + 1;
  });
  const nothing = await client.edit({ topic: a }, () => undefined);
  print("edit", ChangeOutcome[added.outcome], fieldOf(added.document), ChangeOutcome[nothing.outcome]);
}

/** Lines 13 to 18. */
async function manyDocuments(first: string): Promise<void> {
  const m = (number: number): string => `persistent://${namespace}/m${number}`;
  const updates: Update[] = Array.from({ length: 200 }, (_, number) => ({ topic: m(number % 10), policies: { maxProducerPerTopic: number } }));
  updates.push({ topic: m(0), updateMask: mask("nope" as string as MaskPath) });
  const results = await client.batch(updates.map((value) => ({ change: { case: "update", value } as const })));
  const applied = results.filter(({ result }) => result?.outcome === ChangeOutcome.APPLIED);
  const failures = results.flatMap(({ error }) => error ?? []);
  const last = await client.getPolicy({ topic: m(0) });
  print("batch", applied.length, failures.length, failures.map((each) => each.reason).join(), fieldOf(last));

  const inGlobal = { topic: c, scope: Scope.GLOBAL };
  await set(c, 3, inGlobal);
  const local = await client.getPolicy({ topic: c });
  const global = await client.getPolicy(inGlobal);
  print("scopes", ...[local, global].map((each) => `${Scope[each.scope]} ${each.policies === undefined ? "absent" : fieldOf(each)}`));
  print("as of", fieldOf(await client.getPolicyAsOf({ topic: a, asOf: { case: "version", value: first } })));
  const { policies, sources } = await client.getEffectivePolicy({ topic: c });
  const source = sources.find(({ path }) => path === "max_producer_per_topic")?.source;
  print("effective", policies?.maxProducerPerTopic, PolicySource[source ?? PolicySource.UNSPECIFIED]);
  const documents: string[] = [];
  for await (const { topic, scope } of client.listPolicies({ namespace })) documents.push(`${topic.split("/").at(-1) ?? ""} ${Scope[scope]}`);
  print("list documents", documents.join());

  const at = (value: string) => ({ ...inGlobal, precondition: { condition: { case: "version", value } } } as const);
  const wrong = await refused(client.deletePolicy(at(local.version)));
  const deleted = await client.deletePolicy(at(global.version));
  const again = await client.deletePolicy(inGlobal);
  print("delete", wrong.reason, ChangeOutcome[deleted.outcome], ChangeOutcome[again.outcome]);
}

/** Lines 19 and 20. */
async function following(): Promise<void> {
  await using cache = client.cache({ namespaces: [namespace] });
  await cache.synced(AbortSignal.timeout(LIMIT_MS));
  const change = new Promise<[string, string]>((resolve, reject) => {
    AbortSignal.timeout(LIMIT_MS).addEventListener("abort", () => { reject(new Error("The listener received no change.")); });
    cache.listen(({ topic, before, after }) => {
      if (topic === a && fieldOf(after) === "40") resolve([fieldOf(before), fieldOf(after)]);
    });
  });
  await set(a, 40);
  print("watch and cache", ...(await change), fieldOf(cache.get(`${namespace}/a`)), cache.ageMs < 60_000 ? "fresh" : "stale");

  const entries: HistoryEntry[] = [];
  for await (const { content } of client.watchHistory({ namespaces: [namespace] }, { signal: AbortSignal.timeout(LIMIT_MS) })) {
    if (content.case === "bookmark" && content.value.synced) break;
    if (content.case === "entry" && content.value.document?.topic === a) entries.push(content.value);
  }
  const chained = entries.slice(1).every((each, at) => each.previous?.version === entries[at]?.document?.version);
  const origin = entries[0]?.origin;
  const { log } = await client.getServerInfo();
  print("history", entries.length, chained ? "chained" : "not chained", origin?.actor, origin?.reason, LogKind[log]);
}

function print(what: string, ...results: (string | number | undefined)[]): void {
  printed += 1;
  console.log(`${String(printed).padStart(2, "0")} ${what}: ${results.map((each) => each ?? "unset").join(", ")}`);
}

function set(topic: string, maxProducerPerTopic: number, more: Update = {}): Promise<ChangeResult> {
  return client.updatePolicy({ topic, policies: { maxProducerPerTopic }, ...more } as Update);
}

function fieldOf(document: PolicyDocument | undefined): string {
  return String(document?.policies?.maxProducerPerTopic ?? "unset");
}

function types(operation: ListOperation, ...subscriptionTypesEnabled: SubscriptionType[]): Promise<ChangeResult> {
  return client.updatePolicy({ topic: a, policies: { subscriptionTypesEnabled }, listOperations: { subscription_types_enabled: operation } });
}

function typesOf(document: PolicyDocument | undefined): string {
  return (document?.policies?.subscriptionTypesEnabled ?? []).map((each) => SubscriptionType[each]).join();
}

function replayed(result: ChangeResult): string {
  return result.replayed ? "replayed" : "new";
}

/** Returns the error with which a call is refused. */
async function refused(call: Promise<unknown>): Promise<TopicPoliciesError> {
  const error = await call.then(() => undefined, (thrown: unknown) => thrown);
  if (error instanceof TopicPoliciesError) return error;
  throw error instanceof Error ? error : new Error("It was not refused.");
}
