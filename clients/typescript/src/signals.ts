import { setMaxListeners } from "node:events";

/** Calls a function when one of the signals is aborted, or at once if one already is. Returns a function that removes the listeners. */
export function whenAborted(signals: readonly (AbortSignal | undefined)[], act: () => void): () => void {
  const given = signals.filter((each) => each !== undefined);
  for (const each of given) {
    // One signal may end any number of calls. Node takes more than ten for a leak, and warns of it.
    setMaxListeners(0, each);
    each.addEventListener("abort", act, { once: true });
  }
  if (given.some((each) => each.aborted)) act();
  return () => {
    for (const each of given) each.removeEventListener("abort", act);
  };
}
