package topicpolicies

import (
	"regexp"
	"strings"

	pb "topicpolicies/clients/go/topicpolicies/v1"
)

// The messages that are used most.
type (
	// TopicPolicies is a document: a field that is not set says nothing.
	TopicPolicies = pb.TopicPolicies
	// Scope says in which clusters a document holds.
	Scope = pb.Scope
	// ListOperation says what happens to a list field.
	ListOperation = pb.ListOperation
	// WatchMode says what is owed to a watch that falls behind.
	WatchMode = pb.WatchMode
	// UpdateOutcome says what became of an update.
	UpdateOutcome = pb.UpdateOutcome
	// DeleteOutcome says what became of the deletion of one document.
	DeleteOutcome = pb.DeleteOutcome
)

// The enums' values, in short.
const (
	Local  = pb.Scope_SCOPE_LOCAL  // this cluster; what no scope means
	Global = pb.Scope_SCOPE_GLOBAL // every cluster that the namespace is replicated to

	Replace  = pb.ListOperation_LIST_OPERATION_REPLACE  // the list becomes the given one
	Union    = pb.ListOperation_LIST_OPERATION_UNION    // the given elements that are not there yet are added at the end
	Subtract = pb.ListOperation_LIST_OPERATION_SUBTRACT // the given elements are removed

	Latest = pb.WatchMode_WATCH_MODE_LATEST // per document only the newest state; what no mode means
	Every  = pb.WatchMode_WATCH_MODE_EVERY  // every change

	Applied   = pb.UpdateOutcome_UPDATE_OUTCOME_APPLIED   // the change is in the log
	Unchanged = pb.UpdateOutcome_UPDATE_OUTCOME_UNCHANGED // the document already was as asked
	Skipped   = pb.UpdateOutcome_UPDATE_OUTCOME_SKIPPED   // there was no document, and SkipIfAbsent was set

	WasDeleted = pb.DeleteOutcome_DELETE_OUTCOME_DELETED // the document is deleted
	WasAbsent  = pb.DeleteOutcome_DELETE_OUTCOME_ABSENT  // there was none
)

// Key names one document: the policies of a topic in a scope.
type Key struct {
	// Topic is the full name, persistent://tenant/namespace/topic, or the same without the domain. A partition's name means its base topic.
	Topic string
	// Scope is Local if it is not set.
	Scope Scope
}

// Document is the policies of one topic in one scope.
type Document struct {
	Key
	// Policies is nil if there is no document. It may be shared: clone it before you change it.
	Policies *TopicPolicies
	// Version is the etag. An absent document has one too.
	Version string
}

// Exists tells whether there is a document.
func (d Document) Exists() bool { return d.Policies != nil }

func documentOf(m *pb.GetPolicyResponse) Document {
	document := Document{Key: Key{m.GetTopic(), m.GetScope()}, Version: m.GetVersion()}
	if m.GetExists() {
		document.Policies = m.GetPolicies()
		if document.Policies == nil {
			document.Policies = &TopicPolicies{}
		}
	}
	return document
}

var partition = regexp.MustCompile(`-partition-\d+$`)

// full is the key by which documents are told apart: with the topic's full name and a scope.
func (k Key) full() Key {
	if !strings.Contains(k.Topic, "://") {
		k.Topic = "persistent://" + k.Topic
	}
	k.Topic = partition.ReplaceAllString(k.Topic, "")
	if k.Scope == pb.Scope_SCOPE_UNSPECIFIED {
		k.Scope = Local
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
