import { invalid } from "./errors.js";

/** The longest time limit in ms, ten years; grpc-js refuses deadlines that are much later. A longer one means no limit. */
export const LONGEST_MS = 10 * 365 * 86_400_000;
/** The longest time in ms that a timer of Node can wait. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Throws an InvalidArgumentError if a time limit is not a number. */
export function checkLimit(timeoutMs: number): void {
  if (!Number.isNaN(timeoutMs)) return;
  throw invalid("timeoutMs", "WRONG_VALUE", "timeoutMs is a number of milliseconds, not NaN.");
}
