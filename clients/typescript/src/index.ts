/**
 * The TypeScript client of the topic policies sidecar for Apache Pulsar, for Node. The generated messages are in `topicpolicies/v1`.
 *
 * @packageDocumentation
 */
export { PolicyCache, type Change } from "./cache.js";
export { Client, type BatchResult } from "./client.js";
export type { CallOptions, ClientOptions, Tls } from "./connection.js";
export { TopicPoliciesError, type ErrorKind } from "./errors.js";
export { pathsBetween } from "./masks.js";
export { mask, path, type MaskPath, type PathSegments, type WrittenPath } from "./paths.js";
