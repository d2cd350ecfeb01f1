/**
 * The TypeScript client of the topic policies sidecar for Apache Pulsar, for Node.
 *
 * The main class is `Client`: `update` changes what a mask names, `edit` runs a function on a copy and sends the difference, `updateMany`
 * makes many changes over one stream, `watch` follows documents and resumes by itself, and `cache` keeps a live copy in memory.
 *
 * @packageDocumentation
 */
export { PolicyCache } from "./cache.js";
export { Client, type ClientOptions, type DeleteOptions, type EditOptions, type UpdateOptions } from "./client.js";
export { DEFAULT_TARGET, type CallLimits, type ConnectionOptions, type Tls } from "./connection.js";
export type { CacheState, Change } from "./copy.js";
export type { Document, PoliciesInit } from "./documents.js";
export * from "./errors.js";
export type * from "./events.js";
export { ErrorReason } from "./generated/topicpolicies/v1/errors_pb.js";
export { Scope, TopicPoliciesSchema, type TopicPolicies } from "./generated/topicpolicies/v1/policies_pb.js";
export {
  ActorStanding, DeleteOutcome, EffectiveView, HistoryGapReason, HistoryKind, HistoryOrder, HistoryOutcome, ListOperation, LogKind,
  NamespaceState, PolicySource, ServerFeature, UpdateOutcome, WatchMode, WriterMode,
} from "./generated/topicpolicies/v1/service_pb.js";
export type { HistoryEntry, HistoryGap, Origin } from "./history.js";
export type { Changes, ManyOptions } from "./many.js";
export { pathsBetween } from "./masks.js";
export { DocumentPages, HistoryPages } from "./pages.js";
export { path, type ListPath, type MaskPath, type PathSegments, type WrittenPath } from "./paths.js";
export type {
  BothScopes, EffectiveOptions, EffectivePolicies, GetBothOptions, GetOptions, HistoryOf, HistoryOptions, ListOptions, ReadAt, ServerInfo,
} from "./reads.js";
export type { ChangeOptions, Deletion, Update, UpdateFields } from "./requests.js";
export type { DeleteResult, Settled, UpdateResult } from "./results.js";
export { DEFAULT_RETRIES, NO_RETRIES, type RetryPolicy } from "./retries.js";
export type { Selection } from "./session.js";
export type { Stub } from "./stub.js";
export { tokenFile } from "./token-file.js";
export { ResumeToken, type WatchToken } from "./tokens.js";
export { Watch } from "./watch.js";
