package topicpolicies

import "testing"

func TestAPartitionIsWhatPulsarTakesForOne(t *testing.T) {
	for topic, base := range map[string]string{
		"t/n/orders":                           "t/n/orders",
		"t/n/orders-partition-0":               "t/n/orders",
		"t/n/orders-partition-10":              "t/n/orders",
		"t/n/orders-partition-2147483647":      "t/n/orders",
		"t/n/orders-partition-2147483648":      "t/n/orders-partition-2147483648",
		"t/n/orders-partition-99999999999":     "t/n/orders-partition-99999999999",
		"t/n/orders-partition-01":              "t/n/orders-partition-01",
		"t/n/orders-partition-00":              "t/n/orders-partition-00",
		"t/n/orders-partition--1":              "t/n/orders-partition--1",
		"t/n/orders-partition-+1":              "t/n/orders-partition-+1",
		"t/n/orders-partition-":                "t/n/orders-partition-",
		"t/n/orders-partition-1x":              "t/n/orders-partition-1x",
		"t/n/orders-partition-1-partition-2":   "t/n/orders-partition-1",
		"t/n/orders-partition-1-partition-02":  "t/n/orders-partition-1-partition-02",
		"non-persistent://t/n/x-y-partition-3": "non-persistent://t/n/x-y",
	} {
		if found := baseTopic(topic); found != base {
			t.Errorf("%s is %s, want %s", topic, found, base)
		}
	}
}

func TestAKeyMayBeNamedInShort(t *testing.T) {
	full := Key{"persistent://t/n/orders", ScopeLocal}
	for _, key := range []Key{
		{Topic: "t/n/orders"}, {Topic: "t/n/orders-partition-7"}, full, {"persistent://t/n/orders-partition-0", scopeUnset},
	} {
		if found := key.full(); found != full {
			t.Errorf("%v is %v", key, found)
		}
	}
}

func TestTheNamespaceOfATopicIsInItsName(t *testing.T) {
	for topic, namespace := range map[string]string{
		"t/n/x": "t/n", "persistent://t/n/x": "t/n", "non-persistent://t/n/x/y": "t/n", "t/n": "t/n", "x": "x", "": "",
	} {
		if found := namespaceOf(topic); found != namespace {
			t.Errorf("%q is in %q, want %q", topic, found, namespace)
		}
	}
}
