package topicpolicies

import "testing"

func TestATopicNameIsReadAsPulsarReadsIt(t *testing.T) {
	for _, vector := range readVectors[[]struct{ Name, Topic, FullName string }](t, "names.json") {
		if found := fullName(vector.Topic); found != vector.FullName {
			t.Errorf("%s: %q is %q, want %q", vector.Name, vector.Topic, found, vector.FullName)
		}
	}
}

func TestTheNamespaceIsTakenFromTheTopicName(t *testing.T) {
	for topic, namespace := range map[string]string{
		"t/n/x": "t/n", "persistent://t/n/x": "t/n", "non-persistent://t/n/x/y": "t/n", "t/n": "t/n", "x": "x", "": "",
	} {
		if found := namespaceOf(topic); found != namespace {
			t.Errorf("%q is in %q, want %q", topic, found, namespace)
		}
	}
}
