import { status as Code } from "@grpc/grpc-js";

import type { TopicPoliciesError } from "./errors.js";

/** Namespaces whose leaders are remembered. */
export const MOST_LEADERS = 10_000;
/** Reason: another sidecar writes the namespace. */
const NOT_LEADER = "NOT_LEADER";
/** How calls fail that another sidecar may answer. */
const ELSEWHERE: ReadonlySet<Code> = new Set([Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED, Code.INTERNAL, Code.UNKNOWN]);

/** Whether a change was refused, and certainly not made, because another sidecar writes the namespace. */
export function refusedByFollower(error: TopicPoliciesError): boolean {
  return error.fromService && error.reason === NOT_LEADER;
}

/**
 * Where the calls of one client go, without I/O.
 *
 * Sidecars may share the namespaces of a cluster so that each is written by one of them, its leader. The others serve reads and watches; a
 * change they refuse with the reason NOT_LEADER, and name the leader's address. It is remembered by namespace, and forgotten when it fails.
 * Everything else goes to one of the addresses that the client was given, and on to the next one when that can't be reached.
 */
export class Routes {
  #turn = 0;
  /** Where the changes of a namespace go, if not to the address whose turn it is; the oldest first. */
  readonly #writers = new Map<string, string>();

  /** @param addresses those that the client was given, at least one */
  constructor(readonly addresses: readonly string[]) {}

  /** Where to read and to watch. */
  get address(): string {
    return this.addresses[this.#turn] ?? "";
  }

  /** Where to change something of a namespace. */
  writer(namespace: string): string {
    return this.#writers.get(namespace) ?? this.address;
  }

  /**
   * Takes note that a call to an address has failed; `namespace` is that of a change. Gives whether the error named another address, so
   * that there is no need to wait before it is tried.
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

  /** Goes on to the next address, if it is this one's turn. */
  leave(address: string): void {
    if (address === this.address) this.#turn = (this.#turn + 1) % this.addresses.length;
  }

  /** Forgets that a namespace is written at an address. */
  forget(address: string, namespace: string): void {
    if (this.#writers.get(namespace) === address) this.#writers.delete(namespace);
  }

  /** Whom to ask next for the leader; reads do not move. */
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

/** The addresses in a target: several are separated by commas. What has a scheme is one, and gRPC's own business. */
export function addressesOf(target: string): readonly string[] {
  if (/^(ipv4|ipv6|unix|unix-abstract|dns|vsock|xds):/.test(target) || target.includes("://")) return [target];
  const addresses = target.split(",").map((part) => part.trim()).filter((part) => part !== "");
  return addresses.length > 0 ? addresses : [target];
}
