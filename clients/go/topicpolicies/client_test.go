package topicpolicies

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

func TestAnUpdateChangesTheMaskedFieldsAndNoOthers(t *testing.T) {
	client, key := open(t, sidecar.Address), topicIn(newNamespace())
	first, err := client.Update(t.Context(), Update{Key: key, Policies: &TopicPolicies{
		MaxProducerPerTopic: proto.Int32(5),
		MessageTtlInSeconds: proto.Int32(60),
		RetentionPolicies:   &pb.RetentionPolicies{RetentionTimeInMinutes: proto.Int32(10), RetentionSizeInMb: proto.Int64(100)},
	}})
	if err != nil || first.Outcome != UpdateOutcomeApplied {
		t.Fatal(first, err)
	}
	second, err := client.Update(t.Context(), Update{
		Key: key, Policies: &TopicPolicies{MaxProducerPerTopic: proto.Int32(6)},
		Mask: []string{"max_producer_per_topic", "message_ttl_in_seconds", "retention_policies.retention_time_in_minutes"},
		ETag: first.Version,
	})
	var failure *Error
	if !errors.As(err, &failure) || !errors.Is(err, ErrInvalidArgument) || len(failure.Violations) == 0 {
		t.Fatalf("a mandatory leaf of an object was cleared: %v %v", second, err)
	}
	second, err = client.Update(t.Context(), Update{
		Key: key, Policies: &TopicPolicies{MaxProducerPerTopic: proto.Int32(6)},
		Mask: []string{"max_producer_per_topic", "message_ttl_in_seconds"}, ETag: first.Version,
	})
	if err != nil || second.PreviousVersion != first.Version {
		t.Fatal(second, err)
	}
	want := &TopicPolicies{MaxProducerPerTopic: proto.Int32(6), RetentionPolicies: first.Document.Policies.GetRetentionPolicies()}
	if read, err := client.Get(t.Context(), key, AtLeastVersion(second.Version)); err != nil || !proto.Equal(read.Policies, want) ||
		read.Version != second.Version {
		t.Fatal(read, err)
	}
}

func TestMapEntriesAreSetAndRemovedOneByOne(t *testing.T) {
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
	entries := result.Document.Policies.GetSubscriptionPolicies()
	for _, name := range []string{"my-sub", "tick`ed"} {
		if rate := entries[name].GetDispatchRate(); rate.GetDispatchThrottlingRateInMsg() != 7 || rate.GetRatePeriodInSecond() != 1 {
			t.Errorf("%s: %v", name, rate)
		}
	}
	if len(entries) != 2 {
		t.Errorf("%v", entries)
	}
}

func TestAnUpdateWithoutAMaskIsSentWithoutOneAndTheServiceDefinesItsMeaning(t *testing.T) {
	for _, mask := range [][]string{nil, {}} {
		if request := (Update{Key: oneField.Key, Policies: oneField.Policies, Mask: mask}).request(); request.UpdateMask != nil {
			t.Errorf("%v", request)
		}
	}
	_, err := open(t, sidecar.Address).Update(t.Context(), Update{Key: topicIn(newNamespace())})
	var failure *Error
	if !errors.As(err, &failure) || failure.Reason != "EMPTY_MASK" || !failure.FromService {
		t.Errorf("%#v", err)
	}
}

func TestAnETagOfAnotherVersionIsAConflictAndMustNotExistFailsForAnExistingDocument(t *testing.T) {
	client, update := open(t, sidecar.Address), oneField
	update.Key = topicIn(newNamespace())
	update.ETag = put(t, client, Key{Topic: update.Topic, Scope: ScopeGlobal}, 1).Version
	_, err := client.Update(t.Context(), update)
	var failure *Error
	if !errors.Is(err, ErrConflict) || !errors.As(err, &failure) || !failure.FromService || failure.Reason != "ETAG_MISMATCH" {
		t.Errorf("%#v", err)
	}
	present := put(t, client, update.Key, 1).Version
	update.ETag, update.MustNotExist = "", true
	_, err = client.Update(t.Context(), update)
	if !errors.Is(err, ErrAlreadyExists) || !errors.As(err, &failure) || failure.Reason != "DOCUMENT_EXISTS" ||
		failure.Metadata["version"] != present {
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
	if err != nil || !again.Replayed || again.Version != first.Version {
		t.Errorf("%v %v", again, err)
	}
}

func TestOptionsOfAnUpdateReachTheService(t *testing.T) {
	client, update := open(t, sidecar.Address), oneField
	update.Key, update.SkipIfAbsent = topicIn(newNamespace()), true
	if skipped, err := client.Update(t.Context(), update); err != nil || skipped.Outcome != UpdateOutcomeSkipped || skipped.Document.Exists() {
		t.Errorf("%v %v", skipped, err)
	}
	update.SkipIfAbsent, update.ValidateOnly = false, true
	if dry, err := client.Update(t.Context(), update); err != nil || dry.Outcome != UpdateOutcomeWouldApply || !dry.Document.Exists() {
		t.Error(dry, err)
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
	types(ListOperationUnion, pb.SubscriptionType_SUBSCRIPTION_TYPE_SHARED, pb.SubscriptionType_SUBSCRIPTION_TYPE_FAILOVER)
	left := types(ListOperationSubtract, pb.SubscriptionType_SUBSCRIPTION_TYPE_SHARED).Document.Policies.GetSubscriptionTypesEnabled()
	if len(left) != 1 || left[0] != pb.SubscriptionType_SUBSCRIPTION_TYPE_FAILOVER {
		t.Errorf("%v", left)
	}
}

func TestDocumentsAreListedPageByPageAndDeletedOneByOne(t *testing.T) {
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
	update.Key = Key{Topic: namespace + "/t000"}
	local, err := client.Update(t.Context(), update)
	if err != nil || local.Outcome != UpdateOutcomeUnchanged {
		t.Fatal(local, err)
	}
	update.Scope = ScopeGlobal
	global, err := client.Update(t.Context(), update)
	if err != nil {
		t.Fatal(err)
	}
	count := func(scopes ...Scope) (found int) {
		for document, err := range client.List(t.Context(), namespace, scopes...).All() {
			if err != nil || !document.Exists() {
				t.Fatal(document, err)
			}
			found++
		}
		return found
	}
	if all, local := count(), count(ScopeLocal); all != topics+1 || local != topics {
		t.Errorf("%d in all, %d local", all, local)
	}
	removal := Deletion{Key: update.Key, ETag: local.Version}
	if _, err := client.Delete(t.Context(), removal); !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
	removal.ETag, removal.ValidateOnly = global.Version, true
	if result, err := client.Delete(t.Context(), removal); err != nil || result.Outcome != DeleteOutcomeWouldDelete {
		t.Error(result, err)
	}
	removal.ValidateOnly, removal.IncludePrevious = false, true
	result, err := client.Delete(t.Context(), removal)
	if err != nil || result.Outcome != DeleteOutcomeDeleted || result.PreviousVersion != global.Version || result.Document.Exists() {
		t.Errorf("%+v %v", result, err)
	}
	if result.Previous == nil || result.Previous.Policies.GetMaxProducerPerTopic() != 1 {
		t.Errorf("%+v", result.Previous)
	}
	removal.RequestID = result.RequestID
	if again, err := client.Delete(t.Context(), removal); err != nil || !again.Replayed {
		t.Errorf("%+v %v", again, err)
	}
	if absent, err := client.Delete(t.Context(), Deletion{Key: update.Key}); err != nil || absent.Outcome != DeleteOutcomeAbsent {
		t.Errorf("%+v %v", absent, err)
	}
	if count(ScopeLocal) != topics {
		t.Error("the other scope was deleted too")
	}
	for _, err := range client.List(t.Context(), "not a namespace").All() {
		if !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%v", err)
		}
	}
}

func TestADeletionWithoutADocumentIsAConflictOnlyIfItsETagDoesNotMatch(t *testing.T) {
	client, key := open(t, sidecar.Address), topicIn(newNamespace())
	made, err := client.Update(t.Context(), Update{Key: key, Policies: &TopicPolicies{MaxProducerPerTopic: proto.Int32(1)}})
	if err != nil {
		t.Fatal(err)
	}
	deleted, err := client.Delete(t.Context(), Deletion{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	for _, etag := range []string{"", deleted.Version} {
		if result, err := client.Delete(t.Context(), Deletion{Key: key, ETag: etag}); err != nil || result.Outcome != DeleteOutcomeAbsent {
			t.Errorf("%q: %+v %v", etag, result, err)
		}
	}
	if _, err := client.Delete(t.Context(), Deletion{Key: key, ETag: made.Version}); !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
}

func TestConcurrentEditsAreRepeatedOnConflictAndLoseNoChange(t *testing.T) {
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
		t.Error("there were no conflicts, so this proves nothing")
	} else {
		t.Logf("%d conflicts", conflicts)
	}
}

func TestAnEditSendsOnlyWhatDiffers(t *testing.T) {
	client, key := open(t, sidecar.Address), topicIn(newNamespace())
	unchanged, err := client.Edit(t.Context(), key, func(*TopicPolicies) error { return nil })
	if err != nil || unchanged.Outcome != UpdateOutcomeUnchanged || unchanged.RequestID != "" {
		t.Fatal(unchanged, err)
	}
	ends := errors.New("changed my mind")
	if _, err := client.Edit(t.Context(), key, func(*TopicPolicies) error { return ends }); !errors.Is(err, ends) {
		t.Fatal(err)
	}
	watch := watching(t, client, Selection{Topics: []string{key.Topic}, Mode: WatchModeEvery})
	nextOf[Changed](t, watch)
	nextOf[Changed](t, watch)
	nextOf[Synced](t, watch)
	for _, edit := range []func(*TopicPolicies) error{
		func(p *TopicPolicies) error {
			p.MaxProducerPerTopic = proto.Int32(1)
			rate := &pb.DispatchRate{DispatchThrottlingRateInMsg: proto.Int32(2)}
			p.SubscriptionPolicies = map[string]*pb.SubscriptionPolicies{"a.b": {DispatchRate: rate}}
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

func TestAnEditThatChangesNothingHasThePreviousDocumentIfThatIsRequested(t *testing.T) {
	client, key := open(t, sidecar.Address), topicIn(newNamespace())
	change := Update{Key: key, Policies: &TopicPolicies{MaxProducerPerTopic: proto.Int32(1)}, IncludePrevious: true}
	made, err := client.Update(t.Context(), change)
	if err != nil {
		t.Fatal(err)
	}
	again, err := client.Update(t.Context(), change) // the service's own answer
	if err != nil || again.Outcome != UpdateOutcomeUnchanged || again.Previous == nil || again.Previous.Version != made.Version {
		t.Fatalf("%+v %v", again, err)
	}
	nothing := func(*TopicPolicies) error { return nil }
	edited, err := client.Edit(t.Context(), key, nothing, func(update *Update) { update.IncludePrevious = true })
	if err != nil || edited.Outcome != again.Outcome || edited.Previous == nil || edited.Previous.Version != made.Version ||
		!proto.Equal(edited.Previous.Policies, again.Previous.Policies) {
		t.Errorf("%+v %v", edited, err)
	}
	if edited, err = client.Edit(t.Context(), key, nothing); err != nil || edited.Previous != nil {
		t.Errorf("%+v %v", edited, err)
	}
}

func TestAnEditFailsWithAConflictIfAnotherWriterIsFasterEveryTime(t *testing.T) {
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
