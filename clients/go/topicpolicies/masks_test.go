package topicpolicies

import (
	"encoding/json"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
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

func maskVectors(t *testing.T) vectors {
	t.Helper()
	read := readVectors[vectors](t, "masks.json")
	if len(read.Differences) < 40 || len(read.Paths) < 8 {
		t.Fatalf("only %d differences and %d paths", len(read.Differences), len(read.Paths))
	}
	return read
}

func document(t *testing.T, text json.RawMessage) *pb.TopicPolicies {
	t.Helper()
	policies := &pb.TopicPolicies{}
	if err := protojson.Unmarshal(text, policies); err != nil {
		t.Fatal(err)
	}
	return policies
}

func TestTheMaskBetweenTwoDocumentsIsThatOfTheSharedVectors(t *testing.T) {
	for _, vector := range maskVectors(t).Differences {
		t.Run(vector.Name, func(t *testing.T) {
			found := PathsBetween(document(t, vector.Before), document(t, vector.After))
			slices.Sort(vector.Mask)
			if !slices.Equal(found, vector.Mask) {
				t.Errorf("found %q, want %q", found, vector.Mask)
			}
		})
	}
}

func TestAPathIsWrittenAsInTheSharedVectors(t *testing.T) {
	for _, vector := range maskVectors(t).Paths {
		if found := Path(vector.Segments...); found != vector.Text {
			t.Errorf("%q is written %s, want %s", vector.Segments, found, vector.Text)
		}
	}
}
