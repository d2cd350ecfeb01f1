/**
 * The TypeScript part of the test in which all clients change one topic at once (tests/clients): it changes its own settings of the topic, and
 * prints every change.
 */
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

import { create } from "@bufbuild/protobuf";
import { InterceptingCall, type Interceptor } from "@grpc/grpc-js";

import { Client, ConflictError, type UpdateResult } from "../src/index.js";
import { SubscriptionPoliciesSchema } from "../src/v1/index.js";

const ENTRY = "of typescript.1"; // a key that needs backticks
const [target = "", topic = "", turns = "0"] = process.argv.slice(2);
const { TRACEPARENT: traceParent } = process.env;
/** Adds the trace to each call, as an instrumentation does. */
const traced: Interceptor = (options, next) => new InterceptingCall(next(options), {
  start(metadata, listener, go) {
    if (traceParent !== undefined) metadata.set("traceparent", traceParent);
    go(metadata, listener);
  },
});
const client = new Client(target, { actor: "typescript", interceptors: [traced] });
let runs = 0;

await client.get(topic);
console.log("ready");
await once(process.stdin, "data");
process.stdin.destroy();
for (let turn = 1; turn <= Number(turns); turn += 1) {
  const { previousVersion, document } = await change(turn);
  console.log(`changed ${turn} ${previousVersion} ${document?.version ?? ""}`);
  await sleep(Math.random() * 60);
}
console.log(`runs ${runs}`);
client.close();

/** Makes even turns by an edit of a map entry, and odd ones by an update of a field. */
async function change(turn: number): Promise<UpdateResult> {
  if (turn % 2 === 1) return client.update(topic, { maxConsumersPerSubscription: turn }, { mask: ["max_consumers_per_subscription"] });
  for (;;) {
    try {
      return await client.edit(topic, (policies) => {
        runs += 1;
        policies.subscriptionPolicies[ENTRY] = create(SubscriptionPoliciesSchema, { dispatchRate: { dispatchThrottlingRateInMsg: turn } });
      });
    } catch (error) {
      if (!(error instanceof ConflictError)) throw error; // edit gave up after many conflicts; nothing was lost, so try again
    }
  }
}
