/** Reads a document over mutual TLS, and over TLS with options that must be refused; for a test in tests/clients. */
import { readFileSync } from "node:fs";

import { Client, NO_RETRIES, UnavailableError, type Tls } from "../src/index.js";

const [target = "", ca = "", certificate = "", key = ""] = process.argv.slice(2);
const anonymous: Tls = { ca: readFileSync(ca), serverName: "policies.test" };
const good: Tls = { ...anonymous, certificate: readFileSync(certificate), key: readFileSync(key) };

async function outcome(tls: Tls): Promise<string> {
  const client = new Client(target, { tls, retries: NO_RETRIES, timeoutMs: 10_000 });
  try {
    return `version ${(await client.get("persistent://public/default/x")).version}`;
  } catch (error) {
    return error instanceof UnavailableError ? "refused" : String(error);
  } finally {
    client.close();
  }
}

console.log(await outcome(good));
console.log(await outcome({ ...good, serverName: "another.test" }));
console.log(await outcome(anonymous));
