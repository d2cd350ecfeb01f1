package topicpolicies.client;

import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Function;

/**
 * The items of a paginated call, as one sequence. The first page is fetched once, when it is first needed; each iterator fetches the others
 * when it needs them.
 */
final class Pages<P, T> implements Iterable<T> {
    private final Function<String, P> fetch;
    private final Function<P, List<T>> items;
    private final Function<P, String> next;
    private final Lock lock = new ReentrantLock();
    private volatile P first;

    /**
     * {@code fetch} returns the page of a page token, {@code items} the items of a page, and {@code next} the token of the page after it.
     */
    Pages(Function<String, P> fetch, Function<P, List<T>> items, Function<P, String> next) {
        this.fetch = fetch;
        this.items = items;
        this.next = next;
    }

    P first() {
        P known = first;
        return known == null ? fetchFirst() : known;
    }

    private P fetchFirst() {
        Waiting.lock(lock); // another thread may be fetching the page
        try {
            if (first == null) {
                first = fetch.apply("");
            }
            return first;
        } finally {
            lock.unlock();
        }
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
