package topicpolicies.client;

import java.time.Instant;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import topicpolicies.v1.HistoryEntry;
import topicpolicies.v1.HistoryGap;
import topicpolicies.v1.ListHistoryResponse;

/** What happened to the documents of a topic or a namespace, fetched page by page as it is asked for: each step may wait. */
public final class History implements Iterable<HistoryEntry> {
    private final Pages<Answered<ListHistoryResponse>, HistoryEntry> pages;

    /** {@code fetch} gets the page of a token. */
    History(Function<String, Answered<ListHistoryResponse>> fetch) {
        this.pages = new Pages<>(fetch, page -> page.message().getEntriesList().stream().filter(History::isKnown).toList(),
                page -> page.message().getNextPageToken());
    }

    @Override
    public Iterator<HistoryEntry> iterator() {
        return pages.iterator();
    }

    /** Where the record may miss events, as the first page told. */
    public List<HistoryGap> gaps() {
        return pages.first().message().getGapsList();
    }

    /** Whether the server follows the change log, as the first page told; if not, the newest events may be missing. */
    public boolean following() {
        return pages.first().message().getFollowing();
    }

    /** Since when the server can't reach the change log, as the first page told, so that the newest events may be missing; empty: it can. */
    public Optional<Instant> unconfirmedSince() {
        return pages.first().unconfirmedSince();
    }

    /** Whether an event is of a scope that is known here, or of nobody knows which. */
    static boolean isKnown(HistoryEntry entry) {
        return !entry.hasDocument() || Scope.of(entry.getDocument().getScope()).isPresent();
    }
}
