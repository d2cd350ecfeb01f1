/**
 * The TypeScript client of the topic policies sidecar for Apache Pulsar, for Node.
 *
 * A `Client` does four things that nobody should write by hand: `update` changes the fields that a mask names, `edit` runs a function on a copy and
 * sends what differs, `watch` follows documents and resumes by itself, and `cache` keeps an always current copy in memory.
 *
 * @packageDocumentation
 */
export { PolicyCache, type Change, type NamespaceState } from "./cache.js";
export {
  Client, type CallLimits, type ClientOptions, type DeleteResult, type UpdateOptions, type UpdateResult,
} from "./client.js";
export { DEFAULT_TARGET, type ConnectionOptions, type Tls } from "./connection.js";
export * from "./errors.js";
export type * from "./events.js";
export { Scope } from "./generated/topicpolicies/v1/events_pb.js";
export { TopicPoliciesSchema, type TopicPolicies } from "./generated/topicpolicies/v1/policies_pb.js";
export { DeleteOutcome, ListOperation, UpdateOutcome, WatchMode } from "./generated/topicpolicies/v1/service_pb.js";
export { path, pathsBetween, pathsOf } from "./masks.js";
export { DEFAULT_RETRIES, NO_RETRIES, type RetryPolicy } from "./retries.js";
export type { Selection } from "./session.js";
export { ResumeToken, type WatchToken } from "./tokens.js";
export type { Document, PoliciesInit } from "./types.js";
export { Watch } from "./watch.js";
