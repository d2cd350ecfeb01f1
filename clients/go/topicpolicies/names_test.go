package topicpolicies

import "testing"

func TestATopicNameIsReadAsPulsarReadsIt(t *testing.T) {
	for _, vector := range readVectors[[]struct{ Name, Topic, FullName string }](t, "names.json") {
		if found := (Key{Topic: vector.Topic}).full().Topic; found != vector.FullName {
			t.Errorf("%s: %q is %q, want %q", vector.Name, vector.Topic, found, vector.FullName)
		}
	}
}

func TestAKeyMayHaveAShortTopicNameOrThatOfAPartition(t *testing.T) {
	full := Key{"persistent://t/n/orders", ScopeLocal}
	for _, key := range []Key{
		{Topic: "t/n/orders"}, {Topic: "t/n/orders-partition-7"}, full, {"persistent://t/n/orders-partition-0", scopeUnset},
	} {
		if found := key.full(); found != full {
			t.Errorf("%v is %v", key, found)
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
