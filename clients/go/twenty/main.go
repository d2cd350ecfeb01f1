// The twenty tasks that every client does alike (tests/clients/twenty.md): twenty ADDRESS NAMESPACE.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"topicpolicies.example/clients/go/topicpolicies"
	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// limit is the time limit of every task.
const limit = 30 * time.Second

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: twenty ADDRESS NAMESPACE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address, namespace string) error {
	client, err := topicpolicies.New(address)
	if err != nil {
		return err
	}
	defer client.Close()
	tour := &tour{Client: client, namespace: namespace}
	for number, task := range []struct {
		name string
		do   func(context.Context) (output, error)
	}{
		{"update", tour.update},
		{"repeat", tour.repeat},
		{"unchanged", tour.unchanged},
		{"dry run", tour.dryRun},
		{"no mask", tour.noMask},
		{"clear", tour.clear},
		{"list", tour.list},
		{"version", tour.version},
		{"absent", tour.absent},
		{"skip", tour.skip},
		{"violations", tour.violations},
		{"edit", tour.edit},
		{"batch", tour.batch},
		{"scopes", tour.scopes},
		{"as of", tour.asOf},
		{"effective", tour.effective},
		{"list documents", tour.listDocuments},
		{"delete", tour.delete},
		{"watch and cache", tour.watchAndCache},
		{"history", tour.history},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		result, err := task.do(ctx)
		cancel()
		if err != nil {
			return fmt.Errorf("%02d %s: %w", number+1, task.name, err)
		}
		fmt.Printf("%02d %s: %s\n", number+1, task.name, strings.Join(result, ", "))
	}
	return nil
}

// output is the output of one task.
type output []string

// tour is the state that later tasks need of earlier ones.
type tour struct {
	*topicpolicies.Client
	namespace string
	first     *pb.ChangeResult
	before    string // the version of topic a before its last change
	global    *pb.PolicyDocument
}

func (t *tour) topic(name string) string { return "persistent://" + t.namespace + "/" + name }

// field returns a document that sets the field that twenty.md uses.
func field(value int32) *pb.TopicPolicies {
	return &pb.TopicPolicies{MaxProducerPerTopic: proto.Int32(value)}
}

func fieldOf(document *pb.PolicyDocument) string {
	if document == nil || document.Policies == nil {
		return "absent"
	}
	return fmt.Sprint(document.Policies.GetMaxProducerPerTopic())
}

func outcomeOf(result *pb.ChangeResult) string {
	return strings.TrimPrefix(result.GetOutcome().String(), "CHANGE_OUTCOME_")
}

func novelty(result *pb.ChangeResult) string {
	if result.GetReplayed() {
		return "replayed"
	}
	return "new"
}

// set updates the field of a topic, and whatever else the function sets in the request.
func (t *tour) set(ctx context.Context, topic string, value int32, more func(*pb.UpdatePolicyRequest)) (*pb.ChangeResult, error) {
	request := &pb.UpdatePolicyRequest{Topic: t.topic(topic), Policies: field(value)}
	if more != nil {
		more(request)
	}
	return t.UpdatePolicy(ctx, request)
}

func (t *tour) read(ctx context.Context, topic string) (*pb.PolicyDocument, error) {
	return t.GetPolicy(ctx, &pb.GetPolicyRequest{Topic: t.topic(topic)})
}

func asFirst(request *pb.UpdatePolicyRequest) {
	request.RequestId, request.Actor, request.Reason = "0123456789abcdef0123456789abcdef", "tour", "first"
}

func (t *tour) update(ctx context.Context) (_ output, err error) {
	t.first, err = t.set(ctx, "a", 5, asFirst)
	return output{outcomeOf(t.first), novelty(t.first)}, err
}

func (t *tour) repeat(ctx context.Context) (output, error) {
	result, err := t.set(ctx, "a", 5, asFirst)
	version := "other version"
	if result.GetVersion() == t.first.GetVersion() {
		version = "same version"
	}
	return output{outcomeOf(result), novelty(result), version}, err
}

func (t *tour) unchanged(ctx context.Context) (output, error) {
	result, err := t.set(ctx, "a", 5, nil)
	return output{outcomeOf(result)}, err
}

func (t *tour) dryRun(ctx context.Context) (output, error) {
	result, err := t.set(ctx, "a", 6, func(r *pb.UpdatePolicyRequest) { r.ValidateOnly = true })
	if err != nil {
		return nil, err
	}
	read, err := t.read(ctx, "a")
	return output{outcomeOf(result), fieldOf(result.GetDocument()), fieldOf(read)}, err
}

func (t *tour) noMask(ctx context.Context) (output, error) {
	retention := &pb.RetentionPolicies{RetentionTimeInMinutes: proto.Int32(10), RetentionSizeInMb: proto.Int64(100)}
	update := &pb.UpdatePolicyRequest{Topic: t.topic("a"), Policies: &pb.TopicPolicies{RetentionPolicies: retention}}
	if _, err := t.UpdatePolicy(ctx, update); err != nil {
		return nil, err
	}
	if _, err := t.set(ctx, "a", 7, nil); err != nil {
		return nil, err
	}
	read, err := t.read(ctx, "a")
	return output{fieldOf(read), fmt.Sprint(read.GetPolicies().GetRetentionPolicies().GetRetentionTimeInMinutes())}, err
}

func (t *tour) clear(ctx context.Context) (output, error) {
	mask := topicpolicies.Mask("retention_policies.retention_time_in_minutes", "retention_policies.retention_size_in_mb")
	if _, err := t.UpdatePolicy(ctx, &pb.UpdatePolicyRequest{Topic: t.topic("a"), UpdateMask: mask}); err != nil {
		return nil, err
	}
	read, err := t.read(ctx, "a")
	if read.GetPolicies().GetRetentionPolicies() != nil {
		return output{"set"}, err
	}
	return output{"unset"}, err
}

func (t *tour) list(ctx context.Context) (output, error) {
	const shared, failover = pb.SubscriptionType_SUBSCRIPTION_TYPE_SHARED, pb.SubscriptionType_SUBSCRIPTION_TYPE_FAILOVER
	var united string
	for _, step := range []struct {
		operation pb.ListOperation
		elements  []pb.SubscriptionType
	}{
		{pb.ListOperation_LIST_OPERATION_REPLACE, []pb.SubscriptionType{shared}},
		{pb.ListOperation_LIST_OPERATION_UNION, []pb.SubscriptionType{failover, shared}},
		{pb.ListOperation_LIST_OPERATION_SUBTRACT, []pb.SubscriptionType{shared}},
	} {
		result, err := t.UpdatePolicy(ctx, &pb.UpdatePolicyRequest{
			Topic: t.topic("a"), Policies: &pb.TopicPolicies{SubscriptionTypesEnabled: step.elements},
			ListOperations: map[string]pb.ListOperation{"subscription_types_enabled": step.operation},
		})
		if err != nil {
			return nil, err
		}
		t.before = result.GetPreviousVersion()
		if step.operation == pb.ListOperation_LIST_OPERATION_UNION {
			united = typesOf(result.GetDocument())
		}
	}
	read, err := t.read(ctx, "a")
	return output{united, typesOf(read)}, err
}

func typesOf(document *pb.PolicyDocument) string {
	var names []string
	for _, each := range document.GetPolicies().GetSubscriptionTypesEnabled() {
		names = append(names, strings.TrimPrefix(each.String(), "SUBSCRIPTION_TYPE_"))
	}
	return strings.Join(names, ",")
}

func (t *tour) version(ctx context.Context) (output, error) {
	return t.refused(ctx, topicpolicies.VersionIs(t.before))
}

func (t *tour) absent(ctx context.Context) (output, error) {
	return t.refused(ctx, topicpolicies.Exists(false))
}

// refused makes an update of a that is refused; it returns the reason and the code.
func (t *tour) refused(ctx context.Context, precondition *pb.Precondition) (output, error) {
	_, err := t.set(ctx, "a", 8, func(r *pb.UpdatePolicyRequest) { r.Precondition = precondition })
	failure, err := refusal(err)
	if err != nil {
		return nil, err
	}
	return output{failure.Reason, codeName(failure.Code)}, nil
}

// refusal returns the error with which a call was refused.
func refusal(err error) (*topicpolicies.Error, error) {
	var failure *topicpolicies.Error
	if errors.As(err, &failure) {
		return failure, nil
	}
	return nil, fmt.Errorf("not refused: %w", err)
}

// codeName returns the name of a gRPC code as gRPC's specification writes it.
func codeName(code codes.Code) string {
	var name strings.Builder
	for i, letter := range code.String() {
		if i > 0 && letter >= 'A' && letter <= 'Z' {
			name.WriteByte('_')
		}
		name.WriteRune(letter)
	}
	return strings.ToUpper(name.String())
}

func (t *tour) skip(ctx context.Context) (output, error) {
	result, err := t.set(ctx, "b", 1, func(r *pb.UpdatePolicyRequest) { r.SkipIfAbsent = true })
	return output{outcomeOf(result)}, err
}

func (t *tour) violations(ctx context.Context) (output, error) {
	_, err := t.UpdatePolicy(ctx, &pb.UpdatePolicyRequest{Topic: t.topic("a"), UpdateMask: topicpolicies.Mask("nope", "also.nope")})
	failure, err := refusal(err)
	if err != nil {
		return nil, err
	}
	var fields, reasons []string
	for _, each := range failure.Violations {
		fields, reasons = append(fields, each.GetField()), append(reasons, each.GetReason())
	}
	return output{codeName(failure.Code), strings.Join(fields, ","), strings.Join(reasons, ",")}, nil
}

func (t *tour) edit(ctx context.Context) (output, error) {
	request := &pb.UpdatePolicyRequest{Topic: t.topic("a")}
	more, err := t.Edit(ctx, request, func(policies *pb.TopicPolicies) error {
		policies.MaxProducerPerTopic = proto.Int32(policies.GetMaxProducerPerTopic() + 1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	same, err := t.Edit(ctx, request, func(*pb.TopicPolicies) error { return nil })
	return output{outcomeOf(more), fieldOf(more.GetDocument()), outcomeOf(same)}, err
}

func (t *tour) batch(ctx context.Context) (output, error) {
	const changes, topics = 200, 10
	var all []*pb.PolicyChangeRequest
	for i := range int32(changes) {
		update := &pb.UpdatePolicyRequest{Topic: t.topic(fmt.Sprint("m", i%topics)), Policies: field(i)}
		all = append(all, topicpolicies.UpdateOf(update))
	}
	wrong := &pb.UpdatePolicyRequest{Topic: t.topic("m0"), Policies: field(0), UpdateMask: topicpolicies.Mask("nope")}
	applied, failed, reason := 0, 0, ""
	for _, each := range t.Batch(ctx, append(all, topicpolicies.UpdateOf(wrong))) {
		if each.Err != nil {
			failure, err := refusal(each.Err)
			if err != nil {
				return nil, err
			}
			failed++
			reason = failure.Reason
		} else if each.Result.GetOutcome() == pb.ChangeOutcome_CHANGE_OUTCOME_APPLIED {
			applied++
		}
	}
	read, err := t.read(ctx, "m0")
	return output{fmt.Sprint(applied), fmt.Sprint(failed), reason, fieldOf(read)}, err
}

func (t *tour) scopes(ctx context.Context) (output, error) {
	_, err := t.set(ctx, "c", 3, func(r *pb.UpdatePolicyRequest) { r.Scope = pb.Scope_SCOPE_GLOBAL })
	if err != nil {
		return nil, err
	}
	local, err := t.read(ctx, "c")
	if err != nil {
		return nil, err
	}
	t.global, err = t.GetPolicy(ctx, &pb.GetPolicyRequest{Topic: t.topic("c"), Scope: pb.Scope_SCOPE_GLOBAL})
	return output{"LOCAL " + fieldOf(local), "GLOBAL " + fieldOf(t.global)}, err
}

func (t *tour) asOf(ctx context.Context) (output, error) {
	document, err := t.GetPolicyAsOf(ctx, &pb.GetPolicyAsOfRequest{
		Topic: t.topic("a"), AsOf: &pb.GetPolicyAsOfRequest_Version{Version: t.first.GetVersion()},
	})
	return output{fieldOf(document)}, err
}

func (t *tour) effective(ctx context.Context) (output, error) {
	effective, err := t.GetEffectivePolicy(ctx, &pb.GetEffectivePolicyRequest{Topic: t.topic("c")})
	if err != nil {
		return nil, err
	}
	for _, source := range effective.GetSources() {
		if source.GetPath() == "max_producer_per_topic" {
			name := strings.TrimPrefix(source.GetSource().String(), "POLICY_SOURCE_")
			return output{fmt.Sprint(effective.GetPolicies().GetMaxProducerPerTopic()), name}, nil
		}
	}
	return nil, errors.New("the field has no source")
}

func (t *tour) listDocuments(ctx context.Context) (output, error) {
	var found []string
	for document, err := range t.ListPolicies(ctx, &pb.ListPoliciesRequest{Namespace: t.namespace}) {
		if err != nil {
			return nil, err
		}
		found = append(found, path.Base(document.GetTopic())+" "+strings.TrimPrefix(document.GetScope().String(), "SCOPE_"))
	}
	return output{strings.Join(found, ",")}, nil
}

func (t *tour) delete(ctx context.Context) (output, error) {
	deletion := &pb.DeletePolicyRequest{Topic: t.global.GetTopic(), Scope: t.global.GetScope()}
	deletion.Precondition = topicpolicies.VersionIs("0")
	_, err := t.DeletePolicy(ctx, deletion)
	failure, err := refusal(err)
	if err != nil {
		return nil, err
	}
	said := output{failure.Reason}
	for _, precondition := range []*pb.Precondition{topicpolicies.VersionIs(t.global.GetVersion()), nil} {
		deletion.Precondition = precondition
		result, err := t.DeletePolicy(ctx, deletion)
		if err != nil {
			return nil, err
		}
		said = append(said, outcomeOf(result))
	}
	return said, nil
}

func (t *tour) watchAndCache(ctx context.Context) (output, error) {
	cache := t.Cache(ctx, &pb.WatchPoliciesRequest{Namespaces: []string{t.namespace}})
	defer cache.Close()
	if err := cache.WaitSynced(ctx); err != nil {
		return nil, err
	}
	changes := make(chan topicpolicies.Change, 100)
	stop := cache.Listen(func(change topicpolicies.Change) {
		if change.Topic == t.topic("a") {
			changes <- change
		}
	})
	defer stop()
	<-changes // the present document
	if _, err := t.set(ctx, "a", 40, nil); err != nil {
		return nil, err
	}
	select {
	case change := <-changes:
		age := "stale"
		if cache.Age() < time.Minute {
			age = "fresh"
		}
		cached := cache.Get(t.namespace+"/a", pb.Scope_SCOPE_LOCAL)
		return output{fieldOf(change.Before), fieldOf(change.After), fieldOf(cached), age}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (t *tour) history(ctx context.Context) (output, error) {
	var entries []*pb.HistoryEntry
	chained := "chained"
	for event, err := range t.WatchHistory(ctx, &pb.WatchHistoryRequest{Namespaces: []string{t.namespace}}) {
		if err != nil {
			return nil, err
		}
		if event.GetBookmark().GetSynced() {
			break
		}
		entry := event.GetEntry()
		if entry.GetDocument().GetTopic() != t.topic("a") {
			continue
		}
		if len(entries) > 0 && entry.GetPrevious().GetVersion() != entries[len(entries)-1].GetDocument().GetVersion() {
			chained = "not chained"
		}
		entries = append(entries, entry)
	}
	if len(entries) == 0 {
		return nil, errors.New("the history has no entry")
	}
	info, err := t.GetServerInfo(ctx, &pb.GetServerInfoRequest{})
	origin, kind := entries[0].GetOrigin(), strings.TrimPrefix(info.GetLog().String(), "LOG_KIND_")
	return output{fmt.Sprint(len(entries)), chained, origin.GetActor(), origin.GetReason(), kind}, err
}
