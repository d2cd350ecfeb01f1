import type { Metadata } from "@grpc/grpc-js";

/** The trailing metadata of an answer that the server could not confirm, because it can't reach the change log. */
const UNCONFIRMED_KEY = "topicpolicies-unconfirmed-since";

/** An answer, and the time since which the server can't confirm its answers; undefined if this one was confirmed. */
export interface Answered<Message> {
  readonly message: Message;
  readonly unconfirmedSince: Date | undefined;
}

/** Returns the time since which an answer can't be confirmed; undefined if it was confirmed, or the metadata can't be parsed. */
export function unconfirmedSince(trailing: Metadata): Date | undefined {
  const [value] = trailing.get(UNCONFIRMED_KEY);
  const since = new Date(typeof value === "string" ? value : Number.NaN);
  return Number.isNaN(since.getTime()) ? undefined : since;
}
