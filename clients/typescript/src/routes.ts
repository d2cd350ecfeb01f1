import { status as Code } from "@grpc/grpc-js";

import type { TopicPoliciesError } from "./errors.js";

/** The maximum number of namespaces whose leaders are remembered. */
export const MOST_LEADERS = 10_000;
/** The reason of an error that says that another sidecar writes the namespace. */
const NOT_LEADER = "NOT_LEADER";
/** The status codes of calls that another sidecar may be able to answer. */
const ELSEWHERE: ReadonlySet<Code> = new Set([Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED, Code.INTERNAL, Code.UNKNOWN]);

/** Whether a change was refused because another sidecar writes the namespace. It was certainly not made. */
export function refusedByFollower(error: TopicPoliciesError): boolean {
  return error.fromService && error.reason === NOT_LEADER;
}

/**
 * The addresses to which the calls of one client go, without I/O.
 *
 * Sidecars may share the namespaces of a cluster, so that each namespace is written by one of them, its leader. The others serve reads and
 * watches; they refuse a change with the reason NOT_LEADER and name the leader's address. The leader is remembered by namespace, and
 * forgotten when a call to it fails. All other calls go to one of the addresses that the client was given, and to the next one when that
 * can't be reached.
 */
export class Routes {
  #turn = 0;
  /** The addresses for changes, by namespace, where they differ from the current address; the oldest entry first. */
  readonly #writers = new Map<string, string>();

  /** @param addresses the addresses that the client was given, at least one */
  constructor(readonly addresses: readonly string[]) {}

  /** The current address, for reads and watches. */
  get address(): string {
    return this.addresses[this.#turn] ?? "";
  }

  /** Returns the address for changes of a namespace. */
  writer(namespace: string): string {
    return this.#writers.get(namespace) ?? this.address;
  }

  /**
   * Records that a call to an address failed; `namespace` is given for a change. Returns whether the error named another address, so
   * that the next attempt needs no pause.
   */
  failed(address: string, error: TopicPoliciesError, namespace?: string): boolean {
    if (namespace !== undefined && refusedByFollower(error)) {
      const leader = error.metadata["leader"] ?? "";
      this.#remember(namespace, leader || this.#after(address));
      return leader !== "" && leader !== address;
    }
    if (ELSEWHERE.has(error.code)) {
      if (namespace !== undefined) this.forget(address, namespace);
      this.leave(address);
    }
    return false;
  }

  /** Moves on to the next address, if this one is the current one. */
  leave(address: string): void {
    if (address === this.address) this.#turn = (this.#turn + 1) % this.addresses.length;
  }

  /** Forgets that a namespace is written at an address. */
  forget(address: string, namespace: string): void {
    if (this.#writers.get(namespace) === address) this.#writers.delete(namespace);
  }

  /** The address to try next in search of the leader; the current address does not change. */
  #after(address: string): string {
    const at = this.addresses.indexOf(address);
    return (at < 0 ? undefined : this.addresses[(at + 1) % this.addresses.length]) ?? this.address;
  }

  #remember(namespace: string, writer: string): void {
    this.#writers.delete(namespace);
    const [oldest] = this.#writers.keys();
    if (oldest !== undefined && this.#writers.size >= MOST_LEADERS) this.#writers.delete(oldest);
    this.#writers.set(namespace, writer);
  }
}

/** Splits a target into addresses, separated by commas. A target with a scheme is one address, which gRPC resolves. */
export function addressesOf(target: string): readonly string[] {
  if (/^(ipv4|ipv6|unix|unix-abstract|dns|vsock|xds):/.test(target) || target.includes("://")) return [target];
  const addresses = target.split(",").map((part) => part.trim()).filter((part) => part !== "");
  return addresses.length > 0 ? addresses : [target];
}
