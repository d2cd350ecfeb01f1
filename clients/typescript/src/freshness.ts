import type { Timestamp } from "@bufbuild/protobuf/wkt";

/**
 * How far what is told of one namespace lies behind what is told of all, on one stream. Both are the server's clock, so that it and this
 * machine's are never compared.
 */
export class Freshness {
  #newest = -Infinity;

  /** The lag of what was confirmed then, in ms; infinite if the server did not say when. */
  lagMs(confirmed: Timestamp | undefined): number {
    if (confirmed === undefined) return Infinity;
    const ms = Number(confirmed.seconds) * 1000 + confirmed.nanos / 1e6;
    this.#newest = Math.max(this.#newest, ms);
    return this.#newest - ms;
  }
}
