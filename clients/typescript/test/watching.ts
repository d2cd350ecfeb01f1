import assert from "node:assert/strict";

import type { Watch, WatchEvent } from "../src/index.js";

/** Returns the next event, which must be of this kind; timed bookmarks and states before it are skipped. */
export async function only<Kind extends WatchEvent["kind"]>(watch: Watch, kind: Kind): Promise<WatchEvent & { kind: Kind }> {
  for (;;) {
    const { value, done } = await watch.next();
    assert.ok(done !== true, "the watch has ended");
    if (is(value, kind)) return value;
    assert.ok(value.kind === "bookmark" || value.kind === "status", `it is ${value.kind}, not ${kind}`);
  }
}

function is<Kind extends WatchEvent["kind"]>(event: WatchEvent, kind: Kind): event is WatchEvent & { kind: Kind } {
  return event.kind === kind;
}
