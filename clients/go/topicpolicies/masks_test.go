package topicpolicies

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
)

type vectors struct {
	Differences []struct {
		Name          string
		Before, After json.RawMessage
		Mask          []string
	}
	Paths []struct {
		Segments []string
		Text     string
	}
}

func readVectors(t *testing.T) vectors {
	t.Helper()
	text, err := os.ReadFile("../../vectors/masks.json")
	if err != nil {
		t.Fatal(err)
	}
	var read vectors
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if len(read.Differences) < 40 || len(read.Paths) < 8 {
		t.Fatalf("only %d differences and %d paths", len(read.Differences), len(read.Paths))
	}
	return read
}

func document(t *testing.T, text json.RawMessage) *TopicPolicies {
	t.Helper()
	policies := &TopicPolicies{}
	if err := protojson.Unmarshal(text, policies); err != nil {
		t.Fatal(err)
	}
	return policies
}

func TestTheMaskBetweenTwoDocumentsIsTheSameAsInEveryLanguage(t *testing.T) {
	for _, vector := range readVectors(t).Differences {
		t.Run(vector.Name, func(t *testing.T) {
			found := PathsBetween(document(t, vector.Before), document(t, vector.After))
			slices.Sort(vector.Mask)
			if !slices.Equal(found, vector.Mask) {
				t.Errorf("found %q, want %q", found, vector.Mask)
			}
		})
	}
}

func TestAPathIsWrittenAsInEveryLanguage(t *testing.T) {
	for _, vector := range readVectors(t).Paths {
		if found := Path(vector.Segments...); found != vector.Text {
			t.Errorf("%q is written %s, want %s", vector.Segments, found, vector.Text)
		}
	}
}

func TestThePathsOfADocumentAreItsFieldsThatAreSet(t *testing.T) {
	policies := document(t, json.RawMessage(`{"maxProducerPerTopic": 0, "replicationClusters": [], "retentionPolicies": {}}`))
	if found := PathsOf(policies); !slices.Equal(found, []string{"max_producer_per_topic", "retention_policies"}) {
		t.Errorf("found %q", found)
	}
}
