import type { MessageInitShape } from "@bufbuild/protobuf";

import { Scope, type PolicyDocument, type TopicPolicies, type TopicPoliciesSchema } from "./generated/topicpolicies/v1/policies_pb.js";

/** New values for a document: a message, or a plain object of its fields. */
export type PoliciesInit = MessageInitShape<typeof TopicPoliciesSchema>;

/** The policies of one topic in one scope. */
export interface Document {
  /** The topic's full name. */
  readonly topic: string;
  readonly scope: Scope;
  /** The policies; undefined if there is no document. The message may be shared: clone it before you change it. */
  readonly policies: TopicPolicies | undefined;
  /**
   * The document's version, which is also its etag. An absent document has a version too. For one topic and scope, string order is log
   * order.
   */
  readonly version: string;
  /** Whether topic policies are disabled for this topic: if so, its documents are not returned. */
  readonly disabled: boolean;
  /**
   * Set on the answer to a read that the server could not confirm: the time since which it can't reach the change log, so that there may be
   * a newer document. Otherwise undefined.
   */
  readonly unconfirmedSince?: Date | undefined;
}

/** Converts a document; `unconfirmedSince` is that of the answer that carried it. */
export function documentOf({ topic, scope, policies, version, disabled }: PolicyDocument, unconfirmedSince?: Date): Document {
  return { topic, scope, policies, version, disabled, ...(unconfirmedSince && { unconfirmedSince }) };
}

/** The document of an answer; undefined if there is none, or its scope is unknown to this package. */
export function maybeDocument(message: PolicyDocument | undefined): Document | undefined {
  return message !== undefined && isKnown(message.scope) ? documentOf(message) : undefined;
}

/** Whether this package knows the scope. A newer service may have further scopes, whose documents are ignored. */
export function isKnown(scope: Scope): boolean {
  return scope === Scope.LOCAL || scope === Scope.GLOBAL;
}
