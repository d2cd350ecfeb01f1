package topicpolicies

import (
	"strconv"
	"strings"
)

const partitionMark = "-partition-"

// baseTopic is a topic's name without the suffix of a partition. Only what Pulsar reads as a partition's number is one
// (TopicName.getPartitionIndex): the digits that it would write itself, of at most 32 bits. With any other ending it is a topic of its own.
func baseTopic(topic string) string {
	at := strings.LastIndex(topic, partitionMark)
	if at < 0 {
		return topic
	}
	digits := topic[at+len(partitionMark):]
	number, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || number < 0 || strconv.FormatInt(number, 10) != digits {
		return topic
	}
	return topic[:at]
}

// full is the key by which documents are told apart: with the base topic's full name and a scope.
func (k Key) full() Key {
	if !strings.Contains(k.Topic, "://") {
		k.Topic = "persistent://" + k.Topic
	}
	k.Topic = baseTopic(k.Topic)
	if k.Scope == scopeUnset {
		k.Scope = ScopeLocal
	}
	return k
}

// namespaceOf is tenant/namespace of a topic's name, with or without its domain; the service judges whether it is valid.
func namespaceOf(topic string) string {
	if _, rest, found := strings.Cut(topic, "://"); found {
		topic = rest
	}
	parts := strings.SplitN(topic, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}
