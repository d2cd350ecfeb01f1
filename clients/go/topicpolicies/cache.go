package topicpolicies

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// Forever is the age of a copy that was never complete.
const Forever = time.Duration(math.MaxInt64)

// PolicyCache is a copy of documents that follows the service. Reads neither wait nor fail: while the service can't be reached, they return
// the last known documents, and Age says how old the copy is. If a namespace begins anew, its documents stay until the new snapshot is
// complete.
type PolicyCache struct {
	cancel context.CancelFunc
	done   chan struct{}
	synced chan struct{} // closed when every namespace has had its first snapshot

	delivering sync.Mutex // held while listeners are called, so that each gets the changes in order

	mu        sync.RWMutex
	copies    map[string]*namespaceCopy
	listeners map[*func(Change)]struct{}
	err       error
}

// Change is a change of a document.
type Change struct {
	// Topic is the topic's full name.
	Topic string
	// Scope is the document's scope.
	Scope pb.Scope
	// Before is the document before the change; nil if there was none.
	Before *pb.PolicyDocument
	// After is the document after the change; nil if there is none.
	After *pb.PolicyDocument
}

type key struct {
	topic string
	scope pb.Scope
}

// namespaceCopy is the copy of one namespace.
type namespaceCopy struct {
	documents map[key]*pb.PolicyDocument
	old       map[key]struct{} // the documents that the present snapshot has not sent
	synced    bool
	asOf      time.Time // the copy has everything up to this time; zero: that is not known
}

// Cache creates a cache of what the request selects, and starts to fill it. Close it, or end the context, when it is no longer needed.
func (c *Client) Cache(ctx context.Context, request *pb.WatchPoliciesRequest) *PolicyCache {
	ctx, cancel := context.WithCancel(ctx)
	cache := newCache(request, cancel)
	go func() {
		defer close(cache.done)
		defer cancel()
		for event, err := range c.WatchPolicies(ctx, request) {
			if err != nil {
				cache.mu.Lock()
				cache.err = err
				cache.mu.Unlock()
				return
			}
			cache.apply(event, time.Now())
		}
	}()
	return cache
}

func newCache(request *pb.WatchPoliciesRequest, cancel context.CancelFunc) *PolicyCache {
	cache := &PolicyCache{
		cancel: cancel, done: make(chan struct{}), synced: make(chan struct{}),
		copies: map[string]*namespaceCopy{}, listeners: map[*func(Change)]struct{}{},
	}
	namespaces := slices.Clone(request.GetNamespaces())
	for _, topic := range request.GetTopics() {
		namespaces = append(namespaces, namespaceOf(topic))
	}
	for _, name := range namespaces {
		cache.copies[name] = &namespaceCopy{documents: map[key]*pb.PolicyDocument{}}
	}
	return cache
}

// Close stops following. Reads still return the last known documents.
func (p *PolicyCache) Close() {
	p.cancel()
	<-p.done
}

// Done returns a channel that is closed when the cache no longer follows: after Close, or after an error that a repetition can't cure.
func (p *PolicyCache) Done() <-chan struct{} { return p.done }

// Err returns why the cache no longer follows; nil while it does.
func (p *PolicyCache) Err() error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.err
}

// WaitSynced waits until the first snapshot of every namespace is complete. It returns the error that ended the context or the cache.
func (p *PolicyCache) WaitSynced(ctx context.Context) error {
	select {
	case <-p.synced:
		return nil
	case <-p.done:
		return p.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Get returns a document; nil if there is none, or none is known yet. The topic's name may lack its domain, or be that of a partition; the
// scope UNSPECIFIED means LOCAL. Clone a document before you change it.
func (p *PolicyCache) Get(topic string, scope pb.Scope) *pb.PolicyDocument {
	if scope == pb.Scope_SCOPE_UNSPECIFIED {
		scope = pb.Scope_SCOPE_LOCAL
	}
	topic = fullName(topic)
	p.mu.RLock()
	defer p.mu.RUnlock()
	if part := p.copies[namespaceOf(topic)]; part != nil {
		return part.documents[key{topic, scope}]
	}
	return nil
}

// List returns all documents, ordered by topic and scope. Clone a document before you change it.
func (p *PolicyCache) List() []*pb.PolicyDocument {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var all []*pb.PolicyDocument
	for _, part := range p.copies {
		for _, document := range part.documents {
			all = append(all, document)
		}
	}
	slices.SortFunc(all, func(a, b *pb.PolicyDocument) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Scope, b.Scope))
	})
	return all
}

// Age returns how old the copy may be: that of its oldest namespace, Forever before its first snapshot. While the service is followed, it is
// about the bookmark interval at most.
func (p *PolicyCache) Age() time.Duration { return p.ageAt(time.Now()) }

func (p *PolicyCache) ageAt(now time.Time) time.Duration {
	p.mu.RLock()
	defer p.mu.RUnlock()
	age := time.Duration(0)
	for _, part := range p.copies {
		if !part.synced || part.asOf.IsZero() {
			return Forever
		}
		age = max(age, now.Sub(part.asOf))
	}
	return age
}

// Listen calls a function for every document of the cache, and then for every change, in order. Reads in the function already see the change.
// The cache waits for the function, so it must return soon, and must not call Listen. A call may be in progress when stop returns.
func (p *PolicyCache) Listen(call func(Change)) (stop func()) {
	p.delivering.Lock()
	defer p.delivering.Unlock()
	for _, document := range p.List() {
		call(Change{Topic: document.Topic, Scope: document.Scope, After: document})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listeners[&call] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.listeners, &call)
	}
}

// apply takes an event into the copy, and calls the listeners.
func (p *PolicyCache) apply(event *pb.WatchEvent, now time.Time) {
	p.delivering.Lock()
	defer p.delivering.Unlock()
	p.mu.Lock()
	var changes []Change
	if part := p.copies[event.GetNamespace()]; part != nil {
		changes = part.apply(event, now)
		p.noteSynced()
	}
	var listeners []func(Change)
	for each := range p.listeners {
		listeners = append(listeners, *each)
	}
	p.mu.Unlock()
	for _, change := range changes {
		for _, call := range listeners {
			call(change)
		}
	}
}

func (p *PolicyCache) noteSynced() {
	for _, part := range p.copies {
		if !part.synced {
			return
		}
	}
	select {
	case <-p.synced:
	default:
		close(p.synced)
	}
}

// apply takes an event into the copy, and returns what changed.
func (c *namespaceCopy) apply(event *pb.WatchEvent, now time.Time) (changes []Change) {
	switch content := event.GetContent().(type) {
	case *pb.WatchEvent_Change:
		changes = c.put(content.Change.GetDocument())
	case *pb.WatchEvent_Reset_:
		c.old = map[key]struct{}{}
		for each := range c.documents {
			c.old[each] = struct{}{}
		}
	case *pb.WatchEvent_Bookmark:
		if age := content.Bookmark.GetAge(); age != nil {
			c.asOf = now.Add(-age.AsDuration())
		}
		if content.Bookmark.GetSynced() {
			for each := range c.old {
				changes = append(changes, c.put(&pb.PolicyDocument{Topic: each.topic, Scope: each.scope})...)
			}
			c.synced = true
		}
	}
	return changes
}

// put takes a document, or its absence, into the copy. Documents of scopes that this package does not know are ignored.
func (c *namespaceCopy) put(document *pb.PolicyDocument) []Change {
	at := key{document.GetTopic(), document.GetScope()}
	if at.scope != pb.Scope_SCOPE_LOCAL && at.scope != pb.Scope_SCOPE_GLOBAL {
		return nil
	}
	delete(c.old, at)
	change := Change{Topic: at.topic, Scope: at.scope, Before: c.documents[at]}
	if document.Policies != nil {
		change.After = document
		c.documents[at] = document
	} else {
		delete(c.documents, at)
	}
	if proto.Equal(change.Before, change.After) {
		return nil // as in a new snapshot
	}
	return []Change{change}
}
