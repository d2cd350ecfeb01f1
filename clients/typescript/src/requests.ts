import { randomUUID } from "node:crypto";

import { create } from "@bufbuild/protobuf";

import type { PoliciesInit } from "./documents.js";
import { Scope, TopicPoliciesSchema } from "./generated/topicpolicies/v1/policies_pb.js";
import {
  DeletePolicyRequestSchema, UpdatePolicyRequestSchema, type DeletePolicyRequest, type ListOperation, type UpdatePolicyRequest,
} from "./generated/topicpolicies/v1/service_pb.js";
import type { ListPath, MaskPath } from "./paths.js";

/** The options that all changes have. */
export interface ChangeOptions {
  /** By default LOCAL. */
  readonly scope?: Scope;
  /** The version that the document, or its absence, must have; by default any. */
  readonly etag?: string;
  /** Checks everything and returns what the result would be, without writing. */
  readonly validateOnly?: boolean;
  /** Returns the document before the change too. */
  readonly includePrevious?: boolean;
  /** A UUID; by default, or if it is empty, a new one. Give the id of an earlier request to repeat that request and learn its outcome. */
  readonly requestId?: string;
  /** Who makes the change; by default the client's actor. It is stored with the change. */
  readonly actor?: string;
  /** Why the change is made; by default the client's reason. It is stored with the change. */
  readonly reason?: string;
}

/** The options of an update. */
export interface UpdateFields extends ChangeOptions {
  /**
   * The paths to change (see `path`). A field that is named here and has no value is cleared; `*` alone replaces the whole document.
   * Without a mask, the fields and map entries that have a value are changed, and nothing is cleared.
   */
  readonly mask?: readonly MaskPath[];
  /** Fails if there is a document. */
  readonly mustNotExist?: boolean;
  /** Does nothing if there is no document. */
  readonly skipIfAbsent?: boolean;
  /** What to do with list fields, by path; a list without an entry here is replaced. */
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
    // The service defines what a request without a mask means.
    ...(mask.length > 0 && { updateMask: { paths: [...mask] } }), ...common(options),
  });
}

export function deleteRequest(topic: string, options: ChangeOptions): DeletePolicyRequest {
  return create(DeletePolicyRequestSchema, { topic, ...common(options) });
}

function common(options: ChangeOptions): Required<ChangeOptions> {
  const { scope = Scope.UNSPECIFIED, etag = "", validateOnly = false, includePrevious = false, actor = "", reason = "" } = options;
  const { requestId = "" } = options;
  return { scope, etag, validateOnly, includePrevious, actor, reason, requestId: requestId === "" ? newRequestId() : requestId };
}

/** A new request id, in the service's form: 32 hexadecimal digits. */
function newRequestId(): string {
  return randomUUID().replaceAll("-", "");
}
