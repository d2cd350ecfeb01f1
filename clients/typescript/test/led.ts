/** Changes a document over mutual TLS at a sidecar that does not write its namespace; for a test in tests/clients. */
import { readFileSync } from "node:fs";

import { Client } from "../src/index.js";

const [target = "", ca = "", certificate = "", key = ""] = process.argv.slice(2);
const tls = { ca: readFileSync(ca), certificate: readFileSync(certificate), key: readFileSync(key), serverName: "policies.test" };
const client = new Client(target, { tls, timeoutMs: 20_000 });
const { previousVersion, document } = await client.update("persistent://public/default/x", { maxProducerPerTopic: 5 });
client.close();
console.log(`from version ${previousVersion} to ${document?.policies?.maxProducerPerTopic ?? "nothing"}`);
