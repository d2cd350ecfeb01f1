package topicpolicies.client;

import java.time.Instant;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import topicpolicies.v1.ListPoliciesResponse;

/** The documents of a namespace, ordered by topic and scope, fetched page by page as they are asked for: each step may wait. */
public final class DocumentList implements Iterable<Document> {
    private final String namespace;
    private final Pages<Answered<ListPoliciesResponse>, Document> pages;

    /** {@code fetch} gets the page of a token. */
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

    /** Where the first page was read, which is fetched if it was not yet: a watch that resumes from here misses nothing. */
    public ResumeToken token() {
        return new ResumeToken(Map.of(namespace, WatchToken.of(pages.first().message().getToken())));
    }

    /**
     * Since when the server can't reach the change log, as the first page told, which is fetched if it was not yet; empty: it can. Each
     * document tells it of its own page.
     */
    public Optional<Instant> unconfirmedSince() {
        return pages.first().unconfirmedSince();
    }
}
