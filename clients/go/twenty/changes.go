package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"topicpolicies.example/clients/go/topicpolicies"
	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

func (t *tour) firstUpdate() topicpolicies.Update {
	return topicpolicies.Update{
		Key: t.key("a"), Policies: field(5), RequestID: "0123456789abcdef0123456789abcdef", Actor: "tour", Reason: "first",
	}
}

func (t *tour) update(ctx context.Context) (output, error) {
	result, err := t.client.Update(ctx, t.firstUpdate())
	t.first = result
	return output{outcomeOf(result), novelty(result)}, err
}

func (t *tour) repeat(ctx context.Context) (output, error) {
	result, err := t.client.Update(ctx, t.firstUpdate())
	version := "other version"
	if result.Version == t.first.Version {
		version = "same version"
	}
	return output{outcomeOf(result), novelty(result), version}, err
}

func (t *tour) unchanged(ctx context.Context) (output, error) {
	result, err := t.client.Update(ctx, topicpolicies.Update{Key: t.key("a"), Policies: field(5)})
	return output{outcomeOf(result)}, err
}

func (t *tour) dryRun(ctx context.Context) (output, error) {
	result, err := t.client.Update(ctx, topicpolicies.Update{Key: t.key("a"), Policies: field(6), ValidateOnly: true})
	if err != nil {
		return nil, err
	}
	read, err := t.client.Get(ctx, t.key("a"))
	return output{outcomeOf(result), fieldOf(result.Document), fieldOf(read)}, err
}

func (t *tour) noMask(ctx context.Context) (output, error) {
	retention := &pb.RetentionPolicies{RetentionTimeInMinutes: proto.Int32(10), RetentionSizeInMb: proto.Int64(100)}
	if _, err := t.client.Update(ctx, topicpolicies.Update{
		Key: t.key("a"), Policies: &topicpolicies.TopicPolicies{RetentionPolicies: retention},
	}); err != nil {
		return nil, err
	}
	if _, err := t.client.Update(ctx, topicpolicies.Update{Key: t.key("a"), Policies: field(7)}); err != nil {
		return nil, err
	}
	read, err := t.client.Get(ctx, t.key("a"))
	return output{fieldOf(read), fmt.Sprint(read.Policies.GetRetentionPolicies().GetRetentionTimeInMinutes())}, err
}

func (t *tour) clear(ctx context.Context) (output, error) {
	leaves := []string{"retention_policies.retention_time_in_minutes", "retention_policies.retention_size_in_mb"}
	if _, err := t.client.Update(ctx, topicpolicies.Update{Key: t.key("a"), Mask: leaves}); err != nil {
		return nil, err
	}
	read, err := t.client.Get(ctx, t.key("a"))
	if read.Policies.GetRetentionPolicies() != nil {
		return output{"set"}, err
	}
	return output{"unset"}, err
}

func (t *tour) list(ctx context.Context) (output, error) {
	const shared, failover = pb.SubscriptionType_SUBSCRIPTION_TYPE_SHARED, pb.SubscriptionType_SUBSCRIPTION_TYPE_FAILOVER
	var united string
	for _, step := range []struct {
		operation topicpolicies.ListOperation
		elements  []pb.SubscriptionType
	}{
		{topicpolicies.ListOperationReplace, []pb.SubscriptionType{shared}},
		{topicpolicies.ListOperationUnion, []pb.SubscriptionType{failover, shared}},
		{topicpolicies.ListOperationSubtract, []pb.SubscriptionType{shared}},
	} {
		result, err := t.client.Update(ctx, topicpolicies.Update{
			Key: t.key("a"), Policies: &topicpolicies.TopicPolicies{SubscriptionTypesEnabled: step.elements},
			ListOperations: map[string]topicpolicies.ListOperation{"subscription_types_enabled": step.operation},
		})
		if err != nil {
			return nil, err
		}
		t.before = result.PreviousVersion
		if step.operation == topicpolicies.ListOperationUnion {
			united = typesOf(result.Document)
		}
	}
	read, err := t.client.Get(ctx, t.key("a"))
	return output{united, typesOf(read)}, err
}

func typesOf(document topicpolicies.PolicyDocument) string {
	var names []string
	for _, each := range document.Policies.GetSubscriptionTypesEnabled() {
		names = append(names, shortName(each, "SUBSCRIPTION_TYPE_"))
	}
	return strings.Join(names, ",")
}

func (t *tour) etag(ctx context.Context) (output, error) {
	_, err := t.client.Update(ctx, topicpolicies.Update{Key: t.key("a"), Policies: field(8), ETag: t.before})
	return reasonAndCode(err)
}

func (t *tour) mustNotExist(ctx context.Context) (output, error) {
	_, err := t.client.Update(ctx, topicpolicies.Update{Key: t.key("a"), Policies: field(8), MustNotExist: true})
	return reasonAndCode(err)
}

func reasonAndCode(err error) (output, error) {
	failure, err := refusal(err)
	if err != nil {
		return nil, err
	}
	return output{failure.Reason, codeName(failure)}, nil
}

func (t *tour) skip(ctx context.Context) (output, error) {
	result, err := t.client.Update(ctx, topicpolicies.Update{Key: t.key("b"), Policies: field(1), SkipIfAbsent: true})
	return output{outcomeOf(result)}, err
}

func (t *tour) violations(ctx context.Context) (output, error) {
	_, err := t.client.Update(ctx, topicpolicies.Update{Key: t.key("a"), Mask: []string{"nope", "also.nope"}})
	failure, err := refusal(err)
	if err != nil {
		return nil, err
	}
	var fields, reasons []string
	for _, each := range failure.Violations {
		fields, reasons = append(fields, each.Field), append(reasons, each.Reason)
	}
	return output{codeName(failure), strings.Join(fields, ","), strings.Join(reasons, ",")}, nil
}

func (t *tour) edit(ctx context.Context) (output, error) {
	more, err := t.client.Edit(ctx, t.key("a"), func(policies *topicpolicies.TopicPolicies) error {
		policies.MaxProducerPerTopic = proto.Int32(policies.GetMaxProducerPerTopic() + 1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	same, err := t.client.Edit(ctx, t.key("a"), func(*topicpolicies.TopicPolicies) error { return nil })
	return output{outcomeOf(more), fieldOf(more.Document), outcomeOf(same)}, err
}

func (t *tour) many(ctx context.Context) (output, error) {
	const changes, topics = 200, 10
	var all []topicpolicies.ChangeRequest
	for i := range int32(changes) {
		all = append(all, topicpolicies.Update{Key: t.key(fmt.Sprint("m", i%topics)), Policies: field(i)})
	}
	all = append(all, topicpolicies.Update{Key: t.key("m0"), Policies: field(0), Mask: []string{"nope"}})
	applied, failed, reason := 0, 0, ""
	for result, err := range t.client.UpdateMany(ctx, slices.Values(all)) {
		switch {
		case err != nil:
			return nil, err
		case result.Err != nil:
			failure, err := refusal(result.Err)
			if err != nil {
				return nil, err
			}
			failed++
			reason = failure.Reason
		case result.Updated.Outcome == topicpolicies.UpdateOutcomeApplied:
			applied++
		}
	}
	read, err := t.client.Get(ctx, t.key("m0"))
	return output{fmt.Sprint(applied), fmt.Sprint(failed), reason, fieldOf(read)}, err
}
