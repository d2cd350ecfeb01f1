package topicpolicies

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// edit is an example of edits.json.
type edit struct {
	Name      string
	Document  json.RawMessage
	Start     bool
	Meanwhile json.RawMessage
	Edit      json.RawMessage
	Options   []string
	Runs      int
	Outcome   string
	Previous  json.RawMessage
	After     json.RawMessage
}

func TestAnEditDoesWhatTheSharedVectorsSay(t *testing.T) {
	vectors := readVectors[[]edit](t, "edits.json")
	if len(vectors) < 16 {
		t.Fatalf("only %d", len(vectors))
	}
	client, namespace := open(t, sidecar.Address), newNamespace()
	for number, vector := range vectors {
		t.Run(vector.Name, func(t *testing.T) {
			vector.run(t, client, Key{Topic: fmt.Sprintf("%s/v%d", namespace, number)})
		})
	}
}

func (e edit) run(t *testing.T, client *Client, key Key) {
	ctx := context.Background()
	if document := policiesOf(t, e.Document); document != nil {
		done(t)(client.Update(ctx, Update{Key: key, Policies: document, Mask: []string{"*"}}))
	}
	known, err := client.Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	if meanwhile := policiesOf(t, e.Meanwhile); meanwhile != nil {
		done(t)(client.Update(ctx, Update{Key: key, Policies: meanwhile}))
	} else if e.Meanwhile != nil {
		done(t)(client.Delete(ctx, Deletion{Key: key}))
	}
	runs := 0
	change := func(policies *TopicPolicies) error {
		runs++
		proto.Merge(policies, policiesOf(t, e.Edit))
		return nil
	}
	choose := func(update *Update) {
		update.SkipIfAbsent = slices.Contains(e.Options, "skipIfAbsent")
		update.IncludePrevious = slices.Contains(e.Options, "includePrevious")
		update.ValidateOnly = slices.Contains(e.Options, "validateOnly")
	}
	var result UpdateResult
	if e.Start {
		result, err = client.EditFrom(ctx, known, change, choose)
	} else {
		result, err = client.Edit(ctx, key, change, choose)
	}
	if err != nil {
		t.Fatal(err)
	}
	if runs != e.Runs || result.Outcome.String() != "UPDATE_OUTCOME_"+e.Outcome {
		t.Errorf("%d runs, %s", runs, result.Outcome)
	}
	if (result.Previous != nil) != (e.Previous != nil) {
		t.Errorf("previous: %v", result.Previous)
	} else if result.Previous != nil && !proto.Equal(result.Previous.Policies, policiesOf(t, e.Previous)) {
		t.Errorf("previous: %v", result.Previous.Policies)
	}
	after, err := client.Get(ctx, key)
	if err != nil || !proto.Equal(after.Policies, policiesOf(t, e.After)) || result.Version != after.Version {
		t.Errorf("%v, of version %s: %v", after, result.Version, err)
	}
}

// policiesOf returns a document of an example; nil if there is none.
func policiesOf(t *testing.T, text json.RawMessage) *TopicPolicies {
	t.Helper()
	if len(text) == 0 || string(text) == "null" {
		return nil
	}
	policies := &TopicPolicies{}
	if err := protojson.Unmarshal(text, policies); err != nil {
		t.Fatal(err)
	}
	return policies
}

// done returns a function that fails the test if a change failed.
func done(t *testing.T) func(_ any, err error) {
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}
