import { create } from "@bufbuild/protobuf";

import { invalid } from "./errors.js";
import { WatchTokenSchema, type WatchToken as Message } from "./generated/topicpolicies/v1/service_pb.js";

/** A place in one namespace's change log. It is opaque but for one thing: of one partition, string order is log order. */
export interface WatchToken {
  /** The log's identity; places of different logs have nothing to do with each other. */
  readonly log: string;
  /** The position per partition; empty where nothing was read. */
  readonly positions: readonly string[];
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
      const token = this.namespaces.get(name);
      return `${JSON.stringify(name)}:${JSON.stringify({ log: token?.log, positions: token?.positions })}`;
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
      if (!isToken(place)) throw invalid("resume", "MALFORMED_TOKEN", problem);
      return [name, { log: place.log, positions: [...place.positions] }];
    });
    return new ResumeToken(tokens);
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isToken(value: unknown): value is WatchToken {
  if (!isObject(value) || typeof value["log"] !== "string" || !Array.isArray(value["positions"])) return false;
  return value["positions"].every((each) => typeof each === "string");
}

export function tokenOf(message: Message | undefined): WatchToken {
  return { log: message?.log ?? "", positions: [...(message?.positions ?? [])] };
}

export function messageOf(token: WatchToken): Message {
  return create(WatchTokenSchema, { log: token.log, positions: [...token.positions] });
}

/** The position in a partition; empty if nothing was read there. */
export function positionAt(token: WatchToken | undefined, partition: number): string {
  return token?.positions[partition] ?? "";
}

/** Bounds what a broken answer can make a token grow to. */
const MOST_PARTITIONS = 1 << 16;

/** The token after a change at this position: the greater of the two counts. */
export function folded(token: WatchToken, partition: number, position: string): WatchToken {
  if (position <= positionAt(token, partition) || partition < 0 || partition >= MOST_PARTITIONS) return token;
  const positions = Array.from({ length: Math.max(token.positions.length, partition + 1) }, (_, each) => token.positions[each] ?? "");
  positions[partition] = position;
  return { log: token.log, positions };
}
