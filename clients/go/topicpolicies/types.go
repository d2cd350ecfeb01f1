package topicpolicies

import (
	"time"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// The messages and enums that are used most.
type (
	// TopicPolicies is a document: a field that is not set says nothing.
	TopicPolicies = pb.TopicPolicies
	// ChangeOrigin says where a change came from, as far as the log tells.
	ChangeOrigin = pb.ChangeOrigin
	// ServerInfo says what a server is, and what its limits are.
	ServerInfo = pb.GetServerInfoResponse
	// Scope says in which clusters a document holds.
	Scope = pb.Scope
	// ListOperation says what happens to a list field.
	ListOperation = pb.ListOperation
	// UpdateOutcome says what became of an update.
	UpdateOutcome = pb.UpdateOutcome
	// DeleteOutcome says what became of a deletion.
	DeleteOutcome = pb.DeleteOutcome
	// EffectiveView says by whose reading policies hold.
	EffectiveView = pb.EffectiveView
	// PolicySource says which level an effective value comes from.
	PolicySource = pb.PolicySource
	// WatchMode says what a watch tells.
	WatchMode = pb.WatchMode
	// NamespaceState says whether a namespace of a watch is followed.
	NamespaceState = pb.NamespaceState
	// HistoryOrder is the order of a history.
	HistoryOrder = pb.HistoryOrder
	// HistoryKind says what kind of event an entry of a history is.
	HistoryKind = pb.HistoryKind
	// HistoryOutcome says what became of an event.
	HistoryOutcome = pb.HistoryOutcome
	// HistoryGapReason says why a history may miss events.
	HistoryGapReason = pb.HistoryGapReason
)

// The enums' values that callers choose or ask for, by Go's names.
const (
	ScopeLocal  = pb.Scope_SCOPE_LOCAL  // this cluster; what no scope means
	ScopeGlobal = pb.Scope_SCOPE_GLOBAL // every cluster that the namespace is replicated to

	ListOperationReplace  = pb.ListOperation_LIST_OPERATION_REPLACE  // the list becomes the given one; what no operation means
	ListOperationUnion    = pb.ListOperation_LIST_OPERATION_UNION    // the given elements that are not there yet are added at the end
	ListOperationSubtract = pb.ListOperation_LIST_OPERATION_SUBTRACT // the given elements are removed

	UpdateOutcomeApplied    = pb.UpdateOutcome_UPDATE_OUTCOME_APPLIED     // the change is in the log
	UpdateOutcomeUnchanged  = pb.UpdateOutcome_UPDATE_OUTCOME_UNCHANGED   // the document already was as asked; nothing was written
	UpdateOutcomeSkipped    = pb.UpdateOutcome_UPDATE_OUTCOME_SKIPPED     // there was no document, and SkipIfAbsent was set
	UpdateOutcomeWouldApply = pb.UpdateOutcome_UPDATE_OUTCOME_WOULD_APPLY // ValidateOnly was set, and the change could be applied

	DeleteOutcomeDeleted     = pb.DeleteOutcome_DELETE_OUTCOME_DELETED      // the deletion is in the log
	DeleteOutcomeAbsent      = pb.DeleteOutcome_DELETE_OUTCOME_ABSENT       // there was no document
	DeleteOutcomeWouldDelete = pb.DeleteOutcome_DELETE_OUTCOME_WOULD_DELETE // ValidateOnly was set, and there is a document to delete

	EffectiveViewEnforced      = pb.EffectiveView_EFFECTIVE_VIEW_ENFORCED       // what brokers enforce; what no view means
	EffectiveViewAppliedLocal  = pb.EffectiveView_EFFECTIVE_VIEW_APPLIED_LOCAL  // what pulsar-admin answers with applied=true
	EffectiveViewAppliedGlobal = pb.EffectiveView_EFFECTIVE_VIEW_APPLIED_GLOBAL // the same with isGlobal=true

	WatchModeLatest  = pb.WatchMode_WATCH_MODE_LATEST  // per document only the newest state; what no mode means
	WatchModeEvery   = pb.WatchMode_WATCH_MODE_EVERY   // every change
	WatchModeEntries = pb.WatchMode_WATCH_MODE_ENTRIES // every event of the log, as Entry, also those that changed nothing

	NamespaceStateLoading  = pb.NamespaceState_NAMESPACE_STATE_LOADING  // the change log is being read
	NamespaceStateReady    = pb.NamespaceState_NAMESPACE_STATE_READY    // the change log is followed
	NamespaceStateFailed   = pb.NamespaceState_NAMESPACE_STATE_FAILED   // the change log can't be read; it is tried again
	NamespaceStateDisabled = pb.NamespaceState_NAMESPACE_STATE_DISABLED // topic policies are disabled for all that is watched of it

	HistoryOrderNewestFirst = pb.HistoryOrder_HISTORY_ORDER_NEWEST_FIRST // the last event first; what no order means
	HistoryOrderOldestFirst = pb.HistoryOrder_HISTORY_ORDER_OLDEST_FIRST // the first event first

	scopeUnset = pb.Scope_SCOPE_UNSPECIFIED
	stateUnset = pb.NamespaceState_NAMESPACE_STATE_UNSPECIFIED
)

// Key names one document: the policies of a topic in a scope.
type Key struct {
	// Topic is the full name, persistent://tenant/namespace/topic, or the same without the domain. A partition's name means its base topic.
	Topic string
	// Scope is ScopeLocal if it is not set.
	Scope Scope
}

// PolicyDocument is the policies of one topic in one scope, and which version they are.
type PolicyDocument struct {
	Key
	// Policies is nil if there is no document. It may be shared: clone it before you change it.
	Policies *TopicPolicies
	// Version is the version of the document, or of its absence: its etag. Of one key, string order is the order of the log.
	Version string
	// Disabled tells whether topic policies are disabled for this topic; its documents are not told of then.
	Disabled bool
	// UnconfirmedSince is, of what was read, since when the server can't reach the change log, so that there may be a newer document; zero: it
	// can, or this is no answer to a read.
	UnconfirmedSince time.Time
}

// Exists tells whether there is a document.
func (d PolicyDocument) Exists() bool { return d.Policies != nil }

func documentOf(m *pb.PolicyDocument) PolicyDocument {
	if m == nil {
		return PolicyDocument{}
	}
	return PolicyDocument{
		Key: Key{m.GetTopic(), m.GetScope()}, Policies: m.Policies, Version: m.GetVersion(), Disabled: m.GetDisabled(),
	}
}

// readDocument is a document of the answer to a read.
func readDocument(m *pb.PolicyDocument, unconfirmedSince time.Time) PolicyDocument {
	document := documentOf(m)
	document.UnconfirmedSince = unconfirmedSince
	return document
}

// knownDocument is nil where nothing is known of a document.
func knownDocument(m *pb.PolicyDocument) *PolicyDocument {
	if m == nil {
		return nil
	}
	document := documentOf(m)
	return &document
}

// knownScope tells whether this package knows what a scope means. What a newer service tells of others is passed over.
func knownScope(scope Scope) bool { return scope == ScopeLocal || scope == ScopeGlobal }
