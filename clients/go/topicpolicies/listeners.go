package topicpolicies

import (
	"sync"

	"google.golang.org/protobuf/proto"
)

// Change is what a cache tells its listeners.
type Change struct {
	Key
	// Before is what this listener was told last; nil if nothing, or an absence.
	Before *PolicyDocument
	// After is the document; nil if it is gone.
	After *PolicyDocument
}

// Listen calls a function for every document that the cache has, and then for every change, in a goroutine of this listener's own, one call
// at a time. A listener that falls behind is told the newest state of what it has missed (the contract of Pulsar's TopicPolicyListener): it
// delays nobody, and what waits for it is bounded by the number of documents. The function must not call the returned stop, which waits for
// a call that is under way.
func (p *PolicyCache) Listen(tell func(Change)) (stop func()) {
	each := newListener(p, tell)
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

// tell notes for every listener that a document may have changed; the cache is locked.
func (p *PolicyCache) tell(key Key) {
	for each := range p.listeners {
		each.add(key)
	}
}

// listener is one listener with what waits for it: keys, not changes, in the order in which they first changed.
type listener struct {
	cache *PolicyCache
	tell  func(Change)
	told  map[Key]PolicyDocument

	mu      sync.Mutex
	pending map[Key]struct{}
	order   []Key

	wake    chan struct{}
	once    sync.Once
	stopped chan struct{}
	done    chan struct{}
}

func newListener(cache *PolicyCache, tell func(Change)) *listener {
	return &listener{
		cache: cache, tell: tell, told: map[Key]PolicyDocument{}, pending: map[Key]struct{}{},
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
	default: // it will be awake
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

// run tells what waits, and, once it was stopped, nothing more.
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

// deliverAll tells what waits, unless it was stopped.
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

// same tells whether two documents are one: after a reset even another one may have the same version.
func same(before, after PolicyDocument) bool {
	return before.Version == after.Version && proto.Equal(before.Policies, after.Policies)
}

func (l *listener) deliver(key Key) {
	change := Change{Key: key}
	if before, known := l.told[key]; known {
		change.Before = &before
	}
	if after, exists := l.cache.Get(key); exists {
		change.After = &after
		l.told[key] = after
	} else {
		delete(l.told, key)
	}
	if change.Before == nil && change.After == nil {
		return
	}
	if change.Before != nil && change.After != nil && same(*change.Before, *change.After) {
		return
	}
	l.tell(change)
}
