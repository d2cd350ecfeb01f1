package topicpolicies

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// PolicyCache is a local, always current copy of the documents that a selection names (the informer pattern). It watches in a goroutine of its
// own. Reads never wait and never fail: while the service is out of reach they give what was known last, and Staleness says since when.
//
// While a namespace begins again with a snapshot, what was known of it stays; what the snapshot does not tell of again is dropped when it is
// complete.
type PolicyCache struct {
	watch *Watch
	done  chan struct{}

	mu         sync.RWMutex
	namespaces map[string]*namespaceCopy
	documents  map[Key]Document
	waiting    chan struct{} // closed and replaced when a namespace has been synced
	listeners  map[*listener]struct{}
	began      time.Time
	err        error
}

// namespaceCopy is what is known of one namespace besides its documents.
type namespaceCopy struct {
	synced    bool
	confirmed time.Time
	doubtful  map[Key]struct{} // of an earlier snapshot, and not told again yet; nil outside of one
	keys      map[Key]struct{}
	problem   string
}

// NamespaceState is how a namespace of a cache is.
type NamespaceState struct {
	// Synced tells whether its first snapshot was complete. From then on reads are complete, if perhaps stale.
	Synced bool
	// ConfirmedAt is when the service last said something that covers all that this copy has; zero before Synced.
	ConfirmedAt time.Time
	// Problem is a sentence for people while it can't be followed, else empty.
	Problem string
}

// NewCache makes a cache and starts to fill it. Close it, or end the context, when it is no longer needed. Scopes, Topics and Namespaces of the
// selection count; BookmarkInterval is how often the service confirms that nothing has changed, 10 seconds if it is not set.
func (c *Client) NewCache(ctx context.Context, selection Selection) (*PolicyCache, error) {
	selection.Mode, selection.Resume, selection.Patience = Latest, nil, 0
	watch, err := c.Watch(ctx, selection)
	if err != nil {
		return nil, err
	}
	cache := &PolicyCache{
		watch:      watch,
		done:       make(chan struct{}),
		namespaces: map[string]*namespaceCopy{},
		documents:  map[Key]Document{},
		waiting:    make(chan struct{}),
		listeners:  map[*listener]struct{}{},
		began:      time.Now(),
	}
	for _, name := range watch.session.order {
		cache.namespaces[name] = &namespaceCopy{keys: map[Key]struct{}{}}
	}
	go cache.follow()
	return cache, nil
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

// Get gives a document; false if there is none, or none is known yet. Its policies are shared: clone them before you change them.
func (p *PolicyCache) Get(key Key) (Document, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	document, found := p.documents[key.full()]
	return document, found
}

// Documents gives all documents, ordered by topic and scope.
func (p *PolicyCache) Documents() []Document {
	p.mu.RLock()
	all := make([]Document, 0, len(p.documents))
	for _, document := range p.documents {
		all = append(all, document)
	}
	p.mu.RUnlock()
	slices.SortFunc(all, func(a, b Document) int {
		if order := strings.Compare(a.Topic, b.Topic); order != 0 {
			return order
		}
		return int(a.Scope) - int(b.Scope)
	})
	return all
}

// Synced tells whether the first snapshot of every namespace was complete.
func (p *PolicyCache) Synced() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.synced()
}

func (p *PolicyCache) synced() bool {
	for _, namespace := range p.namespaces {
		if !namespace.synced {
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

// Staleness is how long ago the service last said something that covers all that this copy has, of the namespace for which that is the longest;
// before Synced, how long the cache has been at it. While all is well it is at most about the interval of bookmarks.
func (p *PolicyCache) Staleness() time.Duration {
	p.mu.RLock()
	defer p.mu.RUnlock()
	oldest := time.Now()
	for _, namespace := range p.namespaces {
		confirmed := namespace.confirmed
		if confirmed.IsZero() {
			confirmed = p.began
		}
		if confirmed.Before(oldest) {
			oldest = confirmed
		}
	}
	return time.Since(oldest)
}

// State tells how one namespace is; the zero state for one that was not selected.
func (p *PolicyCache) State(namespace string) NamespaceState {
	p.mu.RLock()
	defer p.mu.RUnlock()
	known := p.namespaces[namespace]
	if known == nil {
		return NamespaceState{}
	}
	return NamespaceState{known.synced, known.confirmed, known.problem}
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
		p.take(each.Document, each.Place, now)
	case Deleted:
		p.take(each.Document, each.Place, now)
	case Synced:
		namespace := p.of(each.Namespace)
		for key := range namespace.doubtful {
			p.drop(namespace, key)
		}
		namespace.doubtful = nil
		namespace.synced = true
		namespace.confirm(now)
		close(p.waiting)
		p.waiting = make(chan struct{})
	case Bookmark:
		p.of(each.Namespace).confirm(now)
	case Restarted:
		namespace := p.of(each.Namespace)
		namespace.doubtful = map[Key]struct{}{}
		for key := range namespace.keys {
			namespace.doubtful[key] = struct{}{}
		}
	case NamespaceLoading:
		p.of(each.Namespace).problem = each.Message
	case NamespaceUnavailable:
		p.of(each.Namespace).problem = each.Message
	case Interrupted:
		for _, namespace := range p.namespaces {
			namespace.problem = each.Err.Error()
		}
	}
}

func (p *PolicyCache) of(namespace string) *namespaceCopy {
	known := p.namespaces[namespace]
	if known == nil { // the service spells it differently
		known = &namespaceCopy{keys: map[Key]struct{}{}}
		p.namespaces[namespace] = known
	}
	return known
}

func (p *PolicyCache) take(document Document, where Place, now time.Time) {
	namespace := p.of(where.Namespace)
	delete(namespace.doubtful, document.Key)
	if !where.Snapshot {
		namespace.confirm(now)
	}
	if !document.Exists() {
		p.drop(namespace, document.Key)
		return
	}
	p.documents[document.Key] = document
	namespace.keys[document.Key] = struct{}{}
	p.tell(document.Key)
}

func (p *PolicyCache) drop(namespace *namespaceCopy, key Key) {
	delete(p.documents, key)
	delete(namespace.keys, key)
	p.tell(key)
}

func (n *namespaceCopy) confirm(now time.Time) {
	n.confirmed, n.problem = now, ""
}
