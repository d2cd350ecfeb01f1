package topicpolicies

import (
	"math"
	"strings"
	"unicode"
)

const partitionMark = "-partition-"

// baseTopic returns a topic's name without a partition suffix. A name whose ending Pulsar does not read as a partition is a topic of its
// own.
func baseTopic(topic string) string {
	at := strings.LastIndex(topic, partitionMark)
	if at < 0 || !isPartition(topic[at+len(partitionMark):]) {
		return topic
	}
	return topic[:at]
}

// isPartition reports whether Pulsar reads a text as a partition number (TopicName.getPartitionIndex): decimal digits of any script, at
// most 2^31 - 1, without a leading zero.
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

// decimal returns the value of a decimal digit that is a single UTF-16 code unit; -1 for any other character. In Unicode, the digits of a
// script are consecutive, beginning with its zero.
func decimal(char rune) int64 {
	for _, run := range unicode.Nd.R16 {
		if rune(run.Lo) <= char && char <= rune(run.Hi) {
			return int64(char-rune(run.Lo)) % 10
		}
	}
	return -1
}

// fullName returns the name of the topic that a name means: with its domain, and without a partition's suffix.
func fullName(topic string) string {
	if !strings.Contains(topic, "://") {
		topic = "persistent://" + topic
	}
	return baseTopic(topic)
}

// namespaceOf returns the tenant/namespace of a topic's name, with or without its domain. The service decides whether the name is valid.
func namespaceOf(topic string) string {
	if _, rest, found := strings.Cut(topic, "://"); found {
		topic = rest
	}
	parts := strings.SplitN(topic, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}
