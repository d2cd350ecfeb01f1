/**
 * The TypeScript part of the test in which all clients change one topic at once (tests/clients): it changes its own settings of the topic, and
 * prints every change.
 */
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

import { create } from "@bufbuild/protobuf";
import { InterceptingCall, type Interceptor } from "@grpc/grpc-js";

import { Client, mask } from "../src/index.js";
import { SubscriptionPoliciesSchema, type ChangeResult } from "../src/v1/index.js";

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
using client = new Client(target, { actor: "typescript", interceptors: [traced] });
let runs = 0;

await client.getPolicy({ topic });
console.log("ready");
await once(process.stdin, "data");
process.stdin.destroy();
for (let turn = 1; turn <= Number(turns); turn += 1) {
  const { previousVersion, version } = await change(turn);
  console.log(`changed ${turn} ${previousVersion} ${version}`);
  await sleep(Math.random() * 60);
}
console.log(`runs ${runs}`);

/** Makes even turns by an edit of a map entry, and odd ones by an update of a field. */
function change(turn: number): Promise<ChangeResult> {
  if (turn % 2 === 1) {
    const updateMask = mask("max_consumers_per_subscription");
    return client.updatePolicy({ topic, policies: { maxConsumersPerSubscription: turn }, updateMask });
  }
  return client.edit({ topic }, (policies) => {
    runs += 1;
    policies.subscriptionPolicies[ENTRY] = create(SubscriptionPoliciesSchema, { dispatchRate: { dispatchThrottlingRateInMsg: turn } });
  });
}
