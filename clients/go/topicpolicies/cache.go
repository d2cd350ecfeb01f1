package topicpolicies

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// Forever is the staleness of a copy that was never complete.
const Forever = time.Duration(math.MaxInt64)

// PolicyCache is a local copy, kept up to date, of the documents that a selection names (the informer pattern). It watches in a goroutine
// of its own. Reads never wait and never fail: while the service is out of reach, they return the last known documents, and Staleness says
// how old the copy is.
//
// When a namespace starts over with a snapshot, its documents stay until the snapshot is complete; those that the snapshot does not have
// are then removed.
type PolicyCache struct {
	watch *Watch
	done  chan struct{}

	mu        sync.RWMutex
	parts     map[string]*part
	newest    time.Time     // the newest confirmed time of the present stream, in any namespace, by the server's clock
	waiting   chan struct{} // closed and replaced whenever a namespace is synced
	listeners map[*listener]struct{}
	err       error
}

// NamespaceStatus is the state of one namespace of a cache.
type NamespaceStatus struct {
	// Synced reports whether the first snapshot of the namespace is complete. From then on reads are complete, though they may be stale.
	Synced bool
	// Staleness is how long ago the copy was last confirmed to be complete; Forever before Synced.
	Staleness time.Duration
	// State is the state that the service reported. It is not set while the service is out of reach, and before its first report.
	State NamespaceState
	// Reason and Message say why the namespace is not followed, Reason for programs and Message for people; both are empty if it is
	// followed.
	Reason  string
	Message string
}

// Cache creates a cache and starts to fill it. Close it, or end the context, when it is no longer needed. Of the selection, Topics,
// Namespaces, Scopes and BookmarkInterval are used; BookmarkInterval is how often the service confirms that the copy is complete, by
// default 10 seconds.
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

// Close ends the cache and its listeners, and waits until it has stopped watching. Reads still return the last known documents.
func (p *PolicyCache) Close() {
	p.watch.Close()
	<-p.done
}

// Done returns a channel that is closed when the cache stops following: after Close, when its context ends, or after an error that retrying
// can't cure.
func (p *PolicyCache) Done() <-chan struct{} { return p.done }

// Err returns why the cache stopped following; nil while it follows.
func (p *PolicyCache) Err() error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.err
}

// Get returns a document; false if there is none, or none is known yet. The topic's name may lack its domain, or be that of a partition.
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

// Documents returns all documents, ordered by topic and scope.
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

// Synced reports whether the first snapshot of every namespace is complete.
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

// WaitSynced waits until Synced. It returns the context's error, or the error that ended the cache.
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

// Staleness returns how old the copy of the stalest namespace is; Forever before Synced. Normally it is at most about the bookmark
// interval.
func (p *PolicyCache) Staleness() time.Duration {
	return p.stalenessAt(time.Now(), "")
}

// stalenessAt returns how old the copy of a namespace is at a time; the empty name means the stalest one.
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

// Namespace returns the state of one namespace; for one that was not selected, only Staleness is set, to Forever.
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
			p.changed(each.Document.Key)
		}
	case Synced:
		part := p.parts[each.Namespace]
		for _, key := range part.complete() {
			p.changed(key)
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
		p.newest = time.Time{} // the next stream may come from another server, with a clock of its own
		failure := fromError(each.Err)
		for _, part := range p.parts {
			part.state, part.reason, part.message = stateUnset, failure.Reason, failure.Message
		}
	}
}

// lag returns how far a confirmed time lies behind the newest one that the stream has sent for any namespace.
func (p *PolicyCache) lag(confirmed time.Time) time.Duration {
	if confirmed.After(p.newest) {
		p.newest = confirmed
	}
	return p.newest.Sub(confirmed)
}
