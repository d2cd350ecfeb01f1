import type { Timestamp } from "@bufbuild/protobuf/wkt";

/**
 * Computes how far the confirmed time of one namespace lies behind the newest confirmed time of one stream. Both times are of the server's
 * clock, so that the server's clock and this machine's are never compared.
 */
export class Freshness {
  #newest = -Infinity;

  /** Records a confirmed time and returns its lag in ms; infinite if the server sent no time. */
  lagMs(confirmed: Timestamp | undefined): number {
    if (confirmed === undefined) return Infinity;
    const ms = Number(confirmed.seconds) * 1000 + confirmed.nanos / 1e6;
    this.#newest = Math.max(this.#newest, ms);
    return this.#newest - ms;
  }
}
