package topicpolicies.client;

import java.time.Instant;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import topicpolicies.v1.ListPoliciesResponse;

/** The documents of a namespace, ordered by topic and scope. Pages are fetched when the iteration needs them, so each step may block. */
public final class DocumentList implements Iterable<Document> {
    private final String namespace;
    private final Pages<Answered<ListPoliciesResponse>, Document> pages;

    /** {@code fetch} returns the page of a page token. */
    DocumentList(String namespace, Function<String, Answered<ListPoliciesResponse>> fetch) {
        this.namespace = namespace;
        this.pages = new Pages<>(fetch, DocumentList::documents, page -> page.message().getNextPageToken());
    }

    private static List<Document> documents(Answered<ListPoliciesResponse> page) {
        return page.message().getDocumentsList().stream().map(each -> Document.of(each, page.unconfirmedSince())).flatMap(Optional::stream)
                .toList();
    }

    @Override
    public Iterator<Document> iterator() {
        return pages.iterator();
    }

    /**
     * The place in the change log at which the first page was read; fetches that page if necessary. A watch that resumes from here misses
     * nothing.
     */
    public ResumeToken token() {
        return new ResumeToken(Map.of(namespace, WatchToken.of(pages.first().message().getToken())));
    }

    /**
     * The time since which the server can't reach the change log, according to the first page; fetches that page if necessary. Empty if the
     * server reached the log. Each document carries the time of its own page.
     */
    public Optional<Instant> unconfirmedSince() {
        return pages.first().unconfirmedSince();
    }
}
