import { setTimeout as sleep } from "node:timers/promises";

import { invalid } from "./errors.js";
import { whenAborted } from "./signals.js";

/** The longest time limit in ms, ten years; grpc-js refuses deadlines that are much later. A longer one means no limit. */
export const LONGEST_MS = 10 * 365 * 86_400_000;
/** The longest time in ms that a timer of Node can wait. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Throws an InvalidArgumentError if a time limit is not a number. */
export function checkLimit(timeoutMs: number): void {
  if (!Number.isNaN(timeoutMs)) return;
  throw invalid("timeoutMs", "WRONG_VALUE", "timeoutMs is a number of milliseconds, not NaN.");
}

/** Waits, though never longer than a timer can. Returns false if the signal was aborted meanwhile. */
export async function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  try {
    return await sleep(Math.min(ms, LONGEST_TIMER_MS), true, { signal });
  } catch {
    return false;
  }
}

/** Waits for a promise. Throws the error that `late` returns when the time is over, or one of the signals is aborted. */
export async function within<T>(
  promise: Promise<T>, timeoutMs: number, signals: readonly (AbortSignal | undefined)[], late: () => Error,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  let forget = (): void => undefined;
  const over = new Promise<never>((_, reject) => {
    const end = (): void => { reject(late()); };
    if (timeoutMs < LONGEST_TIMER_MS) timer = setTimeout(end, timeoutMs);
    forget = whenAborted(signals, end);
  });
  try {
    return await Promise.race([promise, over]);
  } finally {
    clearTimeout(timer);
    forget();
  }
}
