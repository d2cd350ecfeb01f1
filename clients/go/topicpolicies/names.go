package topicpolicies

import (
	"math"
	"strings"
	"unicode"
)

const partitionMark = "-partition-"

// baseTopic is a topic's name without the suffix of a partition. With any ending that Pulsar does not take for one it is a topic of its own.
func baseTopic(topic string) string {
	at := strings.LastIndex(topic, partitionMark)
	if at < 0 || !isPartition(topic[at+len(partitionMark):]) {
		return topic
	}
	return topic[:at]
}

// isPartition is whether Pulsar takes a text for a partition's number (TopicName.getPartitionIndex): decimal digits of any script, of 32 bits,
// without a leading zero.
func isPartition(text string) bool {
	number, digits := int64(0), 0
	for _, char := range text {
		digit := decimal(char)
		if digit < 0 || digits == 1 && number == 0 {
			return false
		}
		if number, digits = 10*number+digit, digits+1; number > math.MaxInt32 {
			return false
		}
	}
	return digits > 0
}

// decimal is the value of a decimal digit that is one UTF-16 unit; -1 if it is none. Unicode has those of a script in one run from its zero.
func decimal(char rune) int64 {
	for _, run := range unicode.Nd.R16 {
		if rune(run.Lo) <= char && char <= rune(run.Hi) {
			return int64(char-rune(run.Lo)) % 10
		}
	}
	return -1
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
