import type { MessageInitShape } from "@bufbuild/protobuf";

import type { TopicPolicies, TopicPoliciesSchema } from "./generated/topicpolicies/v1/policies_pb.js";
import { Scope } from "./generated/topicpolicies/v1/events_pb.js";

/** New values of a document: a message, or an object of its fields. */
export type PoliciesInit = MessageInitShape<typeof TopicPoliciesSchema>;

/** The policies of one topic in one scope. */
export interface Document {
  /** The topic's full name. */
  readonly topic: string;
  readonly scope: Scope;
  /** Undefined if there is no document. It may be shared: clone it before you change it. */
  readonly policies: TopicPolicies | undefined;
  /** Its version, which is its etag. An absent document has one too. */
  readonly version: string;
}

/** By what documents are told apart: the topic's full name, of a partition that of its base topic, and a scope. */
export function keyOf(topic: string, scope: Scope): string {
  const full = topic.includes("://") ? topic : `persistent://${topic}`;
  return `${scope === Scope.UNSPECIFIED ? Scope.LOCAL : scope} ${full.replace(/-partition-\d+$/, "")}`;
}

/** `tenant/namespace` of a topic's name, with or without its domain; the service judges whether it is valid. */
export function namespaceOf(topic: string): string {
  return topic.replace(/^[^/]*:\/\//, "").split("/").slice(0, 2).join("/");
}
