package topicpolicies

import "time"

// Event is what a watch tells: Changed, Entry, Synced, Bookmark, Reset, Status, Gap or Interrupted.
//
// A consumer that mirrors documents needs three of them: on Changed it moves along; on Reset it begins to note which documents of the
// namespace are told again; on Synced it drops those that were not. PolicyCache is that consumer.
type Event interface{ event() }

// Changed tells a document: of a snapshot, or because it changed.
type Changed struct {
	// Namespace is tenant/namespace.
	Namespace string
	// Document is the document after the change. It does not exist if it was deleted, or, in a snapshot, if a topic was asked for that has
	// none.
	Document PolicyDocument
	// PreviousVersion is the version before; empty in a snapshot, and where it is not known.
	PreviousVersion string
	// Previous is the document before; nil if it was not asked for, or is not known.
	Previous *PolicyDocument
	// Partition is the partition of the change log, and Position the position in it; empty if the log has no event of it.
	Partition int32
	Position  string
	// Origin says who changed the document, as far as the log tells.
	Origin *ChangeOrigin
	// Snapshot tells whether it belongs to a snapshot; otherwise it is a change.
	Snapshot bool
}

// Entry tells an event of the log as the history records it (WatchModeEntries).
type Entry struct {
	// Namespace is tenant/namespace.
	Namespace string
	HistoryEntry
}

// Synced: the snapshot of a namespace is complete, or a resumed watch has caught up with it. It comes once at the beginning of a stream,
// and once after each Reset.
type Synced struct {
	Namespace string
	Token     WatchToken
	// ConfirmedTime is as of when everything has been told, by the server's clock.
	ConfirmedTime time.Time
}

// Bookmark: nothing before this place is owed any more. It is sent from time to time, while the namespace is followed.
type Bookmark struct {
	Namespace string
	Token     WatchToken
	// ConfirmedTime is as of when everything has been told, by the server's clock.
	ConfirmedTime time.Time
}

// Reset: what was told of a namespace counts no more. It is told anew, up to Synced; what is not told again is gone.
type Reset struct {
	Namespace string
	// Reason is machine-readable, as in an error: TOKEN_OUT_OF_RANGE, for example. It is empty if the watch itself begins anew, because it
	// has no token: its stream broke before Synced, or the token that it was given does not cover the namespace.
	Reason string
	// Message is a sentence for people.
	Message string
}

// Status: the state of a namespace has changed. One that is NamespaceStateReady from the beginning of a stream says nothing.
type Status struct {
	Namespace string
	State     NamespaceState
	// Reason is machine-readable, as in an error; empty if the state is NamespaceStateReady.
	Reason string
	// Message is a sentence for people.
	Message string
}

// Gap: events may be missing from the history here (WatchModeEntries, or FromBeginning).
type Gap struct {
	Namespace string
	HistoryGap
}

// Interrupted: the stream broke; the watch tries again by itself, from where it was.
type Interrupted struct {
	Err error
	// Attempt is how many times in a row, counted from 1.
	Attempt int
	// RetryIn is the pause before it tries again.
	RetryIn time.Duration
}

func (Changed) event()     {}
func (Entry) event()       {}
func (Synced) event()      {}
func (Bookmark) event()    {}
func (Reset) event()       {}
func (Status) event()      {}
func (Gap) event()         {}
func (Interrupted) event() {}
