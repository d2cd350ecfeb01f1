package topicpolicies.client;

import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Function;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * The elements of a list that the service returns in pages. Each iteration begins anew, and requests a page when it comes to it; it throws
 * {@link TopicPoliciesException}.
 *
 * @param <P> the type of a page
 * @param <T> the type of an element
 */
public final class Pages<P, T> implements Iterable<T> {
    private final Function<String, P> fetch;
    private final Function<P, String> nextToken;
    private final Function<P, List<T>> elements;

    Pages(Function<String, P> fetch, Function<P, String> nextToken, Function<P, List<T>> elements) {
        this.fetch = fetch;
        this.nextToken = nextToken;
        this.elements = elements;
    }

    /** The pages as the service returns them. */
    public Iterable<P> pages() {
        return () -> new Iterator<>() {
            private String token = "";

            @Override
            public boolean hasNext() {
                return token != null;
            }

            @Override
            public P next() {
                if (token == null) {
                    throw new NoSuchElementException();
                }
                P page = fetch.apply(token);
                token = nextToken.apply(page).isEmpty() ? null : nextToken.apply(page);
                return page;
            }
        };
    }

    @Override
    public Iterator<T> iterator() {
        Iterator<P> pages = pages().iterator();
        return new Iterator<>() {
            private Iterator<T> page = Collections.emptyIterator();

            @Override
            public boolean hasNext() {
                while (!page.hasNext() && pages.hasNext()) {
                    page = elements.apply(pages.next()).iterator();
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
        };
    }

    /** The elements as a stream. */
    public Stream<T> stream() {
        return StreamSupport.stream(spliterator(), false);
    }
}
