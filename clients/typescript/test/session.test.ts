/** A watch and its cache, without I/O: the shared vectors, and cases that they lack. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { create, fromJson, type JsonObject } from "@bufbuild/protobuf";
import { status as Code } from "@grpc/grpc-js";

import { NamespaceState, ResumeToken, Scope, UnavailableError, WatchMode, type WatchEvent } from "../src/index.js";
import { Copy } from "../src/copy.js";
import { WatchSession } from "../src/session.js";
import { tokenOf } from "../src/tokens.js";
import { HistoryKind, WatchPoliciesRequestSchema, WatchPoliciesResponseSchema, WatchTokenSchema, type WatchEvent as Message } from "../src/v1/index.js";
import { readVectors } from "./sidecar.js";

interface Expected {
  documents?: Record<string, string>;
  told?: [string, string | null, string | null][];
  entries?: string[];
  tokens?: Record<string, JsonObject>;
  synced?: string[];
  states?: Record<string, [string, string | null] | null>;
  staleness?: Record<string, number | null>;
}
interface Step { connect?: Record<string, JsonObject>; receive?: JsonObject[]; at?: number; expect?: Expected }

interface Vector { name: string; namespaces: string[]; mode?: string; steps: Step[] }

const vectors = readVectors("watch.json") as Vector[];

const LOST = new UnavailableError("lost", { code: Code.UNAVAILABLE });

/** A cache without a network. */
class Player {
  readonly session: WatchSession;
  readonly copy: Copy;
  now = 0;
  streams = 0;
  calls: [string, string | null, string | null][] = [];
  entries: string[] = [];

  constructor(namespaces: string[], mode = "WATCH_MODE_LATEST") {
    this.session = new WatchSession({ namespaces, mode: fromJson(WatchPoliciesRequestSchema, { mode }).mode });
    this.copy = new Copy(namespaces, ({ topic, scope, before, after }) => {
      this.calls.push([`${topic} ${Scope[scope]}`, before?.version ?? null, after?.version ?? null]);
    });
  }

  play({ connect, receive, at, expect }: Step): void {
    if (at !== undefined) this.now = at * 1000;
    if (connect !== undefined) {
      if (this.streams > 0) this.copy.apply(this.session.broke(LOST, this.now, 0), this.now);
      this.streams += 1;
      const { request, events } = this.session.connect(this.now);
      assert.deepEqual(Object.fromEntries(Object.entries(request.resume).map(([name, token]) => [name, tokenOf(token)])), tokens(connect));
      for (const event of events) this.copy.apply(event, this.now);
    }
    if (receive !== undefined) {
      const response = fromJson(WatchPoliciesResponseSchema, { events: receive });
      for (const event of this.session.received(response, this.now)) {
        this.copy.apply(event, this.now);
        if (event.kind === "entry") this.entries.push(event.entry.position);
      }
    }
    if (expect !== undefined) this.check(expect);
  }

  private check({ documents, told, entries, tokens: places, synced, states, staleness }: Expected): void {
    if (documents !== undefined) {
      const shown = this.copy.documents().map((each) => [`${each.topic} ${Scope[each.scope]}`, each.version]);
      assert.deepEqual(Object.fromEntries(shown), documents);
    }
    if (told !== undefined) {
      assert.deepEqual(this.calls, told);
      this.calls = [];
    }
    if (entries !== undefined) {
      assert.deepEqual(this.entries, entries);
      this.entries = [];
    }
    if (places !== undefined) assert.deepEqual(Object.fromEntries(this.session.token.namespaces), tokens(places));
    if (synced !== undefined) assert.deepEqual(this.copy.synced.sort(), synced);
    for (const [namespace, state] of Object.entries(states ?? {})) {
      const found = this.copy.state(namespace, this.now);
      assert.deepEqual(found && [NamespaceState[found.state], found.reason || null], state ?? ["UNSPECIFIED", null]);
    }
    for (const [namespace, seconds] of Object.entries(staleness ?? {})) {
      const ms = namespace === "" ? this.copy.stalenessMs(this.now) : this.copy.state(namespace, this.now)?.stalenessMs;
      assert.equal(ms === Infinity ? null : (ms ?? NaN) / 1000, seconds);
    }
  }
}

function tokens(messages: Record<string, JsonObject>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(messages).map(([name, token]) => [name, tokenOf(fromJson(WatchTokenSchema, token))]));
}

test("a watch and its cache behave as the shared vectors say", async (t) => {
  assert.ok(vectors.length > 44);
  for (const { name, namespaces, mode, steps } of vectors) {
    await t.test(name, () => {
      const player = new Player(namespaces, mode);
      for (const step of steps) player.play(step);
    });
  }
});

/** Returns the events that a session delivers for one content of a namespace. */
function receive(session: WatchSession, content: Message["content"], namespace = "t/n"): WatchEvent[] {
  return [...session.received(create(WatchPoliciesResponseSchema, { events: [{ namespace, content }] }), 0)];
}

/** Parses the content of an event from JSON. */
function content(event: JsonObject): Message["content"] {
  return fromJson(WatchPoliciesResponseSchema, { events: [event] }).events[0]?.content ?? assert.fail();
}

const SYNCED = content({ bookmark: { kind: "BOOKMARK_KIND_SYNCED", token: { log: "L", positions: ["p1"] } } });

function changeAt(position: string): Message["content"] {
  return content({ change: { document: { topic: "persistent://t/n/x", scope: "SCOPE_LOCAL", version: position }, position } });
}

test("a stream that breaks within a snapshot is followed by a reset, and one that sent nothing is not", () => {
  const session = new WatchSession({ namespaces: ["t/n", "t/quiet"] });
  assert.deepEqual(session.connect(0).events, []);
  receive(session, changeAt("p1"));
  assert.deepEqual(session.connect(0).events.map(({ kind, namespace, reason }) => [kind, namespace, reason]), [["reset", "t/n", ""]]);
  receive(session, changeAt("p1"));
  receive(session, SYNCED);
  assert.deepEqual(session.connect(0).events, []);
});

test("a namespace that the token does not cover begins with a reset, once", () => {
  const resume = new ResumeToken([["t/n", { log: "L", positions: ["p1"], leftOut: "" }]]);
  const session = new WatchSession({ namespaces: ["t/n", "t/m"], resume });
  const { request, events } = session.connect(0);
  assert.deepEqual(Object.keys(request.resume), ["t/n"]);
  assert.deepEqual(events.map(({ namespace, reason, message }) => [namespace, reason, message]), [
    ["t/m", "", "The namespace t/m begins again: the token does not cover this namespace."],
  ]);
  assert.deepEqual(session.connect(0).events, []);
  assert.deepEqual(new WatchSession({ namespaces: ["t/n"] }).connect(0).events, []);
});

test("events from the beginning are no snapshot, and events after a reset are", () => {
  const session = new WatchSession({ namespaces: ["t/n"], mode: WatchMode.EVERY, fromBeginning: true });
  session.connect(0);
  const snapshots = (): unknown[] => receive(session, changeAt("p1")).map((event) => event.kind === "deleted" && event.snapshot);
  assert.deepEqual(snapshots(), [false]);
  receive(session, content({ reset: { reason: "ERROR_REASON_EVENTS_GONE" } }));
  assert.deepEqual(snapshots(), [true]);
  receive(session, SYNCED);
  assert.deepEqual(snapshots(), [false]);
});

test("entries advance the token, even those of unknown kinds", () => {
  const session = new WatchSession({ namespaces: ["t/n"], mode: WatchMode.ENTRIES });
  session.connect(0);
  receive(session, SYNCED);
  const [event] = receive(session, content({ entry: { kind: HistoryKind.UNREADABLE, position: "p2" } }));
  assert.equal(event?.kind, "entry");
  assert.deepEqual(receive(session, content({ entry: { kind: 77, position: "p3" } })), []);
  assert.deepEqual(session.token.namespaces.get("t/n")?.positions, ["p3"]);
});

test("positions are compared by their bytes, even where JavaScript orders the strings differently", () => {
  const [smaller, greater] = ["\uFFFD", "\u{1F600}"] as [string, string]; // in JavaScript's order of strings it is the other way round
  const session = new WatchSession({ namespaces: ["t/n"] });
  session.connect(0);
  receive(session, SYNCED);
  for (const position of [smaller, greater, smaller]) receive(session, changeAt(position));
  assert.deepEqual(session.token.namespaces.get("t/n")?.positions, [greater]);
});

test("a gap is delivered, and events of a namespace that was not selected are ignored", () => {
  const session = new WatchSession({ namespaces: ["t/n"], mode: WatchMode.ENTRIES });
  session.connect(0);
  const [event] = receive(session, content({ gap: { endTime: "2026-01-01T00:00:00Z", reason: "HISTORY_GAP_REASON_TRIMMED" } }));
  assert.ok(event?.kind === "gap");
  assert.deepEqual([event.gap.startTime, event.gap.endTime?.toISOString()], [undefined, "2026-01-01T00:00:00.000Z"]);
  assert.deepEqual(receive(session, SYNCED, "t/other"), []);
  assert.deepEqual([...session.token.namespaces.keys()], []);
});

test("unknown states are ignored, and unknown reasons are delivered as numbers", () => {
  const session = new WatchSession({ namespaces: ["t/n"] });
  session.connect(0);
  const status = (state: number): Message["content"] => content({ status: { state, reason: 999, message: "so" } });
  assert.deepEqual(receive(session, status(9)), []);
  const [event] = receive(session, status(NamespaceState.FAILED));
  assert.deepEqual(event, { kind: "status", namespace: "t/n", state: NamespaceState.FAILED, reason: "999", message: "so" });
});

test("a watch gives up when its patience is over", () => {
  const session = new WatchSession({ namespaces: ["t/n"], patienceMs: 1000 });
  session.connect(0);
  assert.equal(session.broke(LOST, 500, 0).attempt, 1);
  assert.throws(() => session.broke(LOST, 990, 0), UnavailableError);
});

test("a watch with endWhenSynced is done when all namespaces are synced, and not before", () => {
  const session = new WatchSession({ namespaces: ["t/n", "t/m"], endWhenSynced: true });
  session.connect(0);
  receive(session, SYNCED);
  assert.ok(!session.isDone);
  receive(session, SYNCED, "t/m");
  assert.ok(session.isDone);
  const endless = new WatchSession({ namespaces: ["t/n"] });
  endless.connect(0);
  receive(endless, SYNCED);
  assert.ok(!endless.isDone);
});

test("saved tokens are parsed, and other texts are refused", () => {
  const token = new ResumeToken([
    ["t/n", { log: "log", positions: ["1", ""], leftOut: "" }], ["t/m", { log: "log", positions: [], leftOut: "some" }],
  ]);
  const places = ['"t/m":{"log":"log","positions":[],"left_out":"some"}', '"t/n":{"log":"log","positions":["1",""],"left_out":""}'];
  const text = `{"namespaces":{${places.join()}}}`;
  assert.equal(token.toString(), text);
  assert.equal(ResumeToken.parse(text).toString(), text);
  const wrong = [
    "", "x", "{}", "[]", '{"namespaces":[]}', '{"namespaces":{"t/n":{}}}', '{"namespaces":{"t/n":{"log":1,"positions":[]}}}',
    '{"namespaces":{"t/n":{"log":"l","positions":[],"left_out":1}}}',
  ];
  for (const each of wrong) assert.throws(() => ResumeToken.parse(each), { reason: "MALFORMED_TOKEN" }, each);
});
