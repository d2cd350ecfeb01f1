import { create } from "@bufbuild/protobuf";
import { durationMs, timestampFromDate, type Timestamp } from "@bufbuild/protobuf/wkt";
import { status as Code } from "@grpc/grpc-js";

import type { CallLimits } from "./connection.js";
import { documentOf, type Document } from "./documents.js";
import { invalid, TopicPoliciesError } from "./errors.js";
import { Scope, type TopicPolicies } from "./generated/topicpolicies/v1/policies_pb.js";
import {
  GetPolicyRequestSchema, ListHistoryRequestSchema, type EffectiveView, type GetPolicyRequest, type GetPolicyResponse,
  type GetServerInfoResponse, type HistoryOrder, type ListHistoryRequest, type LogKind, type PolicySource,
  type ServerFeature, type WriterMode,
} from "./generated/topicpolicies/v1/service_pb.js";
import type { Answered } from "./unconfirmed.js";

/** When a document is read: at most one of these; by default now, as far as the server knows. */
export interface ReadAt {
  /** A version that the answer must have reached, such as the one that an update returned. */
  readonly atLeastVersion?: string;
  /** A time in the past: the document as it was then, from the history. */
  readonly asOfTime?: Date;
  /** A version: the document of that version, from the history. */
  readonly asOfVersion?: string;
}

/** The options of a read of one document. */
export interface GetOptions extends CallLimits, ReadAt {
  /** By default LOCAL. */
  readonly scope?: Scope;
}

/** The options of a read of both documents of a topic. */
export interface GetBothOptions extends CallLimits, Pick<ReadAt, "asOfTime"> {}

/** Both documents of a topic. */
export interface BothScopes {
  readonly local: Document;
  readonly global: Document;
}

/** The options of a read of effective policies. */
export interface EffectiveOptions extends CallLimits {
  /** Whose view of the levels; by default ENFORCED. */
  readonly view?: EffectiveView;
  /** Versions that the LOCAL and the GLOBAL document must have reached. */
  readonly atLeastLocalVersion?: string;
  readonly atLeastGlobalVersion?: string;
}

/** The effective policies of a topic. */
export interface EffectivePolicies {
  /** The topic's full name. */
  readonly topic: string;
  /** The effective values. A field that is not set has no value on any level. */
  readonly policies: TopicPolicies;
  /** The level that sets each value, by path. */
  readonly sources: ReadonlyMap<string, PolicySource>;
  readonly localVersion: string;
  readonly globalVersion: string;
  /** Whether topic policies are disabled for this topic: if so, its documents have no effect. */
  readonly disabled: boolean;
  /**
   * The time since which the server can't reach the change log, so that there may be newer documents. Undefined if the server reached the
   * log.
   */
  readonly unconfirmedSince: Date | undefined;
}

/** The topic or the namespace whose history is read. */
export type HistoryOf = { readonly topic: string; readonly namespace?: never } | { readonly namespace: string; readonly topic?: never };

/** The options of a read of the history. */
export interface HistoryOptions extends CallLimits {
  /** By default both. */
  readonly scopes?: readonly Scope[];
  /** Only events at this time or later. */
  readonly startTime?: Date;
  /** Only events before this time. */
  readonly endTime?: Date;
  /** Only events of this actor; empty for events that have no actor. */
  readonly actor?: string;
  /** By default the newest first. */
  readonly order?: HistoryOrder;
  /** The maximum number of entries of one page; by default 100. */
  readonly pageSize?: number;
}

/** The options of a list of documents. */
export interface ListOptions extends CallLimits {
  /** By default both. */
  readonly scopes?: readonly Scope[];
  /** The maximum number of documents of one page; by default 100. */
  readonly pageSize?: number;
}

/** Facts about a server. */
export interface ServerInfo {
  readonly version: string;
  readonly log: LogKind;
  /** The name of its Pulsar cluster; empty if it has none, or has not learned the name yet. */
  readonly cluster: string;
  readonly writerMode: WriterMode;
  readonly features: readonly ServerFeature[];
  readonly limits: {
    /** The maximum size of a request message, in bytes. */
    readonly messageBytes: number;
    /** The maximum number of changes in flight on one stream. */
    readonly changesPerStream: number;
    /** The maximum number of topics and namespaces of one watch. */
    readonly watchSelectors: number;
    /** The maximum number of concurrent watches. */
    readonly watches: number;
    /** The maximum time until an update is answered. */
    readonly updateTimeoutMs: number;
  };
}

export function getRequest(topic: string, scopes: readonly Scope[], { atLeastVersion, asOfTime, asOfVersion }: ReadAt): GetPolicyRequest {
  const request = create(GetPolicyRequestSchema, { topic, scopes: [...scopes] });
  if ([atLeastVersion, asOfTime, asOfVersion].filter((each) => each !== undefined).length > 1) {
    throw invalid("read_at", "CONTRADICTION", "Give only one of atLeastVersion, asOfTime and asOfVersion.");
  }
  if (atLeastVersion !== undefined) request.readAt = { case: "atLeastVersion", value: atLeastVersion };
  if (asOfTime !== undefined) request.readAt = { case: "asOfTime", value: timestampOf(asOfTime, "as_of_time") };
  if (asOfVersion !== undefined) request.readAt = { case: "asOfVersion", value: asOfVersion };
  return request;
}

/** Returns an answer's document of one scope. */
export function documentIn({ message, unconfirmedSince }: Answered<GetPolicyResponse>, scope: Scope): Document {
  const found = message.documents.find((each) => each.scope === scope);
  if (found === undefined) throw new TopicPoliciesError("The service has not answered for the requested scope.", { code: Code.INTERNAL });
  return documentOf(found, unconfirmedSince);
}

export function historyRequest(of: HistoryOf, options: HistoryOptions): ListHistoryRequest {
  const { scopes = [], startTime, endTime, actor, order, pageSize = 0 } = options;
  return create(ListHistoryRequestSchema, {
    ...of, scopes: [...scopes], pageSize,
    ...(startTime && { startTime: timestampOf(startTime, "start_time") }), ...(endTime && { endTime: timestampOf(endTime, "end_time") }),
    ...(actor !== undefined && { actor }), ...(order !== undefined && { order }),
  });
}

export function serverInfoOf({ version, log, cluster, writerMode, features, limits }: GetServerInfoResponse): ServerInfo {
  return {
    version, log, cluster, writerMode, features,
    limits: {
      messageBytes: Number(limits?.messageBytes ?? 0n),
      changesPerStream: limits?.changesPerStream ?? 0,
      watchSelectors: limits?.watchSelectors ?? 0,
      watches: limits?.watches ?? 0,
      updateTimeoutMs: limits?.updateTimeout === undefined ? 0 : durationMs(limits.updateTimeout),
    },
  };
}

function timestampOf(date: Date, field: string): Timestamp {
  if (Number.isNaN(date.getTime())) throw invalid(field, "WRONG_VALUE", "This is no time: an invalid Date.");
  return timestampFromDate(date);
}
