import { create } from "@bufbuild/protobuf";

import { invalid } from "./errors.js";
import { WatchTokenSchema, type WatchToken as Message } from "./generated/topicpolicies/v1/service_pb.js";

/** A place in one namespace's change log. It is opaque but for one thing: of one partition, string order is log order. */
export interface WatchToken {
  /** The log's identity; places of different logs have nothing to do with each other. */
  readonly log: string;
  /** The position per partition; empty where nothing was read. */
  readonly positions: readonly string[];
  /** Names the topics that were left out because their policies are disabled; empty if none were. */
  readonly leftOut: string;
}

/** Where a watch is in each of its namespaces, by `tenant/namespace`. A namespace that is missing begins with a snapshot. */
export class ResumeToken {
  readonly namespaces: ReadonlyMap<string, WatchToken>;

  constructor(namespaces: Iterable<readonly [string, WatchToken]>) {
    this.namespaces = new Map(namespaces);
  }

  /** The token as one line of JSON, to be kept and given to `parse`. It is the same in all languages. */
  toString(): string {
    const names = [...this.namespaces.keys()].sort();
    const places = names.map((name) => {
      const { log = "", positions = [], leftOut = "" } = this.namespaces.get(name) ?? {};
      return `${JSON.stringify(name)}:${JSON.stringify({ log, positions, left_out: leftOut })}`;
    });
    return `{"namespaces":{${places.join(",")}}}`;
  }

  /** Reads what `toString` gave; anything else is an InvalidArgumentError, reason `MALFORMED_TOKEN`. */
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

/** Whether a position or a version stands behind another one of its log: byte by byte, which is not how texts compare here. */
export function isAfter(one: string, other: string): boolean {
  return Buffer.compare(Buffer.from(one), Buffer.from(other)) > 0;
}

/** Most positions of a token; more can't be given back. */
const MOST_PARTITIONS = 1024;

/** The token after an event at this position: the greater of the two counts. An event without a position leaves it as it is. */
export function folded(token: WatchToken, partition: number, position: string): WatchToken {
  if (partition < 0 || partition >= MOST_PARTITIONS || !isAfter(position, token.positions[partition] ?? "")) return token;
  const positions = Array.from({ length: Math.max(token.positions.length, partition + 1) }, (_, each) => token.positions[each] ?? "");
  positions[partition] = position;
  return { ...token, positions };
}
