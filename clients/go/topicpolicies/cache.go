package topicpolicies

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// Forever is how old a copy is of which nothing is known yet.
const Forever = time.Duration(math.MaxInt64)

// PolicyCache is a local, always current copy of the documents that a selection names (the informer pattern). It watches in a goroutine of
// its own. Reads never wait and never fail: while the service is out of reach they give what was known last, and Staleness says how old
// that is.
//
// While a namespace begins again with a snapshot, what was known of it stays; what the snapshot does not tell of again is dropped when it
// is complete.
type PolicyCache struct {
	watch *Watch
	done  chan struct{}

	mu        sync.RWMutex
	parts     map[string]*part
	newest    time.Time     // what the stream has confirmed last, of any namespace, by the server's clock
	waiting   chan struct{} // closed and replaced when a namespace has been synced
	listeners map[*listener]struct{}
	err       error
}

// NamespaceStatus is how a namespace of a cache is.
type NamespaceStatus struct {
	// Synced tells whether it has had a whole snapshot. From then on reads are complete, if perhaps stale.
	Synced bool
	// Staleness is how long ago it was known that the copy had everything; Forever before Synced.
	Staleness time.Duration
	// State is the service's own; it is not set while the service is out of reach, or has not said yet.
	State NamespaceState
	// Reason and Message say why it is not followed, the first for programs and the second for people; empty if it is.
	Reason  string
	Message string
}

// Cache makes a cache and starts to fill it. Close it, or end the context, when it is no longer needed. Scopes, Topics and Namespaces of
// the selection count; BookmarkInterval is how often the service confirms that nothing has changed, 10 seconds if it is not set.
func (c *Client) Cache(ctx context.Context, selection Selection) (*PolicyCache, error) {
	watch, err := c.Watch(ctx, Selection{
		Topics: selection.Topics, Namespaces: selection.Namespaces, Scopes: selection.Scopes, BookmarkInterval: selection.BookmarkInterval,
	})
	if err != nil {
		return nil, err
	}
	cache := newCache(watch.session.order)
	cache.watch = watch
	go cache.follow()
	return cache, nil
}

func newCache(namespaces []string) *PolicyCache {
	cache := &PolicyCache{
		done: make(chan struct{}), parts: map[string]*part{}, waiting: make(chan struct{}), listeners: map[*listener]struct{}{},
	}
	for _, name := range namespaces {
		cache.parts[name] = newPart()
	}
	return cache
}

// Close ends the cache and its listeners, and waits until it has stopped watching. Reads go on giving what was known last.
func (p *PolicyCache) Close() {
	p.watch.Close()
	<-p.done
}

// Done is closed when the cache no longer follows: after Close, the end of its context, or an error that makes it senseless to go on.
func (p *PolicyCache) Done() <-chan struct{} { return p.done }

// Err says why the cache no longer follows; nil while it does.
func (p *PolicyCache) Err() error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.err
}

// Get gives a document; false if there is none, or none is known yet. The topic may be named without its domain, or by a partition's name.
// The document's policies are shared: clone them before you change them.
func (p *PolicyCache) Get(key Key) (PolicyDocument, bool) {
	key = key.full()
	p.mu.RLock()
	defer p.mu.RUnlock()
	part := p.parts[namespaceOf(key.Topic)]
	if part == nil {
		return PolicyDocument{}, false
	}
	document := part.documents[key]
	return document, document.Exists()
}

// Documents gives all documents, ordered by topic and scope.
func (p *PolicyCache) Documents() []PolicyDocument {
	p.mu.RLock()
	var all []PolicyDocument
	for _, part := range p.parts {
		for _, document := range part.documents {
			if document.Exists() {
				all = append(all, document)
			}
		}
	}
	p.mu.RUnlock()
	slices.SortFunc(all, func(a, b PolicyDocument) int {
		if order := strings.Compare(a.Topic, b.Topic); order != 0 {
			return order
		}
		return int(a.Scope) - int(b.Scope)
	})
	return all
}

// Synced tells whether every namespace has had a whole snapshot.
func (p *PolicyCache) Synced() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.synced()
}

func (p *PolicyCache) synced() bool {
	for _, part := range p.parts {
		if !part.synced {
			return false
		}
	}
	return true
}

// WaitSynced waits until Synced. It fails with the context's error, or with what ended the cache.
func (p *PolicyCache) WaitSynced(ctx context.Context) error {
	for {
		p.mu.RLock()
		synced, waiting := p.synced(), p.waiting
		p.mu.RUnlock()
		if synced {
			return nil
		}
		select {
		case <-waiting:
		case <-ctx.Done():
			return ctx.Err()
		case <-p.done:
			return p.Err()
		}
	}
}

// Staleness is how old the copy is: that of its stalest namespace, Forever before Synced. While all is well it is at most about the
// interval of bookmarks.
func (p *PolicyCache) Staleness() time.Duration {
	return p.stalenessAt(time.Now(), "")
}

// stalenessAt is how old the copy of a namespace is, or that of all of them (""), at a time.
func (p *PolicyCache) stalenessAt(now time.Time, name string) time.Duration {
	p.mu.RLock()
	defer p.mu.RUnlock()
	oldest := time.Duration(0)
	for each, part := range p.parts {
		if name == "" || name == each {
			oldest = max(oldest, part.staleness(now))
		}
	}
	return oldest
}

// Namespace tells how one namespace is; of one that was not selected nothing is known.
func (p *PolicyCache) Namespace(name string) NamespaceStatus {
	p.mu.RLock()
	defer p.mu.RUnlock()
	part := p.parts[name]
	if part == nil {
		return NamespaceStatus{Staleness: Forever}
	}
	return NamespaceStatus{part.synced, part.staleness(time.Now()), part.state, part.reason, part.message}
}

func (p *PolicyCache) follow() {
	defer close(p.done)
	for {
		event, err := p.watch.Next()
		if err != nil {
			p.end(err)
			return
		}
		p.apply(event, time.Now())
	}
}

func (p *PolicyCache) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	for each := range p.listeners {
		each.stop()
	}
	clear(p.listeners)
}

func (p *PolicyCache) apply(event Event, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch each := event.(type) {
	case Changed:
		if p.parts[each.Namespace].take(each.Document) {
			p.tell(each.Document.Key)
		}
	case Synced:
		part := p.parts[each.Namespace]
		for _, key := range part.complete() {
			p.tell(key)
		}
		part.confirm(now.Add(-p.lag(each.ConfirmedTime)))
		close(p.waiting)
		p.waiting = make(chan struct{})
	case Bookmark:
		p.parts[each.Namespace].confirm(now.Add(-p.lag(each.ConfirmedTime)))
	case Reset:
		p.parts[each.Namespace].reset()
	case Status:
		part := p.parts[each.Namespace]
		part.state, part.reason, part.message = each.State, each.Reason, each.Message
	case Interrupted:
		p.newest = time.Time{} // the next stream may be another server's, with a clock of its own
		failure := fromError(each.Err)
		for _, part := range p.parts {
			part.state, part.reason, part.message = stateUnset, failure.Reason, failure.Message
		}
	}
}

// lag is how far what a bookmark confirms lies behind what the stream has confirmed of any namespace.
func (p *PolicyCache) lag(confirmed time.Time) time.Duration {
	if confirmed.After(p.newest) {
		p.newest = confirmed
	}
	return p.newest.Sub(confirmed)
}
