package topicpolicies

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
)

func caching(t *testing.T, client *Client, selection Selection) *PolicyCache {
	t.Helper()
	cache, err := client.NewCache(t.Context(), selection)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cache.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := cache.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	return cache
}

func TestACacheHasTheSnapshotAndEveryChange(t *testing.T) {
	client, namespace := open(t, sidecar.Address), newNamespace()
	key := topicIn(namespace)
	put(t, client, key, 1)
	cache := caching(t, client, Selection{Namespaces: []string{namespace}})
	if document, found := cache.Get(key); !found || document.Policies.GetMaxProducerPerTopic() != 1 || !cache.Synced() {
		t.Fatal(document, found)
	}
	other := Key{namespace + "/payments", Global}
	put(t, client, other, 2)
	until(t, "the new document is in the cache", func() bool { return len(cache.Documents()) == 2 })
	if _, found := cache.Get(Key{namespace + "/payments-partition-3", Global}); !found {
		t.Error("a partition's name did not mean its base topic")
	}
	if _, err := client.Delete(t.Context(), Deletion{Topic: key.Topic}); err != nil {
		t.Fatal(err)
	}
	until(t, "the deleted document is gone", func() bool { _, found := cache.Get(key); return !found })
}

func TestAListenerIsToldWhatThereIsAndThenEveryChange(t *testing.T) {
	client, namespace := open(t, sidecar.Address), newNamespace()
	key := topicIn(namespace)
	put(t, client, key, 1)
	cache := caching(t, client, Selection{Topics: []string{key.Topic}})
	changes := make(chan Change, 10)
	stop := cache.Listen(func(change Change) { changes <- change })
	next := func() string {
		select {
		case change := <-changes:
			side := func(d *Document) string {
				if d == nil {
					return "none"
				}
				return fmt.Sprint(d.Policies.GetMaxProducerPerTopic())
			}
			return side(change.Before) + " to " + side(change.After)
		case <-time.After(20 * time.Second):
			return "nothing"
		}
	}
	if told := next(); told != "none to 1" {
		t.Errorf("on registration: %s", told)
	}
	put(t, client, key, 2)
	if told := next(); told != "1 to 2" {
		t.Error(told)
	}
	if _, err := client.Delete(t.Context(), Deletion{Topic: key.Topic}); err != nil {
		t.Fatal(err)
	}
	if told := next(); told != "2 to none" {
		t.Error(told)
	}
	stop()
	put(t, client, key, 3)
	until(t, "the cache has the change", func() bool { _, found := cache.Get(key); return found })
	if len(changes) != 0 {
		t.Error("a stopped listener was told something")
	}
}

func TestASlowListenerDelaysNobodyAndEndsAtTheNewestState(t *testing.T) {
	client, key := open(t, sidecar.Address), topicIn(newNamespace())
	cache := caching(t, client, Selection{Topics: []string{key.Topic}})
	var mu sync.Mutex
	var slow []int32
	goOn := make(chan struct{})
	stop := cache.Listen(func(change Change) {
		<-goOn
		mu.Lock()
		defer mu.Unlock()
		slow = append(slow, change.After.Policies.GetMaxProducerPerTopic())
	})
	defer stop()
	const changes = 20
	for i := range int32(changes) {
		put(t, client, key, i+1)
	}
	until(t, "the cache is ahead of its listener", func() bool {
		document, _ := cache.Get(key)
		return document.Policies.GetMaxProducerPerTopic() == changes
	})
	close(goOn)
	until(t, "the listener has the newest state", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(slow) > 0 && slow[len(slow)-1] == changes
	})
	if len(slow) == changes {
		t.Error("nothing was left out, so this showed nothing")
	}
}

func TestACacheServesWhatItKnowsWhileTheServerIsAwayAndCatchesUp(t *testing.T) {
	server := ownServer(t)
	client, namespace := open(t, server.Address), newNamespace()
	key := topicIn(namespace)
	put(t, client, key, 1)
	cache := caching(t, client, Selection{Namespaces: []string{namespace}, BookmarkInterval: time.Second})
	until(t, "the copy has become older", func() bool { return cache.Staleness() > 600*time.Millisecond })
	until(t, "a bookmark has confirmed it", func() bool {
		return cache.Staleness() < 500*time.Millisecond && time.Since(cache.State(namespace).ConfirmedAt) < time.Second
	})
	server.Kill()
	until(t, "the copy is stale, and says why", func() bool {
		return cache.Staleness() > 1500*time.Millisecond && cache.State(namespace).Problem != ""
	})
	if document, found := cache.Get(key); !found || document.Policies.GetMaxProducerPerTopic() != 1 || !cache.Synced() {
		t.Error(document, found)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	put(t, client, key, 2)
	until(t, "the cache has caught up", func() bool {
		document, _ := cache.Get(key)
		return document.Policies.GetMaxProducerPerTopic() == 2 && cache.Staleness() < time.Second && cache.State(namespace).Problem == ""
	})
}

func TestWhatASecondSnapshotDoesNotTellAgainIsDropped(t *testing.T) {
	cache := &PolicyCache{
		namespaces: map[string]*namespaceCopy{"t/n": {keys: map[Key]struct{}{}}}, documents: map[Key]Document{},
		waiting: make(chan struct{}), listeners: map[*listener]struct{}{},
	}
	stays, goes := Key{"persistent://t/n/stays", Local}, Key{"persistent://t/n/goes", Local}
	tell := func(key Key) {
		policies := &TopicPolicies{MaxProducerPerTopic: proto.Int32(1)}
		cache.apply(Changed{Document{key, policies, "1"}, Place{Namespace: "t/n", Snapshot: true}}, time.Now())
	}
	tell(stays)
	tell(goes)
	cache.apply(Synced{Namespace: "t/n"}, time.Now())
	cache.apply(Restarted{Namespace: "t/n"}, time.Now())
	tell(stays)
	if _, found := cache.Get(goes); !found || !cache.Synced() {
		t.Error("it was dropped before the snapshot was complete")
	}
	cache.apply(Synced{Namespace: "t/n"}, time.Now())
	if documents := cache.Documents(); len(documents) != 1 || documents[0].Key != stays {
		t.Errorf("%+v", documents)
	}
}

func TestACacheThatCannotFollowSaysWhy(t *testing.T) {
	cache, err := open(t, sidecar.Address).NewCache(t.Context(), Selection{Namespaces: []string{"not a namespace"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := cache.WaitSynced(t.Context()); !errors.Is(err, ErrInvalidArgument) || !errors.Is(cache.Err(), ErrInvalidArgument) {
		t.Errorf("%v, %v", err, cache.Err())
	}
	<-cache.Done()
	cache.Close()
}
