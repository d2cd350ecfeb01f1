import { readFileSync, statSync } from "node:fs";

import { invalid } from "./errors.js";

/** Between two looks at a file: calls are made more often than tokens change. */
const LOOK_MS = 1_000;

/**
 * The bearer token in a file, as a client's `token`. It is read anew when the file changes; while it can't be read, or has no token in it,
 * the token before stays.
 *
 * @throws what `node:fs` throws if it can't be read now, and an `InvalidArgumentError` if there is no token in it.
 */
export function tokenFile(path: string, lookMs: number = LOOK_MS): () => string {
  let seen = stampOf(path);
  let token = read(path);
  let looked = performance.now();
  return () => {
    const now = performance.now();
    if (now < looked + lookMs) return token;
    looked = now;
    try {
      const stamp = stampOf(path);
      if (stamp !== seen) {
        token = read(path);
        seen = stamp;
      }
    } catch {
      // It is looked at again: who writes it may be in the middle of it.
    }
    return token;
  };
}

/** Which file it is, when it was written, and how long it is. */
function stampOf(path: string): string {
  const { ino, mtimeNs, size } = statSync(path, { bigint: true });
  return `${ino} ${mtimeNs} ${size}`;
}

function read(path: string): string {
  const token = readFileSync(path, "utf8").trim();
  if (!/^[\x21-\x7e]+$/.test(token)) throw invalid("token", "MALFORMED_TOKEN", `The file ${path} has no bearer token in it.`);
  return token;
}
