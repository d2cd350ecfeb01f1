/** The twenty tasks that every client does alike (tests/clients/twenty.md): `twenty ADDRESS NAMESPACE`, on an empty namespace. */
import { status as Code } from "@grpc/grpc-js";

import {
  Client, DeleteOutcome, ListOperation, LogKind, PolicySource, Scope, TopicPoliciesError, UpdateOutcome, WatchMode,
  type Changed, type Deleted, type Document, type MaskPath, type Update, type UpdateResult,
} from "../src/index.js";
import { SubscriptionType } from "../src/v1/index.js";

const LIMIT_MS = 30_000;
const FIRST = "0123456789abcdef0123456789abcdef";

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
  const beginning = { requestId: FIRST, actor: "tour", reason: "first" };
  const first = await client.update(a, field(5), beginning);
  print("update", UpdateOutcome[first.outcome], replayed(first));
  const again = await client.update(a, field(5), beginning);
  const same = again.document?.version === first.document?.version;
  print("repeat", UpdateOutcome[again.outcome], replayed(again), same ? "same version" : "other version");
  print("unchanged", UpdateOutcome[(await client.update(a, field(5))).outcome]);
  const would = await client.update(a, field(6), { validateOnly: true });
  print("dry run", UpdateOutcome[would.outcome], fieldOf(would.document), fieldOf(await client.get(a)));

  await client.update(a, { retentionPolicies: { retentionTimeInMinutes: 10, retentionSizeInMb: 100n } });
  await client.update(a, field(7));
  const kept = await client.get(a);
  print("no mask", fieldOf(kept), kept.policies?.retentionPolicies?.retentionTimeInMinutes);
  await client.update(a, {}, { mask: ["retention_policies.retention_time_in_minutes", "retention_policies.retention_size_in_mb"] });
  print("clear", (await client.get(a)).policies?.retentionPolicies === undefined ? "unset" : "set");

  await types(ListOperation.REPLACE, SubscriptionType.SHARED);
  const union = await types(ListOperation.UNION, SubscriptionType.FAILOVER, SubscriptionType.SHARED);
  const left = await types(ListOperation.SUBTRACT, SubscriptionType.SHARED);
  print("list", typesOf(union.document), typesOf(await client.get(a)));
  const late = await refused(client.update(a, field(8), { etag: left.previousVersion }));
  print("etag", late.reason, Code[late.code]);
  return first.document?.version ?? "";
}

/** Lines 09 to 12. */
async function refusals(): Promise<void> {
  const exists = await refused(client.update(a, field(8), { mustNotExist: true }));
  print("must not exist", exists.reason, Code[exists.code]);
  print("skip", UpdateOutcome[(await client.update(b, field(1), { skipIfAbsent: true })).outcome]);
  const { code, violations } = await refused(client.update(a, {}, { mask: ["nope", "also.nope"] as string[] as MaskPath[] }));
  print("violations", Code[code], violations.map((each) => each.field).join(), violations.map((each) => each.reason).join());
  const added = await client.edit(a, (policies) => {
    policies.maxProducerPerTopic = (policies.maxProducerPerTopic ?? 0) + 1;
  });
  const nothing = await client.edit(a, () => undefined);
  print("edit", UpdateOutcome[added.outcome], fieldOf(added.document), UpdateOutcome[nothing.outcome]);
}

/** Lines 13 to 18. */
async function manyDocuments(first: string): Promise<void> {
  const m = (number: number): string => `persistent://${namespace}/m${number}`;
  const changes = Array.from({ length: 200 }, (_, number): Update => ({ topic: m(number % 10), policies: field(number) }));
  changes.push({ topic: m(0), policies: {}, mask: ["nope" as string as MaskPath] });
  let applied = 0;
  const failures: TopicPoliciesError[] = [];
  for await (const settled of client.updateMany(changes)) {
    if (settled.kind === "failed") failures.push(settled.error);
    else if (settled.kind === "updated" && settled.result.outcome === UpdateOutcome.APPLIED) applied += 1;
  }
  print("many", applied, failures.length, failures.map((each) => each.reason).join(), fieldOf(await client.get(m(0))));

  await client.update(c, field(3), { scope: Scope.GLOBAL });
  const { local, global } = await client.getBoth(c);
  print("scopes", ...[local, global].map((each) => `${Scope[each.scope]} ${each.policies === undefined ? "absent" : fieldOf(each)}`));
  print("as of", fieldOf(await client.get(a, { asOfVersion: first })));
  const { policies, sources } = await client.effective(c);
  print("effective", policies.maxProducerPerTopic, PolicySource[sources.get("max_producer_per_topic") ?? PolicySource.UNSPECIFIED]);
  const documents: string[] = [];
  for await (const { topic, scope } of client.list(namespace)) documents.push(`${topic.split("/").at(-1) ?? ""} ${Scope[scope]}`);
  print("list documents", documents.join());

  const wrong = await refused(client.delete(c, { scope: Scope.GLOBAL, etag: local.version }));
  const deleted = await client.delete(c, { scope: Scope.GLOBAL, etag: global.version });
  const again = await client.delete(c, { scope: Scope.GLOBAL });
  print("delete", wrong.reason, DeleteOutcome[deleted.outcome], DeleteOutcome[again.outcome]);
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
  await client.update(a, field(40));
  print("watch and cache", ...(await change), fieldOf(cache.get(`${namespace}/a`)), cache.stalenessMs < 60_000 ? "fresh" : "stale");

  const changes: (Changed | Deleted)[] = [];
  const every = { topics: [a], mode: WatchMode.EVERY, fromBeginning: true, endWhenSynced: true, signal: AbortSignal.timeout(LIMIT_MS) };
  for await (const event of client.watch(every)) {
    if (event.kind === "changed" || event.kind === "deleted") changes.push(event);
    else if (event.kind === "reset") changes.length = 0;
  }
  const chained = changes.slice(1).every((each, at) => each.previousVersion === changes[at]?.document.version);
  const origin = changes[0]?.origin;
  const { log } = await client.serverInfo();
  print("every change", changes.length, chained ? "chained" : "broken", origin?.actor, origin?.reason, LogKind[log]);
}

function print(what: string, ...results: (string | number | undefined)[]): void {
  printed += 1;
  console.log(`${String(printed).padStart(2, "0")} ${what}: ${results.map((each) => each ?? "unset").join(", ")}`);
}

function field(maxProducerPerTopic: number): { maxProducerPerTopic: number } {
  return { maxProducerPerTopic };
}

function fieldOf(document: Document | undefined): string {
  return String(document?.policies?.maxProducerPerTopic ?? "unset");
}

function types(operation: ListOperation, ...subscriptionTypesEnabled: SubscriptionType[]): Promise<UpdateResult> {
  return client.update(a, { subscriptionTypesEnabled }, { listOperations: { subscription_types_enabled: operation } });
}

function typesOf(document: Document | undefined): string {
  return (document?.policies?.subscriptionTypesEnabled ?? []).map((each) => SubscriptionType[each]).join();
}

function replayed(result: UpdateResult): string {
  return result.replayed ? "replayed" : "new";
}

/** Returns the error with which a call is refused. */
async function refused(call: Promise<unknown>): Promise<TopicPoliciesError> {
  const error = await call.then(() => undefined, (thrown: unknown) => thrown);
  if (error instanceof TopicPoliciesError) return error;
  throw error instanceof Error ? error : new Error("It was not refused.");
}
