package topicpolicies

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

func caching(t *testing.T, client *Client, selection Selection) *PolicyCache {
	t.Helper()
	cache, err := client.Cache(t.Context(), selection)
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
	other := Key{namespace + "/payments", ScopeGlobal}
	put(t, client, other, 2)
	until(t, "the new document is in the cache", func() bool { return len(cache.Documents()) == 2 })
	for _, name := range []string{"/payments", "/payments-partition-3"} {
		if _, found := cache.Get(Key{namespace + name, ScopeGlobal}); !found {
			t.Errorf("%s was not found by its short name", name)
		}
	}
	if _, found := cache.Get(Key{namespace + "/payments-partition-03", ScopeGlobal}); found {
		t.Error("what is no partition for Pulsar was taken for one")
	}
	if _, err := client.Delete(t.Context(), Deletion{Key: key}); err != nil {
		t.Fatal(err)
	}
	until(t, "the cache has removed the deleted document", func() bool { _, found := cache.Get(key); return !found })
}

func TestAListenerReceivesTheExistingDocumentsAndThenEveryChange(t *testing.T) {
	client, namespace := open(t, sidecar.Address), newNamespace()
	key := topicIn(namespace)
	put(t, client, key, 1)
	cache := caching(t, client, Selection{Topics: []string{key.Topic}})
	changes := make(chan Change, 10)
	stop := cache.Listen(func(change Change) { changes <- change })
	next := func() string {
		select {
		case change := <-changes:
			side := func(d *PolicyDocument) string {
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
	if change := next(); change != "none to 1" {
		t.Errorf("on registration: %s", change)
	}
	put(t, client, key, 2)
	if change := next(); change != "1 to 2" {
		t.Error(change)
	}
	if _, err := client.Delete(t.Context(), Deletion{Key: key}); err != nil {
		t.Fatal(err)
	}
	if change := next(); change != "2 to none" {
		t.Error(change)
	}
	stop()
	put(t, client, key, 3)
	until(t, "the cache has the change", func() bool { _, found := cache.Get(key); return found })
	if len(changes) != 0 {
		t.Error("a stopped listener was called")
	}
}

func TestASlowListenerDelaysNoOtherAndReachesTheNewestState(t *testing.T) {
	client, key := open(t, sidecar.Address), topicIn(newNamespace())
	cache := caching(t, client, Selection{Topics: []string{key.Topic}})
	var mu sync.Mutex
	var slow []int32
	release := make(chan struct{})
	stop := cache.Listen(func(change Change) {
		<-release
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
	close(release)
	until(t, "the listener has the newest state", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(slow) > 0 && slow[len(slow)-1] == changes
	})
	if len(slow) == changes {
		t.Error("no state was skipped, so this proves nothing")
	}
}

func TestACacheServesItsDocumentsWhileTheServerIsDownAndCatchesUpAfterwards(t *testing.T) {
	server := ownServer(t)
	client, namespace := open(t, server.Address), newNamespace()
	key := topicIn(namespace)
	put(t, client, key, 1)
	cache := caching(t, client, Selection{Namespaces: []string{namespace}, BookmarkInterval: time.Second})
	until(t, "the copy has become older", func() bool { return cache.Staleness() > 600*time.Millisecond })
	until(t, "a bookmark has confirmed it", func() bool {
		return cache.Staleness() < 500*time.Millisecond && cache.Namespace(namespace).Staleness < 500*time.Millisecond
	})
	server.Kill()
	until(t, "the copy is stale, and its status has the reason", func() bool {
		return cache.Staleness() > 1500*time.Millisecond && cache.Namespace(namespace).Message != ""
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
		return document.Policies.GetMaxProducerPerTopic() == 2 && cache.Staleness() < time.Second && cache.Namespace(namespace).Message == ""
	})
}

func TestStalenessIsForeverBeforeTheFirstSnapshot(t *testing.T) {
	cache, err := open(t, unusedAddress(t)).Cache(t.Context(), Selection{Namespaces: []string{"t/n", "t/m"}})
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	if status := cache.Namespace("t/n"); status.Staleness != Forever || status.Synced || cache.Staleness() != Forever || cache.Synced() {
		t.Errorf("%+v %s", status, cache.Staleness())
	}
	if status := cache.Namespace("not/selected"); status.Staleness != Forever {
		t.Errorf("%+v", status)
	}
}

func TestVersionsOfAbsentDocumentsAreDroppedAtTheNextBookmark(t *testing.T) {
	cache := newCache([]string{"t/n"})
	key := Key{"persistent://t/n/x", ScopeLocal}
	cache.apply(Synced{Namespace: "t/n"}, time.Now())
	cache.apply(Changed{Namespace: "t/n", Document: PolicyDocument{Key: key, Version: "2"}}, time.Now())
	if len(cache.parts["t/n"].documents) != 1 {
		t.Error("an absence has no version")
	}
	cache.apply(Bookmark{Namespace: "t/n"}, time.Now())
	if part := cache.parts["t/n"]; len(part.documents) != 0 || len(part.absent) != 0 {
		t.Errorf("%+v", part)
	}
}

func TestACacheCanBeReadWhileItChanges(t *testing.T) {
	client, namespace := open(t, sidecar.Address), newNamespace()
	cache := caching(t, client, Selection{Namespaces: []string{namespace}})
	const readers, changes = 4, 200
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range readers {
		group.Add(1)
		go func() {
			defer group.Done()
			stopListening := cache.Listen(func(Change) {})
			defer stopListening()
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = cache.Get(Key{Topic: namespace + "/m0"})
					_ = cache.Documents()
					_ = cache.Namespace(namespace)
				}
			}
		}()
	}
	for result, err := range client.UpdateMany(t.Context(), updates(namespace, 2, changes)) {
		if err != nil || result.Err != nil {
			t.Error(result.Err, err)
		}
	}
	until(t, "the cache has the last change", func() bool {
		document, _ := cache.Get(Key{Topic: namespace + "/m1"})
		return document.Policies.GetMaxProducerPerTopic() == changes-1
	})
	close(stop)
	group.Wait()
}

func TestACacheThatCannotFollowFailsWithTheReason(t *testing.T) {
	cache, err := open(t, sidecar.Address).Cache(t.Context(), Selection{Namespaces: []string{"not a namespace"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := cache.WaitSynced(t.Context()); !errors.Is(err, ErrInvalidArgument) || !errors.Is(cache.Err(), ErrInvalidArgument) {
		t.Errorf("%v, %v", err, cache.Err())
	}
	<-cache.Done()
	cache.Close()
}
