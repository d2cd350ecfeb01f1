package topicpolicies.client;

import java.time.Instant;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import topicpolicies.v1.HistoryEntry;
import topicpolicies.v1.HistoryGap;
import topicpolicies.v1.ListHistoryResponse;

/** The history of the documents of a topic or a namespace. Pages are fetched when the iteration needs them, so each step may block. */
public final class History implements Iterable<HistoryEntry> {
    private final Pages<Answered<ListHistoryResponse>, HistoryEntry> pages;

    /** {@code fetch} returns the page of a page token. */
    History(Function<String, Answered<ListHistoryResponse>> fetch) {
        this.pages = new Pages<>(fetch, page -> page.message().getEntriesList().stream().filter(History::isKnown).toList(),
                page -> page.message().getNextPageToken());
    }

    @Override
    public Iterator<HistoryEntry> iterator() {
        return pages.iterator();
    }

    /** The gaps in the requested period, for which the history may lack events, according to the first page. */
    public List<HistoryGap> gaps() {
        return pages.first().message().getGapsList();
    }

    /** Whether the server follows the change log, according to the first page; if not, the newest events may be missing. */
    public boolean following() {
        return pages.first().message().getFollowing();
    }

    /**
     * The time since which the server can't reach the change log, according to the first page, so that the newest events may be missing;
     * empty if the server reached the log.
     */
    public Optional<Instant> unconfirmedSince() {
        return pages.first().unconfirmedSince();
    }

    /** Whether the scope of an event is known to this client. An event that could not be read has no scope, and is included. */
    static boolean isKnown(HistoryEntry entry) {
        return !entry.hasDocument() || Scope.of(entry.getDocument().getScope()).isPresent();
    }
}
