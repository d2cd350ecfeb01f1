package topicpolicies.client;

import java.util.Iterator;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import topicpolicies.v1.ListPoliciesResponse;

/** The documents of a namespace, ordered by topic and scope, fetched page by page as they are asked for: each step may wait. */
public final class DocumentList implements Iterable<Document> {
    private final String namespace;
    private final Pages<ListPoliciesResponse, Document> pages;

    /** {@code fetch} gets the page of a token. */
    DocumentList(String namespace, Function<String, ListPoliciesResponse> fetch) {
        this.namespace = namespace;
        this.pages = new Pages<>(fetch, page -> page.getDocumentsList().stream().map(Document::of).flatMap(Optional::stream).toList(),
                ListPoliciesResponse::getNextPageToken);
    }

    @Override
    public Iterator<Document> iterator() {
        return pages.iterator();
    }

    /** Where the first page was read, which is fetched if it was not yet: a watch that resumes from here misses nothing. */
    public ResumeToken token() {
        return new ResumeToken(Map.of(namespace, WatchToken.of(pages.first().getToken())));
    }
}
