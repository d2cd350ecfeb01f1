package topicpolicies

import (
	"time"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// The most used messages and enums.
type (
	// TopicPolicies is a document. A field that is not set leaves the decision to the next level.
	TopicPolicies = pb.TopicPolicies
	// ChangeOrigin says who or what made a change, as far as the log records it.
	ChangeOrigin = pb.ChangeOrigin
	// ServerInfo has the server's version, configuration and limits.
	ServerInfo = pb.GetServerInfoResponse
	// Scope says in which clusters a document holds.
	Scope = pb.Scope
	// ListOperation says what happens to a list field.
	ListOperation = pb.ListOperation
	// UpdateOutcome says what an update did.
	UpdateOutcome = pb.UpdateOutcome
	// DeleteOutcome says what a deletion did.
	DeleteOutcome = pb.DeleteOutcome
	// EffectiveView says whose view of the levels is read.
	EffectiveView = pb.EffectiveView
	// PolicySource is the level that sets an effective value.
	PolicySource = pb.PolicySource
	// WatchMode says which events a watch sends.
	WatchMode = pb.WatchMode
	// NamespaceState says whether a namespace of a watch is followed.
	NamespaceState = pb.NamespaceState
	// HistoryOrder is the order of a history.
	HistoryOrder = pb.HistoryOrder
	// HistoryKind is the kind of an event in a history.
	HistoryKind = pb.HistoryKind
	// HistoryOutcome says what an event did to its document.
	HistoryOutcome = pb.HistoryOutcome
	// HistoryGapReason says why a history may lack events.
	HistoryGapReason = pb.HistoryGapReason
)

// The values of enums that callers use, under Go names.
const (
	ScopeLocal  = pb.Scope_SCOPE_LOCAL  // this cluster; the default
	ScopeGlobal = pb.Scope_SCOPE_GLOBAL // every cluster that the namespace is replicated to

	ListOperationReplace  = pb.ListOperation_LIST_OPERATION_REPLACE  // the list becomes the given one; the default
	ListOperationUnion    = pb.ListOperation_LIST_OPERATION_UNION    // the given elements that are not there yet are added at the end
	ListOperationSubtract = pb.ListOperation_LIST_OPERATION_SUBTRACT // the given elements are removed

	UpdateOutcomeApplied    = pb.UpdateOutcome_UPDATE_OUTCOME_APPLIED     // the change is in the log
	UpdateOutcomeUnchanged  = pb.UpdateOutcome_UPDATE_OUTCOME_UNCHANGED   // the document already was as requested; nothing was written
	UpdateOutcomeSkipped    = pb.UpdateOutcome_UPDATE_OUTCOME_SKIPPED     // there was no document, and SkipIfAbsent was set
	UpdateOutcomeWouldApply = pb.UpdateOutcome_UPDATE_OUTCOME_WOULD_APPLY // ValidateOnly was set; the change could be applied

	DeleteOutcomeDeleted     = pb.DeleteOutcome_DELETE_OUTCOME_DELETED      // the deletion is in the log
	DeleteOutcomeAbsent      = pb.DeleteOutcome_DELETE_OUTCOME_ABSENT       // there was no document
	DeleteOutcomeWouldDelete = pb.DeleteOutcome_DELETE_OUTCOME_WOULD_DELETE // ValidateOnly was set, and there is a document to delete

	EffectiveViewEnforced      = pb.EffectiveView_EFFECTIVE_VIEW_ENFORCED       // what brokers enforce; the default
	EffectiveViewAppliedLocal  = pb.EffectiveView_EFFECTIVE_VIEW_APPLIED_LOCAL  // what pulsar-admin returns with applied=true
	EffectiveViewAppliedGlobal = pb.EffectiveView_EFFECTIVE_VIEW_APPLIED_GLOBAL // applied=true and isGlobal=true

	WatchModeLatest  = pb.WatchMode_WATCH_MODE_LATEST  // only the newest state of each document; the default
	WatchModeEvery   = pb.WatchMode_WATCH_MODE_EVERY   // every change
	WatchModeEntries = pb.WatchMode_WATCH_MODE_ENTRIES // every event of the log, as Entry, also those that changed nothing

	NamespaceStateLoading  = pb.NamespaceState_NAMESPACE_STATE_LOADING  // the change log is being read
	NamespaceStateReady    = pb.NamespaceState_NAMESPACE_STATE_READY    // the change log is followed
	NamespaceStateFailed   = pb.NamespaceState_NAMESPACE_STATE_FAILED   // the change log can't be read; the server keeps trying
	NamespaceStateDisabled = pb.NamespaceState_NAMESPACE_STATE_DISABLED // topic policies are disabled for all that is watched of it

	HistoryOrderNewestFirst = pb.HistoryOrder_HISTORY_ORDER_NEWEST_FIRST // the last event first; the default
	HistoryOrderOldestFirst = pb.HistoryOrder_HISTORY_ORDER_OLDEST_FIRST // the first event first

	scopeUnset = pb.Scope_SCOPE_UNSPECIFIED
	stateUnset = pb.NamespaceState_NAMESPACE_STATE_UNSPECIFIED
)

// Key identifies one document: the policies of a topic in a scope.
type Key struct {
	// Topic is the full name, persistent://tenant/namespace/topic, or the name without the domain. A partition's name means its base topic.
	Topic string
	// Scope is ScopeLocal if it is not set.
	Scope Scope
}

// PolicyDocument is the policies of one topic in one scope, with their version.
type PolicyDocument struct {
	Key
	// Policies is nil if there is no document. It may be shared: clone it before you change it.
	Policies *TopicPolicies
	// Version is the version of the document, or of its absence; it is also the etag. For one key, string order is log order.
	Version string
	// Disabled reports whether topic policies are disabled for this topic: if so, its documents are not returned.
	Disabled bool
	// UnconfirmedSince is set on the answer to a read that the server could not confirm: the time since which it can't reach the change
	// log, so that there may be a newer document. Otherwise it is zero.
	UnconfirmedSince time.Time
}

// Exists reports whether there is a document.
func (d PolicyDocument) Exists() bool { return d.Policies != nil }

func documentOf(m *pb.PolicyDocument) PolicyDocument {
	if m == nil {
		return PolicyDocument{}
	}
	return PolicyDocument{
		Key: Key{m.GetTopic(), m.GetScope()}, Policies: m.Policies, Version: m.GetVersion(), Disabled: m.GetDisabled(),
	}
}

// readDocument converts a document of the answer to a read.
func readDocument(m *pb.PolicyDocument, unconfirmedSince time.Time) PolicyDocument {
	document := documentOf(m)
	document.UnconfirmedSince = unconfirmedSince
	return document
}

// knownDocument converts a document; nil stays nil, where no document is known.
func knownDocument(m *pb.PolicyDocument) *PolicyDocument {
	if m == nil {
		return nil
	}
	document := documentOf(m)
	return &document
}

// knownScope reports whether this package knows a scope. Documents of further scopes, of a newer service, are ignored.
func knownScope(scope Scope) bool { return scope == ScopeLocal || scope == ScopeGlobal }
