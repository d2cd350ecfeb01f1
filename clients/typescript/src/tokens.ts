import { create } from "@bufbuild/protobuf";

import { invalid } from "./errors.js";
import { WatchTokenSchema, type WatchToken as Message } from "./generated/topicpolicies/v1/service_pb.js";

/** A place in the change log of one namespace. It is opaque, except that the positions of one partition compare as strings in log order. */
export interface WatchToken {
  /** The log's identity; places in different logs can't be compared. */
  readonly log: string;
  /** The position per partition; empty where nothing was read. */
  readonly positions: readonly string[];
  /** Identifies the topics that were left out because their policies are disabled; empty if there were none. */
  readonly leftOut: string;
}

/** The place of a watch in each of its namespaces, by `tenant/namespace`. A namespace without an entry begins with a snapshot. */
export class ResumeToken {
  readonly namespaces: ReadonlyMap<string, WatchToken>;

  constructor(namespaces: Iterable<readonly [string, WatchToken]>) {
    this.namespaces = new Map(namespaces);
  }

  /** Returns the token as one line of JSON, to be saved and passed to `parse`. The format is the same in all clients. */
  toString(): string {
    const names = [...this.namespaces.keys()].sort();
    const places = names.map((name) => {
      const { log = "", positions = [], leftOut = "" } = this.namespaces.get(name) ?? {};
      return `${JSON.stringify(name)}:${JSON.stringify({ log, positions, left_out: leftOut })}`;
    });
    return `{"namespaces":{${places.join(",")}}}`;
  }

  /** Parses the output of `toString`. Throws an InvalidArgumentError with the reason `MALFORMED_TOKEN` for any other text. */
  static parse(text: string): ResumeToken {
    const problem = "This is not a saved watch token. Begin without one: the watch starts with a snapshot.";
    let read: unknown;
    try {
      read = JSON.parse(text);
    } catch {
      throw invalid("resume", "MALFORMED_TOKEN", problem);
    }
    const namespaces = isObject(read) ? read["namespaces"] : undefined;
    if (!isObject(namespaces)) throw invalid("resume", "MALFORMED_TOKEN", problem);
    const tokens = Object.entries(namespaces).map(([name, place]): [string, WatchToken] => {
      if (!isSaved(place)) throw invalid("resume", "MALFORMED_TOKEN", problem);
      return [name, { log: place.log, positions: [...place.positions], leftOut: place.left_out ?? "" }];
    });
    return new ResumeToken(tokens);
  }
}

interface Saved { log: string; positions: string[]; left_out?: string }

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isSaved(value: unknown): value is Saved {
  if (!isObject(value) || typeof value["log"] !== "string" || !Array.isArray(value["positions"])) return false;
  const leftOut = value["left_out"];
  return value["positions"].every((each) => typeof each === "string") && (leftOut === undefined || typeof leftOut === "string");
}

export function tokenOf(message: Message | undefined): WatchToken {
  return { log: message?.log ?? "", positions: [...(message?.positions ?? [])], leftOut: message?.leftOut ?? "" };
}

export function messageOf({ log, positions, leftOut }: WatchToken): Message {
  return create(WatchTokenSchema, { log, positions: [...positions], leftOut });
}

/** Whether a position or version comes after another one of the same log: byte by byte, unlike JavaScript's comparison of strings. */
export function isAfter(one: string, other: string): boolean {
  return Buffer.compare(Buffer.from(one), Buffer.from(other)) > 0;
}

/** The maximum number of positions of a token that the service accepts. */
const MOST_PARTITIONS = 1024;

/**
 * Returns the token after an event at this position: the greater of the two positions is kept. An event without a position does not change
 * the token.
 */
export function folded(token: WatchToken, partition: number, position: string): WatchToken {
  if (partition < 0 || partition >= MOST_PARTITIONS || !isAfter(position, token.positions[partition] ?? "")) return token;
  const positions = Array.from({ length: Math.max(token.positions.length, partition + 1) }, (_, each) => token.positions[each] ?? "");
  positions[partition] = position;
  return { ...token, positions };
}
