package topicpolicies

import (
	"sync"

	"google.golang.org/protobuf/proto"
)

// Change is a change of a document, as a cache reports it to its listeners.
type Change struct {
	Key
	// Before is the document that this listener was last called with; nil if there was none.
	Before *PolicyDocument
	// After is the document after the change; nil if there is none any more.
	After *PolicyDocument
}

// Listen calls a function for every document in the cache, and then for every change, in a goroutine of its own, one call at a time. A
// listener that falls behind gets the newest state of the documents that it has missed (the contract of Pulsar's TopicPolicyListener): it
// delays neither the cache nor other listeners, and its queue is bounded by the number of documents. The function must not call stop, which
// waits until a call in progress returns.
func (p *PolicyCache) Listen(call func(Change)) (stop func()) {
	each := newListener(p, call)
	p.mu.Lock()
	for _, part := range p.parts {
		for key := range part.documents {
			each.add(key)
		}
	}
	if p.err != nil {
		each.stop()
	}
	p.listeners[each] = struct{}{}
	p.mu.Unlock()
	go each.run()
	return func() {
		p.mu.Lock()
		delete(p.listeners, each)
		p.mu.Unlock()
		each.stop()
		<-each.done
	}
}

// changed notes for every listener that a document may have changed. The caller holds the cache's lock.
func (p *PolicyCache) changed(key Key) {
	for each := range p.listeners {
		each.add(key)
	}
}

// listener is one listener with its queue: keys, not changes, in the order in which they first changed.
type listener struct {
	cache *PolicyCache
	call  func(Change)
	last  map[Key]PolicyDocument // what the listener has received

	mu      sync.Mutex
	pending map[Key]struct{}
	order   []Key

	wake    chan struct{}
	once    sync.Once
	stopped chan struct{}
	done    chan struct{}
}

func newListener(cache *PolicyCache, call func(Change)) *listener {
	return &listener{
		cache: cache, call: call, last: map[Key]PolicyDocument{}, pending: map[Key]struct{}{},
		wake: make(chan struct{}, 1), stopped: make(chan struct{}), done: make(chan struct{}),
	}
}

func (l *listener) add(key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, waits := l.pending[key]; waits {
		return
	}
	l.pending[key] = struct{}{}
	l.order = append(l.order, key)
	select {
	case l.wake <- struct{}{}:
	default: // a wake-up is already pending
	}
}

func (l *listener) next() (Key, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.order) == 0 {
		return Key{}, false
	}
	key := l.order[0]
	l.order = l.order[1:]
	delete(l.pending, key)
	return key, true
}

func (l *listener) stop() { l.once.Do(func() { close(l.stopped) }) }

// run delivers the queued changes until the listener is stopped.
func (l *listener) run() {
	defer close(l.done)
	for {
		select {
		case <-l.stopped:
			return
		case <-l.wake:
		}
		l.deliverAll()
	}
}

// deliverAll delivers the queued changes, unless the listener is stopped.
func (l *listener) deliverAll() {
	for key, found := l.next(); found; key, found = l.next() {
		select {
		case <-l.stopped:
			return
		default:
		}
		l.deliver(key)
	}
}

// same reports whether two documents are equal. The version is not enough: after a reset, another document may have the same one.
func same(before, after PolicyDocument) bool {
	return before.Version == after.Version && proto.Equal(before.Policies, after.Policies)
}

func (l *listener) deliver(key Key) {
	change := Change{Key: key}
	if before, known := l.last[key]; known {
		change.Before = &before
	}
	if after, exists := l.cache.Get(key); exists {
		change.After = &after
		l.last[key] = after
	} else {
		delete(l.last, key)
	}
	if change.Before == nil && change.After == nil {
		return
	}
	if change.Before != nil && change.After != nil && same(*change.Before, *change.After) {
		return
	}
	l.call(change)
}
