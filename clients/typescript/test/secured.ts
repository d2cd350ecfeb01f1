/** Reads a document over mutual TLS, and over TLS with options that must be refused; for a test in tests/clients. */
import { readFileSync } from "node:fs";

import { Client, TopicPoliciesError, type Tls } from "../src/index.js";

const [target = "", ca = "", certificate = "", key = ""] = process.argv.slice(2);
const anonymous: Tls = { ca: readFileSync(ca), serverName: "policies.test" };
const good: Tls = { ...anonymous, certificate: readFileSync(certificate), key: readFileSync(key) };

async function outcome(tls: Tls): Promise<string> {
  using client = new Client(target, { tls, timeoutMs: 10_000 });
  try {
    return `version ${(await client.getPolicy({ topic: "persistent://public/default/x" })).version}`;
  } catch (error) {
    return error instanceof TopicPoliciesError && error.kind === "unavailable" ? "refused" : String(error);
  }
}

console.log(await outcome(good));
console.log(await outcome({ ...good, serverName: "another.test" }));
console.log(await outcome(anonymous));
