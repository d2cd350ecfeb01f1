import { documentOf, isKnown, type Document } from "./documents.js";
import type { ListHistoryResponse, ListPoliciesResponse } from "./generated/topicpolicies/v1/service_pb.js";
import { entryOf, gapOf, type HistoryEntry, type HistoryGap } from "./history.js";
import { ResumeToken, tokenOf } from "./tokens.js";
import type { Answered } from "./unconfirmed.js";

/** An iterator over the items of a paginated call, for one reader. Each page is read when the reader needs it. */
abstract class Pages<Page extends { readonly nextPageToken: string }, Item> implements AsyncIterableIterator<Item> {
  readonly #items: AsyncGenerator<Item, undefined>;
  #unconfirmedSince: Date | undefined;

  constructor(read: (pageToken: string) => Promise<Answered<Page>>) {
    this.#items = this.#read(read);
  }

  /**
   * The time since which the server can't reach the change log, according to the last page that was read, so that there may be newer
   * changes. Undefined if the server reached the log.
   */
  get unconfirmedSince(): Date | undefined {
    return this.#unconfirmedSince;
  }

  protected abstract items(page: Page): Iterable<Item>;

  next(): Promise<IteratorResult<Item, undefined>> {
    return this.#items.next();
  }

  return(): Promise<IteratorResult<Item, undefined>> {
    return this.#items.return(undefined);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async *#read(read: (pageToken: string) => Promise<Answered<Page>>): AsyncGenerator<Item, undefined> {
    let pageToken = "";
    do {
      const { message: page, unconfirmedSince } = await read(pageToken);
      this.#unconfirmedSince = unconfirmedSince;
      yield* this.items(page);
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    return undefined;
  }
}

/** The documents of a namespace, ordered by topic and scope. */
export class DocumentPages extends Pages<ListPoliciesResponse, Document> {
  readonly #namespace: string;
  #token: ResumeToken | undefined;

  /** Use `Client.list`. */
  constructor(namespace: string, read: (pageToken: string) => Promise<Answered<ListPoliciesResponse>>) {
    super(read);
    this.#namespace = namespace;
  }

  /**
   * The place in the change log at which the first page was read; undefined before that. A watch of the namespace that resumes from here
   * misses nothing.
   */
  get token(): ResumeToken | undefined {
    return this.#token;
  }

  protected override *items(page: ListPoliciesResponse): Iterable<Document> {
    if (page.token !== undefined) this.#token ??= new ResumeToken([[this.#namespace, tokenOf(page.token)]]);
    for (const document of page.documents) if (isKnown(document.scope)) yield documentOf(document, this.unconfirmedSince);
  }
}

/** The history of the documents of a topic or a namespace. Use `Client.history`. */
export class HistoryPages extends Pages<ListHistoryResponse, HistoryEntry> {
  #gaps: readonly HistoryGap[] = [];
  #following: boolean | undefined;

  /**
   * The gaps in the requested period, for which the history may lack events: the newest 100, newest first. Known once the first page was
   * read.
   */
  get gaps(): readonly HistoryGap[] {
    return this.#gaps;
  }

  /** Whether the server follows the change log, as of the last page that was read. If not, the newest events may be missing. */
  get following(): boolean | undefined {
    return this.#following;
  }

  protected override *items(page: ListHistoryResponse): Iterable<HistoryEntry> {
    if (this.#following === undefined) this.#gaps = page.gaps.map(gapOf);
    this.#following = page.following;
    for (const message of page.entries) {
      const entry = entryOf(message);
      if (entry !== undefined) yield entry;
    }
  }
}
