package topicpolicies.client;

import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Function;

/**
 * What the service gives in pages, as one sequence. The first page is fetched once, when it is first asked for, and the others as they are.
 */
final class Pages<P, T> implements Iterable<T> {
    private final Function<String, P> fetch;
    private final Function<P, List<T>> items;
    private final Function<P, String> next;
    private P first;

    /** {@code fetch} gets the page of a token, {@code items} and {@code next} are what is in one and the token of the one after it. */
    Pages(Function<String, P> fetch, Function<P, List<T>> items, Function<P, String> next) {
        this.fetch = fetch;
        this.items = items;
        this.next = next;
    }

    synchronized P first() {
        if (first == null) {
            first = fetch.apply("");
        }
        return first;
    }

    @Override
    public Iterator<T> iterator() {
        return new Walk();
    }

    private final class Walk implements Iterator<T> {
        private Iterator<T> page;
        private String token = "";

        @Override
        public boolean hasNext() {
            while (page == null || !page.hasNext() && !token.isEmpty()) {
                P fetched = page == null ? first() : fetch.apply(token);
                page = items.apply(fetched).iterator();
                token = next.apply(fetched);
            }
            return page.hasNext();
        }

        @Override
        public T next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            return page.next();
        }
    }
}
