import type { MessageInitShape } from "@bufbuild/protobuf";

import { Scope, type PolicyDocument, type TopicPolicies, type TopicPoliciesSchema } from "./generated/topicpolicies/v1/policies_pb.js";

/** New values of a document: a message, or an object of its fields. */
export type PoliciesInit = MessageInitShape<typeof TopicPoliciesSchema>;

/** The policies of one topic in one scope. */
export interface Document {
  /** The topic's full name. */
  readonly topic: string;
  readonly scope: Scope;
  /** Undefined if there is no document. It may be shared: clone it before you change it. */
  readonly policies: TopicPolicies | undefined;
  /** Its version, which is its etag. An absent document has one too. Of one topic and scope, string order is log order. */
  readonly version: string;
  /** Whether topic policies are disabled for this topic: then its documents are not told. */
  readonly disabled: boolean;
  /**
   * Of what was read: since when the server can't reach the change log, so that there may be a newer document. Undefined if it can, or this
   * is no answer to a read.
   */
  readonly unconfirmedSince?: Date | undefined;
}

/** `unconfirmedSince`: of the answer that has it. */
export function documentOf({ topic, scope, policies, version, disabled }: PolicyDocument, unconfirmedSince?: Date): Document {
  return { topic, scope, policies, version, disabled, ...(unconfirmedSince && { unconfirmedSince }) };
}

/** The document of an answer that may have none, or one of a scope that this package does not know. */
export function maybeDocument(message: PolicyDocument | undefined): Document | undefined {
  return message !== undefined && isKnown(message.scope) ? documentOf(message) : undefined;
}

/** Whether this package knows a scope; a newer service may have further ones, which are passed over. */
export function isKnown(scope: Scope): boolean {
  return scope === Scope.LOCAL || scope === Scope.GLOBAL;
}
