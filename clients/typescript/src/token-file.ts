import { readFileSync, statSync } from "node:fs";

import { invalid } from "./errors.js";

/** The time between two checks of a file: calls are made more often than tokens change. */
const LOOK_MS = 1_000;

/**
 * Returns a function for a client's `token` that reads the bearer token from a file. The file is read again when it changes; while it can't
 * be read, or has no token in it, the last token stays in use.
 *
 * @throws what `node:fs` throws if the file can't be read now, and an `InvalidArgumentError` if it has no token in it
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
      // The file is checked again: its writer may be in the middle of writing.
    }
    return token;
  };
}

/** The file's inode, modification time and size, which change when the file is replaced or written. */
function stampOf(path: string): string {
  const { ino, mtimeNs, size } = statSync(path, { bigint: true });
  return `${ino} ${mtimeNs} ${size}`;
}

function read(path: string): string {
  const token = readFileSync(path, "utf8").trim();
  if (!/^[\x21-\x7e]+$/.test(token)) throw invalid("token", "MALFORMED_TOKEN", `The file ${path} has no bearer token in it.`);
  return token;
}
