import { create } from "@bufbuild/protobuf";
import { durationMs, timestampFromDate } from "@bufbuild/protobuf/wkt";
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

/** When a document is read; one of them, or none for now, as far as the server knows. */
export interface ReadAt {
  /** A version that the answer must have reached, such as the one that an update returned. */
  readonly atLeastVersion?: string;
  /** A time that is over: the document as it was then, by the history. */
  readonly asOfTime?: Date;
  /** A version: the document that it is, by the history. */
  readonly asOfVersion?: string;
}

/** How one document is read. */
export interface GetOptions extends CallLimits, ReadAt {
  /** Without it, LOCAL. */
  readonly scope?: Scope;
}

/** How both documents of a topic are read. */
export interface GetBothOptions extends CallLimits, Pick<ReadAt, "asOfTime"> {}

/** Both documents of a topic. */
export interface BothScopes {
  readonly local: Document;
  readonly global: Document;
}

/** How what holds for a topic is read. */
export interface EffectiveOptions extends CallLimits {
  /** Whose reading; without it, ENFORCED. */
  readonly view?: EffectiveView;
  /** Versions that the documents must have reached. */
  readonly atLeastLocalVersion?: string;
  readonly atLeastGlobalVersion?: string;
}

/** What holds for a topic. */
export interface EffectivePolicies {
  /** The topic's full name. */
  readonly topic: string;
  /** A field that is not set has no value on any level. */
  readonly policies: TopicPolicies;
  /** Which level each value comes from, by path. */
  readonly sources: ReadonlyMap<string, PolicySource>;
  readonly localVersion: string;
  readonly globalVersion: string;
  /** Whether topic policies are disabled for this topic: then its documents do not count. */
  readonly disabled: boolean;
  /** Since when the server can't reach the change log, so that newer documents may hold; undefined: it can. */
  readonly unconfirmedSince: Date | undefined;
}

/** Whose history is read: a topic's or a namespace's. */
export type HistoryOf = { readonly topic: string; readonly namespace?: never } | { readonly namespace: string; readonly topic?: never };

/** Which part of a history is read. */
export interface HistoryOptions extends CallLimits {
  /** None: both. */
  readonly scopes?: readonly Scope[];
  /** Only what happened then or later. */
  readonly startTime?: Date;
  /** Only what happened before. */
  readonly endTime?: Date;
  /** Only events of this actor; empty for those of which nobody said whose they are. */
  readonly actor?: string;
  /** Without it, the newest first. */
  readonly order?: HistoryOrder;
  /** Most entries of one page; 100. */
  readonly pageSize?: number;
}

/** How documents are listed. */
export interface ListOptions extends CallLimits {
  /** None: both. */
  readonly scopes?: readonly Scope[];
  /** Most documents of one page; 100. */
  readonly pageSize?: number;
}

/** What a server is. */
export interface ServerInfo {
  readonly version: string;
  readonly log: LogKind;
  /** The name of its Pulsar cluster; empty if it has none. */
  readonly cluster: string;
  readonly writerMode: WriterMode;
  readonly features: readonly ServerFeature[];
  readonly limits: {
    /** Most bytes of a message that it takes. */
    readonly messageBytes: number;
    /** Most changes of one stream that are under way. */
    readonly changesPerStream: number;
    /** Most topics and namespaces of one watch. */
    readonly watchSelectors: number;
    /** Most watches at once. */
    readonly watches: number;
    /** Longest time until an update is answered. */
    readonly updateTimeoutMs: number;
  };
}

export function getRequest(topic: string, scopes: readonly Scope[], { atLeastVersion, asOfTime, asOfVersion }: ReadAt): GetPolicyRequest {
  const request = create(GetPolicyRequestSchema, { topic, scopes: [...scopes] });
  if ([atLeastVersion, asOfTime, asOfVersion].filter((each) => each !== undefined).length > 1) {
    throw invalid("read_at", "CONTRADICTION", "Say one of atLeastVersion, asOfTime and asOfVersion.");
  }
  if (atLeastVersion !== undefined) request.readAt = { case: "atLeastVersion", value: atLeastVersion };
  if (asOfTime !== undefined) request.readAt = { case: "asOfTime", value: timestampFromDate(asOfTime) };
  if (asOfVersion !== undefined) request.readAt = { case: "asOfVersion", value: asOfVersion };
  return request;
}

/** An answer's document of one scope. */
export function documentIn({ message, unconfirmedSince }: Answered<GetPolicyResponse>, scope: Scope): Document {
  const found = message.documents.find((each) => each.scope === scope);
  if (found === undefined) throw new TopicPoliciesError("The service has not answered what was asked.", { code: Code.INTERNAL });
  return documentOf(found, unconfirmedSince);
}

export function historyRequest(of: HistoryOf, options: HistoryOptions): ListHistoryRequest {
  const { scopes = [], startTime, endTime, actor, order, pageSize = 0 } = options;
  return create(ListHistoryRequestSchema, {
    ...of, scopes: [...scopes], pageSize,
    ...(startTime && { startTime: timestampFromDate(startTime) }), ...(endTime && { endTime: timestampFromDate(endTime) }),
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
