package topicpolicies

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

func TestBothScopesAreReadInOneCall(t *testing.T) {
	client, namespace := open(t, sidecar.Address), newNamespace()
	key := Key{namespace + "/orders", ScopeGlobal}
	put(t, client, key, 3)
	local, global, err := client.GetBoth(t.Context(), key.Topic+"-partition-2")
	if err != nil || local.Exists() || local.Scope != ScopeLocal || global.Scope != ScopeGlobal ||
		global.Policies.GetMaxProducerPerTopic() != 3 {
		t.Error(local, global, err)
	}
	if global.Topic != "persistent://"+key.Topic {
		t.Error(global.Topic)
	}
}

func TestADocumentIsReadAsOfATimeOrVersion(t *testing.T) {
	client, key := open(t, sidecar.Address), topicIn(newNamespace())
	first := put(t, client, key, 1)
	time.Sleep(50 * time.Millisecond)
	between := time.Now()
	time.Sleep(50 * time.Millisecond)
	last := put(t, client, key, 2)
	for what, read := range map[string]struct {
		option ReadOption
		want   int32
	}{
		"the first version": {AsOfVersion(first.Version), 1},
		"the last version":  {AsOfVersion(last.Version), 2},
		"the time between":  {AsOfTime(between), 1},
		"at least the last": {AtLeastVersion(last.Version), 2},
		"at least any":      {AtLeastVersion(""), 2},
	} {
		document, err := client.Get(t.Context(), key, read.option)
		if err != nil || document.Policies.GetMaxProducerPerTopic() != read.want {
			t.Errorf("%s: %v %v", what, document, err)
		}
	}
	local, global, err := client.GetBoth(t.Context(), key.Topic, AsOfTime(between))
	if err != nil || local.Policies.GetMaxProducerPerTopic() != 1 || global.Exists() {
		t.Error(local, global, err)
	}
	if _, err := client.Get(t.Context(), key, AsOfTime(time.Now().Add(time.Hour))); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestEffectivePoliciesAreReturnedWithTheirSources(t *testing.T) {
	server := ownServerWithLevels(t, "go/known")
	client := open(t, server.Address)
	key := Key{Topic: "go/known/orders", Scope: ScopeGlobal}
	global := put(t, client, key, 3)
	effective, err := client.Effective(t.Context(), EffectiveQuery{Topic: key.Topic, AtLeastGlobalVersion: global.Version})
	if err != nil {
		t.Fatal(err)
	}
	if effective.Topic != "persistent://go/known/orders" || effective.Policies.GetMaxProducerPerTopic() != 3 ||
		effective.GlobalVersion != global.Version || effective.Disabled {
		t.Errorf("%+v", effective)
	}
	sources := map[string]PolicySource{}
	for _, source := range effective.Sources {
		sources[source.Path] = source.Source
	}
	if sources["max_producer_per_topic"] != pb.PolicySource_POLICY_SOURCE_TOPIC_GLOBAL ||
		sources["max_consumer_per_topic"] != pb.PolicySource_POLICY_SOURCE_BROKER {
		t.Errorf("%v", sources)
	}
	applied, err := client.Effective(t.Context(), EffectiveQuery{Topic: key.Topic, View: EffectiveViewAppliedLocal})
	if err != nil || applied.Policies.GetMaxProducerPerTopic() == 3 {
		t.Errorf("%+v %v", applied, err)
	}
	if _, err := open(t, sidecar.Address).Effective(t.Context(), EffectiveQuery{Topic: key.Topic}); !errors.Is(err, ErrFailedPrecondition) {
		t.Error(err)
	}
}

func TestAHistoryIsListedPageByPage(t *testing.T) {
	client, namespace := open(t, sidecar.Address, WithActor("tester")), newNamespace()
	key := topicIn(namespace)
	const changes = 101 // one more than a page
	for i := range int32(changes) {
		put(t, client, key, i)
	}
	if _, err := client.Delete(t.Context(), Deletion{Key: key, Actor: "Grüner", Reason: "weg damit"}); err != nil {
		t.Fatal(err)
	}
	read := func(query HistoryQuery) (found []HistoryEntry) {
		history := client.History(t.Context(), query)
		for entry, err := range history.All() {
			if err != nil {
				t.Fatal(err)
			}
			if entry.Kind != pb.HistoryKind_HISTORY_KIND_TOMBSTONE {
				found = append(found, entry)
			}
		}
		if !history.Following() || len(history.Gaps()) != 0 {
			t.Errorf("following %t, gaps %v", history.Following(), history.Gaps())
		}
		return found
	}
	newest := read(HistoryQuery{Namespace: namespace})
	oldest := read(HistoryQuery{Topic: key.Topic, Order: HistoryOrderOldestFirst})
	if len(newest) != changes+1 || len(oldest) != changes+1 {
		t.Fatalf("%d and %d entries", len(newest), len(oldest))
	}
	last := newest[0]
	if last.Kind != pb.HistoryKind_HISTORY_KIND_DELETE || last.Document.Exists() ||
		last.Previous.Policies.GetMaxProducerPerTopic() != changes-1 {
		t.Errorf("%+v", last)
	}
	if last.Origin.GetActor() != "Grüner" || last.Origin.GetReason() != "weg damit" || last.Time.IsZero() || last.Position == "" {
		t.Errorf("%+v", last)
	}
	if first := oldest[0]; first.Document.Policies.GetMaxProducerPerTopic() != 0 || first.Origin.GetActor() != "tester" ||
		len(first.Changed) != 1 {
		t.Errorf("%+v", first)
	}
	actor := "Grüner"
	if theirs := read(HistoryQuery{Namespace: namespace, Actor: &actor}); len(theirs) != 1 {
		t.Errorf("%+v", theirs)
	}
	if before := read(HistoryQuery{Namespace: namespace, EndTime: oldest[0].Time}); len(before) != 0 {
		t.Errorf("%+v", before)
	}
	for _, err := range client.History(t.Context(), HistoryQuery{}).All() {
		if !errors.Is(err, ErrInvalidArgument) {
			t.Error(err)
		}
	}
}

func TestServerInfoHasTheVersionTheKindOfLogAndTheLimits(t *testing.T) {
	info, err := open(t, sidecar.Address).ServerInfo(t.Context())
	if err != nil || info.GetLog() != pb.LogKind_LOG_KIND_EMBEDDED || info.GetVersion() == "" || info.GetLimits().GetChangesPerStream() <= 0 {
		t.Error(info, err)
	}
}

func TestThePreviousDocumentIsReturnedOnlyIfRequested(t *testing.T) {
	client, key := open(t, sidecar.Address), topicIn(newNamespace())
	put(t, client, key, 1)
	update := Update{Key: key, Policies: &TopicPolicies{MaxProducerPerTopic: proto.Int32(2)}, IncludePrevious: true}
	if result, err := client.Update(t.Context(), update); err != nil || result.Previous == nil ||
		result.Previous.Policies.GetMaxProducerPerTopic() != 1 {
		t.Error(result, err)
	}
	if result := put(t, client, key, 3); result.Previous != nil {
		t.Error(result)
	}
}

func TestDocumentsOfUnknownScopesAreIgnored(t *testing.T) {
	known := &pb.PolicyDocument{Topic: "persistent://t/n/x", Scope: ScopeLocal}
	unknown := &pb.PolicyDocument{Topic: "persistent://t/n/x", Scope: 7}
	fake := &unknownScopeService{documents: []*pb.PolicyDocument{known, unknown}}
	client := open(t, serving(t, fake))
	documents, entries := 0, 0
	for document, err := range client.List(t.Context(), "t/n").All() {
		if err != nil || document.Scope != ScopeLocal {
			t.Error(document, err)
		}
		documents++
	}
	for entry, err := range client.History(t.Context(), HistoryQuery{Namespace: "t/n"}).All() {
		if err != nil || (entry.Document != nil && entry.Document.Scope != ScopeLocal) {
			t.Error(entry, err)
		}
		entries++
	}
	if documents != 1 || entries != 2 { // an entry that could not be read is included
		t.Errorf("%d documents, %d entries", documents, entries)
	}
}

type unknownScopeService struct {
	pb.UnimplementedTopicPoliciesServiceServer
	documents []*pb.PolicyDocument
}

func (s *unknownScopeService) ListPolicies(context.Context, *pb.ListPoliciesRequest) (*pb.ListPoliciesResponse, error) {
	return &pb.ListPoliciesResponse{Documents: s.documents}, nil
}

func (s *unknownScopeService) ListHistory(context.Context, *pb.ListHistoryRequest) (*pb.ListHistoryResponse, error) {
	answer := &pb.ListHistoryResponse{Entries: []*pb.HistoryEntry{{Problem: "It can't be read."}}}
	for _, document := range s.documents {
		answer.Entries = append(answer.Entries, &pb.HistoryEntry{Document: document})
	}
	return answer, nil
}

func TestTheStubSendsTheSameMetadata(t *testing.T) {
	fake := &fakeService{update: leading}
	client := open(t, fake.serve(t), WithActor("retention-bot"), WithToken(func(context.Context) (string, error) { return "secret", nil }))
	if _, err := client.Stub().UpdatePolicy(t.Context(), &pb.UpdatePolicyRequest{Topic: oneField.Topic}); err != nil {
		t.Fatal(err)
	}
	own := metadata.AppendToOutgoingContext(t.Context(), actorKey, "another actor")
	if _, err := client.Stub().UpdatePolicy(own, &pb.UpdatePolicyRequest{Topic: oneField.Topic}); err != nil {
		t.Fatal(err)
	}
	for i, actor := range []string{"retention-bot", "another actor"} {
		sent := fake.metadata[i]
		if found, token := sent.Get(actorKey), sent.Get("authorization"); len(found) != 1 || found[0] != actor || len(token) != 1 ||
			token[0] != "Bearer secret" {
			t.Errorf("sent %q and %q", found, token)
		}
	}
}

func TestAReadRefusedByAFollowerGoesToTheNamedLeaderAtOnce(t *testing.T) {
	leader := &fakeService{}
	follower := &fakeService{other: failing(1, refused(leader.serve(t)))}
	client := open(t, follower.serve(t)+","+unusedAddress(t))
	began := time.Now()
	if _, err := client.Get(t.Context(), oneField.Key); err != nil || time.Since(began) > 5*time.Second {
		t.Error(err, time.Since(began))
	}
	if _, err := client.Get(t.Context(), oneField.Key); err != nil {
		t.Error(err)
	}
	if follower.reads != 2 || leader.reads != 1 {
		t.Errorf("the follower received %d reads, the leader %d", follower.reads, leader.reads)
	}
}
