import type { Metadata } from "@grpc/grpc-js";

/** The trailing metadata of an answer that the server could not confirm, because it can't reach the change log. */
const UNCONFIRMED_KEY = "topicpolicies-unconfirmed-since";

/** An answer, and since when it can't be confirmed; undefined: it could be. */
export interface Answered<Message> {
  readonly message: Message;
  readonly unconfirmedSince: Date | undefined;
}

/** Since when an answer can't be confirmed; undefined if it could be, or nobody says what can be read. */
export function unconfirmedSince(trailing: Metadata): Date | undefined {
  const [said] = trailing.get(UNCONFIRMED_KEY);
  const since = new Date(typeof said === "string" ? said : Number.NaN);
  return Number.isNaN(since.getTime()) ? undefined : since;
}
