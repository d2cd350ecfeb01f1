package topicpolicies

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "topicpolicies/clients/go/topicpolicies/v1"
)

func TestAnUpdateChangesTheMaskedFieldsAndNoOthers(t *testing.T) {
	client, key := open(t, sidecar.Address), topicIn(newNamespace())
	first, err := client.Update(t.Context(), Update{Key: key, Policies: &TopicPolicies{
		MaxProducerPerTopic: proto.Int32(5),
		MessageTtlInSeconds: proto.Int32(60),
		RetentionPolicies:   &pb.RetentionPolicies{RetentionTimeInMinutes: proto.Int32(10), RetentionSizeInMb: proto.Int64(100)},
	}})
	if err != nil || first.Outcome != Applied {
		t.Fatal(first, err)
	}
	second, err := client.Update(t.Context(), Update{
		Key: key, Policies: &TopicPolicies{MaxProducerPerTopic: proto.Int32(6)},
		Mask: []string{"max_producer_per_topic", "message_ttl_in_seconds", "retention_policies.retention_time_in_minutes"},
		Etag: first.Version,
	})
	var failure *Error
	if !errors.As(err, &failure) || !errors.Is(err, ErrInvalidArgument) || len(failure.Violations) == 0 {
		t.Fatalf("a leaf that an object can't be without was cleared: %v %v", second, err)
	}
	second, err = client.Update(t.Context(), Update{
		Key: key, Policies: &TopicPolicies{MaxProducerPerTopic: proto.Int32(6)},
		Mask: []string{"max_producer_per_topic", "message_ttl_in_seconds"}, Etag: first.Version,
	})
	if err != nil || second.PreviousVersion != first.Version {
		t.Fatal(second, err)
	}
	want := &TopicPolicies{MaxProducerPerTopic: proto.Int32(6), RetentionPolicies: first.Policies.GetRetentionPolicies()}
	if read, err := client.GetAtLeast(t.Context(), key, second.Version); err != nil || !proto.Equal(read.Policies, want) || read.Version != second.Version {
		t.Fatal(read, err)
	}
}

func TestEntriesOfMapsAreSetAndRemovedOneByOne(t *testing.T) {
	client, key := open(t, sidecar.Address), topicIn(newNamespace())
	for _, name := range []string{"my-sub", "a.b", "tick`ed"} {
		policies := &TopicPolicies{SubscriptionPolicies: map[string]*pb.SubscriptionPolicies{
			name: {DispatchRate: &pb.DispatchRate{DispatchThrottlingRateInMsg: proto.Int32(7)}},
		}}
		path := Path("subscription_policies", name, "dispatch_rate", "dispatch_throttling_rate_in_msg")
		if _, err := client.Update(t.Context(), Update{Key: key, Policies: policies, Mask: []string{path}}); err != nil {
			t.Fatal(err)
		}
	}
	result, err := client.Update(t.Context(), Update{Key: key, Mask: []string{Path("subscription_policies", "a.b")}})
	if err != nil {
		t.Fatal(err)
	}
	entries := result.Policies.GetSubscriptionPolicies()
	for _, name := range []string{"my-sub", "tick`ed"} {
		if rate := entries[name].GetDispatchRate(); rate.GetDispatchThrottlingRateInMsg() != 7 || rate.GetRatePeriodInSecond() != 1 {
			t.Errorf("%s: %v", name, rate)
		}
	}
	if len(entries) != 2 {
		t.Errorf("%v", entries)
	}
}

func TestAnUpdateWithoutAnythingToChangeIsNotSent(t *testing.T) {
	_, err := open(t, sidecar.Address).Update(t.Context(), Update{Key: topicIn(newNamespace())})
	var failure *Error
	if !errors.As(err, &failure) || failure.Reason != "EMPTY_MASK" || failure.FromService {
		t.Errorf("%#v", err)
	}
}

func TestAnotherVersionThanTheEtagIsAConflict(t *testing.T) {
	client, update := open(t, sidecar.Address), oneField
	update.Key, update.Etag = topicIn(newNamespace()), "no such version"
	_, err := client.Update(t.Context(), update)
	var failure *Error
	if !errors.Is(err, ErrConflict) || !errors.As(err, &failure) || !failure.FromService || failure.Reason == "" {
		t.Errorf("%#v", err)
	}
}

func TestARepeatedRequestIsAppliedOnce(t *testing.T) {
	client, update := open(t, sidecar.Address), oneField
	update.Key = topicIn(newNamespace())
	first, err := client.Update(t.Context(), update)
	if err != nil {
		t.Fatal(err)
	}
	update.RequestID = first.RequestID
	again, err := client.Update(t.Context(), update)
	if err != nil || !again.Repeated || again.Version != first.Version {
		t.Errorf("%v %v", again, err)
	}
}

func TestOptionsOfAnUpdateReachTheService(t *testing.T) {
	client, update := open(t, sidecar.Address), oneField
	update.Key, update.SkipIfAbsent = topicIn(newNamespace()), true
	if skipped, err := client.Update(t.Context(), update); err != nil || skipped.Outcome != Skipped || skipped.Exists() {
		t.Errorf("%v %v", skipped, err)
	}
	update.SkipIfAbsent, update.ValidateOnly = false, true
	if _, err := client.Update(t.Context(), update); err != nil {
		t.Error(err)
	}
	if read, err := client.Get(t.Context(), update.Key); err != nil || read.Exists() {
		t.Errorf("%v %v", read, err)
	}
	types := func(operation ListOperation, each ...pb.SubscriptionType) UpdateResult {
		result, err := client.Update(t.Context(), Update{
			Key: update.Key, Policies: &TopicPolicies{SubscriptionTypesEnabled: each},
			ListOperations: map[string]ListOperation{"subscription_types_enabled": operation},
		})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	types(Union, pb.SubscriptionType_SUBSCRIPTION_TYPE_SHARED, pb.SubscriptionType_SUBSCRIPTION_TYPE_FAILOVER)
	left := types(Subtract, pb.SubscriptionType_SUBSCRIPTION_TYPE_SHARED).Policies.GetSubscriptionTypesEnabled()
	if len(left) != 1 || left[0] != pb.SubscriptionType_SUBSCRIPTION_TYPE_FAILOVER {
		t.Errorf("%v", left)
	}
}

func TestDocumentsAreListedPageByPageAndDeletedScopeByScope(t *testing.T) {
	client, namespace := open(t, sidecar.Address), newNamespace()
	const topics = 101 // one more than a page
	for i := range topics {
		update := oneField
		update.Key = Key{Topic: fmt.Sprintf("%s/t%03d", namespace, i)}
		if _, err := client.Update(t.Context(), update); err != nil {
			t.Fatal(err)
		}
	}
	update := oneField
	update.Key = Key{Topic: namespace + "/t000", Scope: Global}
	global, err := client.Update(t.Context(), update)
	if err != nil {
		t.Fatal(err)
	}
	count := func(scopes ...Scope) (found int) {
		for document, err := range client.List(t.Context(), namespace, scopes...) {
			if err != nil || !document.Exists() {
				t.Fatal(document, err)
			}
			found++
		}
		return found
	}
	if all, local := count(), count(Local); all != topics+1 || local != topics {
		t.Errorf("%d in all, %d local", all, local)
	}
	results, err := client.Delete(t.Context(), Deletion{Topic: update.Topic, Scopes: map[Scope]string{Local: "wrong", Global: global.Version}})
	if err != nil || len(results) != 2 {
		t.Fatal(results, err)
	}
	if !errors.Is(results[0].Err, ErrConflict) || results[1].Err != nil || results[1].Outcome != WasDeleted || results[1].PreviousVersion != global.Version {
		t.Errorf("%+v", results)
	}
	if results, err := client.Delete(t.Context(), Deletion{Topic: update.Topic}); err != nil || results[0].Outcome != WasDeleted {
		t.Errorf("%+v %v", results, err)
	}
	if results, err := client.Delete(t.Context(), Deletion{Topic: update.Topic}); err != nil || results[0].Outcome != WasAbsent {
		t.Errorf("%+v %v", results, err)
	}
	for _, err := range client.List(t.Context(), "not a namespace") {
		if !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%v", err)
		}
	}
}

func TestEditsAtOnceAreRepeatedOnConflictAndLoseNothing(t *testing.T) {
	const editors, edits = 4, 15
	key := topicIn(newNamespace())
	var runs atomic.Int64
	var group sync.WaitGroup
	for range editors {
		client := open(t, sidecar.Address)
		group.Add(1)
		go func() {
			defer group.Done()
			for range edits {
				_, err := client.Edit(t.Context(), key, func(policies *TopicPolicies) error {
					runs.Add(1)
					policies.MaxProducerPerTopic = proto.Int32(policies.GetMaxProducerPerTopic() + 1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		}()
	}
	group.Wait()
	read, err := open(t, sidecar.Address).Get(t.Context(), key)
	if err != nil || read.Policies.GetMaxProducerPerTopic() != editors*edits {
		t.Errorf("%v %v", read, err)
	}
	if conflicts := runs.Load() - editors*edits; conflicts == 0 {
		t.Error("there were no conflicts, so this showed nothing")
	} else {
		t.Logf("%d conflicts", conflicts)
	}
}

func TestAnEditSendsOnlyWhatDiffers(t *testing.T) {
	client, key := open(t, sidecar.Address), topicIn(newNamespace())
	unchanged, err := client.Edit(t.Context(), key, func(*TopicPolicies) error { return nil })
	if err != nil || unchanged.Outcome != Unchanged || unchanged.RequestID != "" {
		t.Fatal(unchanged, err)
	}
	ends := errors.New("changed my mind")
	if _, err := client.Edit(t.Context(), key, func(*TopicPolicies) error { return ends }); !errors.Is(err, ends) {
		t.Fatal(err)
	}
	watch := watching(t, client, Selection{Topics: []string{key.Topic}, Mode: Every})
	nextOf[Deleted](t, watch)
	nextOf[Deleted](t, watch)
	nextOf[Synced](t, watch)
	for _, edit := range []func(*TopicPolicies) error{
		func(p *TopicPolicies) error {
			p.MaxProducerPerTopic = proto.Int32(1)
			p.SubscriptionPolicies = map[string]*pb.SubscriptionPolicies{"a.b": {DispatchRate: &pb.DispatchRate{DispatchThrottlingRateInMsg: proto.Int32(2)}}}
			return nil
		},
		func(p *TopicPolicies) error {
			p.SubscriptionPolicies["a.b"].DispatchRate.DispatchThrottlingRateInMsg = proto.Int32(3)
			return nil
		},
	} {
		if _, err := client.Edit(t.Context(), key, edit); err != nil {
			t.Fatal(err)
		}
	}
	first, second := nextOf[Changed](t, watch), nextOf[Changed](t, watch)
	if mask := first.Origin.GetUpdateMask().GetPaths(); len(mask) != 2 {
		t.Errorf("%q", mask)
	}
	want := "subscription_policies.`a.b`.dispatch_rate.dispatch_throttling_rate_in_msg"
	if mask := second.Origin.GetUpdateMask().GetPaths(); len(mask) != 1 || mask[0] != want {
		t.Errorf("%q", mask)
	}
}

func TestAnEditThatIsTooLateEveryTimeIsAConflict(t *testing.T) {
	client, key := open(t, sidecar.Address), topicIn(newNamespace())
	runs := int32(0)
	_, err := client.Edit(t.Context(), key, func(policies *TopicPolicies) error {
		runs++
		policies.MaxConsumerPerTopic = proto.Int32(1)
		faster := Update{Key: key, Policies: &TopicPolicies{MaxProducerPerTopic: proto.Int32(runs)}}
		_, err := client.Update(context.WithoutCancel(t.Context()), faster)
		return err
	})
	if !errors.Is(err, ErrConflict) || runs != editAttempts {
		t.Errorf("%v after %d runs", err, runs)
	}
}
