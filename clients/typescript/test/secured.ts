/** Reads a document over mutual TLS, and over TLS with what the server must refuse; for the test of it in tests/clients. */
import { readFileSync } from "node:fs";

import { Client, NO_RETRIES, UnavailableError, type Tls } from "../src/index.js";

const [target = "", ca = "", certificate = "", key = ""] = process.argv.slice(2);
const anonymous: Tls = { ca: readFileSync(ca), serverName: "policies.test" };
const good: Tls = { ...anonymous, certificate: readFileSync(certificate), key: readFileSync(key) };

async function said(tls: Tls): Promise<string> {
  const client = new Client(target, { tls, retries: NO_RETRIES, timeoutMs: 10_000 });
  try {
    return `version ${(await client.get("persistent://public/default/x")).version}`;
  } catch (error) {
    return error instanceof UnavailableError ? "refused" : String(error);
  } finally {
    client.close();
  }
}

console.log(await said(good));
console.log(await said({ ...good, serverName: "somebody.else" }));
console.log(await said(anonymous));
