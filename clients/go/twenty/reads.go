package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"topicpolicies.example/clients/go/topicpolicies"
)

func (t *tour) scopes(ctx context.Context) (output, error) {
	global := t.key("c")
	global.Scope = topicpolicies.ScopeGlobal
	if _, err := t.client.Update(ctx, topicpolicies.Update{Key: global, Policies: field(3)}); err != nil {
		return nil, err
	}
	local, world, err := t.client.GetBoth(ctx, global.Topic)
	t.global = world
	return output{"LOCAL " + fieldOf(local), "GLOBAL " + fieldOf(world)}, err
}

func fieldOf(document topicpolicies.PolicyDocument) string {
	if !document.Exists() {
		return "absent"
	}
	return fmt.Sprint(document.Policies.GetMaxProducerPerTopic())
}

func (t *tour) asOf(ctx context.Context) (output, error) {
	document, err := t.client.Get(ctx, t.key("a"), topicpolicies.AsOfVersion(t.first.Version))
	return output{fieldOf(document)}, err
}

func (t *tour) effective(ctx context.Context) (output, error) {
	holds, err := t.client.Effective(ctx, topicpolicies.EffectiveQuery{Topic: t.key("c").Topic})
	if err != nil {
		return nil, err
	}
	t.other = holds.LocalVersion
	for _, source := range holds.Sources {
		if source.Path == "max_producer_per_topic" {
			return output{fmt.Sprint(holds.Policies.GetMaxProducerPerTopic()), shortName(source.Source, "POLICY_SOURCE_")}, nil
		}
	}
	return nil, errors.New("the field has no source")
}

func (t *tour) listDocuments(ctx context.Context) (output, error) {
	var found []string
	for document, err := range t.client.List(ctx, t.namespace).All() {
		if err != nil {
			return nil, err
		}
		found = append(found, path.Base(document.Topic)+" "+shortName(document.Scope, "SCOPE_"))
	}
	return output{strings.Join(found, ",")}, nil
}

func (t *tour) delete(ctx context.Context) (output, error) {
	deletion := topicpolicies.Deletion{Key: t.global.Key, ETag: t.other}
	_, err := t.client.Delete(ctx, deletion)
	failure, err := refusal(err)
	if err != nil {
		return nil, err
	}
	said := output{failure.Reason}
	for _, etag := range []string{t.global.Version, ""} {
		deletion.ETag = etag
		result, err := t.client.Delete(ctx, deletion)
		if err != nil {
			return nil, err
		}
		said = append(said, shortName(result.Outcome, "DELETE_OUTCOME_"))
	}
	return said, nil
}

func (t *tour) watchAndCache(ctx context.Context) (output, error) {
	cache, err := t.client.Cache(ctx, topicpolicies.Selection{Namespaces: []string{t.namespace}})
	if err != nil {
		return nil, err
	}
	defer cache.Close()
	if err := cache.WaitSynced(ctx); err != nil {
		return nil, err
	}
	changes := make(chan topicpolicies.Change, 100)
	stop := cache.Listen(func(change topicpolicies.Change) { changes <- change })
	defer stop()
	for updated := false; ; {
		select {
		case change := <-changes:
			if change.Key.Topic != t.key("a").Topic {
				continue
			}
			if !updated { // the listener's first call, for the existing document
				if _, err := t.client.Update(ctx, topicpolicies.Update{Key: t.key("a"), Policies: field(40)}); err != nil {
					return nil, err
				}
				updated = true
				continue
			}
			document, _ := cache.Get(topicpolicies.Key{Topic: t.namespace + "/a"})
			age := "stale"
			if cache.Staleness() < time.Minute {
				age = "fresh"
			}
			return output{fieldOf(*change.Before), fieldOf(*change.After), fieldOf(document), age}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (t *tour) everyChange(ctx context.Context) (output, error) {
	watch, err := t.client.Watch(ctx, topicpolicies.Selection{
		Topics: []string{t.key("a").Topic}, Mode: topicpolicies.WatchModeEvery, FromBeginning: true, EndWhenSynced: true,
	})
	if err != nil {
		return nil, err
	}
	defer watch.Close()
	var changes []topicpolicies.Changed
	chained := "chained"
	for event, err := range watch.All() {
		if err != nil {
			return nil, err
		}
		if change, ok := event.(topicpolicies.Changed); ok {
			if len(changes) > 0 && change.PreviousVersion != changes[len(changes)-1].Document.Version {
				chained = "not chained"
			}
			changes = append(changes, change)
		}
	}
	if len(changes) == 0 {
		return nil, errors.New("the listener received no change")
	}
	info, err := t.client.ServerInfo(ctx)
	origin := changes[0].Origin
	return output{fmt.Sprint(len(changes)), chained, origin.GetActor(), origin.GetReason(), shortName(info.GetLog(), "LOG_KIND_")}, err
}
