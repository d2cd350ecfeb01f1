import { randomUUID } from "node:crypto";

import { create } from "@bufbuild/protobuf";

import type { PoliciesInit } from "./documents.js";
import { Scope, TopicPoliciesSchema } from "./generated/topicpolicies/v1/policies_pb.js";
import {
  DeletePolicyRequestSchema, UpdatePolicyRequestSchema, type DeletePolicyRequest, type ListOperation, type UpdatePolicyRequest,
} from "./generated/topicpolicies/v1/service_pb.js";
import type { ListPath, MaskPath } from "./paths.js";

/** What any change may say. */
export interface ChangeOptions {
  /** Without it, LOCAL. */
  readonly scope?: Scope;
  /** The version that the document, or its absence, must have; without it, any. */
  readonly etag?: string;
  /** Checks everything and answers what would be, without writing. */
  readonly validateOnly?: boolean;
  /** Has the document before the change told. */
  readonly includePrevious?: boolean;
  /** A UUID, to repeat an earlier request and learn what it did; without it, a new one is made. */
  readonly requestId?: string;
  /** Who asks; without it, the client's own actor. It is kept beside the change. */
  readonly actor?: string;
  /** Why; without it, the client's own reason. It is kept beside the change. */
  readonly reason?: string;
}

/** What an update may say besides its values. */
export interface UpdateFields extends ChangeOptions {
  /**
   * The paths to change (see `path`). What is named here and has no value is cleared; `*` alone replaces the whole document. Without a
   * mask: what has a value, leaf by leaf and entry by entry, and nothing is cleared.
   */
  readonly mask?: readonly MaskPath[];
  /** Fails if there is a document. */
  readonly mustNotExist?: boolean;
  /** Does nothing if there is no document. */
  readonly skipIfAbsent?: boolean;
  /** What to do with lists, by path; the others are replaced. */
  readonly listOperations?: Readonly<Partial<Record<ListPath, ListOperation>>>;
}

/** An update among many changes. */
export interface Update extends UpdateFields {
  readonly topic: string;
  readonly policies: PoliciesInit;
}

/** A deletion among many changes. */
export interface Deletion extends ChangeOptions {
  readonly topic: string;
  readonly delete: true;
}

export function updateRequest(topic: string, policies: PoliciesInit, options: UpdateFields): UpdatePolicyRequest {
  const { mask = [], mustNotExist = false, skipIfAbsent = false, listOperations = {} } = options;
  return create(UpdatePolicyRequestSchema, {
    topic, policies: create(TopicPoliciesSchema, policies), mustNotExist, skipIfAbsent, listOperations: { ...listOperations },
    // What no mask means is for the service to say.
    ...(mask.length > 0 && { updateMask: { paths: [...mask] } }), ...common(options),
  });
}

export function deleteRequest(topic: string, options: ChangeOptions): DeletePolicyRequest {
  return create(DeletePolicyRequestSchema, { topic, ...common(options) });
}

function common(options: ChangeOptions): Required<ChangeOptions> {
  const { scope = Scope.UNSPECIFIED, etag = "", validateOnly = false, includePrevious = false, actor = "", reason = "" } = options;
  return { scope, etag, validateOnly, includePrevious, actor, reason, requestId: options.requestId ?? randomUUID() };
}
