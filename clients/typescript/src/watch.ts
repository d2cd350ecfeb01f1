import { setTimeout as sleep } from "node:timers/promises";

import { TopicPoliciesError } from "./errors.js";

/** The shortest and the longest pause before a watch that broke goes on, in milliseconds. */
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 10_000;

/** What the events of both watches have. */
interface Event {
  readonly namespace: string;
  readonly content: { readonly case?: string | undefined };
}

/** Where a watch stands, by namespace. */
export class Places<E extends Event> {
  readonly tokens: Map<string, string>;
  /** The namespaces that have sent something since they began without a token. */
  readonly #begun = new Set<string>();
  readonly #token: (event: E) => string;

  constructor(tokens: Readonly<Record<string, string>>, token: (event: E) => string) {
    this.tokens = new Map(Object.entries(tokens));
    this.#token = token;
  }

  /** Notes the place of an event. */
  take(event: E): void {
    const token = this.#token(event);
    this.#begun.add(event.namespace);
    if (event.content.case === "reset") this.tokens.delete(event.namespace);
    if (token !== "") this.tokens.set(event.namespace, token);
  }

  /** Returns the namespaces that begin again on the next stream, although they have sent something. */
  again(): string[] {
    const found = [...this.#begun].filter((each) => !this.tokens.has(each));
    for (const each of found) this.#begun.delete(each);
    return found;
  }
}

/** The content of the event that says that a namespace begins again. */
export const BEGINS_AGAIN = {
  case: "reset",
  value: { message: "The connection broke before there was a place to go on from. The namespace begins again." },
} as const;

/** Opens stream after stream and yields their events, until the reader leaves, the signal ends it, or an error comes that stays. */
export async function* follow<E extends Event>(
  places: Places<E>, reset: (namespace: string) => E,
  open: (tokens: Record<string, string>) => AsyncIterable<{ readonly events: readonly E[] }>, signal: AbortSignal | undefined,
): AsyncGenerator<E, void> {
  let pauseMs = FIRST_PAUSE_MS;
  for (;;) {
    let began = false;
    let retryAfterMs = 0;
    yield* places.again().map(reset);
    try {
      for await (const { events } of open(Object.fromEntries(places.tokens))) {
        began = true;
        for (const event of events) {
          places.take(event);
          yield event;
        }
      }
    } catch (error) {
      if (!(error instanceof TopicPoliciesError) || !error.resumable(began)) throw error;
      retryAfterMs = error.retryAfterMs;
    }
    if (began) pauseMs = FIRST_PAUSE_MS;
    await sleep(Math.max(retryAfterMs, pauseMs * (0.5 + Math.random())), undefined, { signal }).catch(() => { signal?.throwIfAborted(); });
    pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS);
  }
}
