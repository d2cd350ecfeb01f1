package topicpolicies

import "time"

// Event is an event of a watch: Changed, Entry, Synced, Bookmark, Reset, Status, Gap or Interrupted.
//
// A consumer that mirrors documents needs three of them: on Changed it updates its copy; on Reset, and at the start, it begins to record
// which documents of the namespace are sent; on Synced it removes those that were not. PolicyCache is such a consumer.
type Event interface{ event() }

// Changed reports a document of a snapshot, or one that was created, changed or deleted.
type Changed struct {
	// Namespace is tenant/namespace.
	Namespace string
	// Document is the document after the change. It does not exist if it was deleted, or, in a snapshot, if a topic that was selected by
	// name has none.
	Document PolicyDocument
	// PreviousVersion is the version before this one; empty in a snapshot, and if it is not known.
	PreviousVersion string
	// Previous is the document before the change; nil if it was not requested, or is not known.
	Previous *PolicyDocument
	// Partition is the partition of the change log, and Position the event's position in it; Position is empty if the log has no such
	// event.
	Partition int32
	Position  string
	// Origin says who made the change, and how, as far as the log records it.
	Origin *ChangeOrigin
	// Snapshot reports whether the event belongs to a snapshot; otherwise it is a change.
	Snapshot bool
}

// Entry reports an event of the log as the history records it (WatchModeEntries).
type Entry struct {
	// Namespace is tenant/namespace.
	Namespace string
	HistoryEntry
}

// Synced reports that the snapshot of a namespace is complete, or that a resumed watch has caught up with the namespace. It comes once at
// the beginning of a stream, and once after each Reset.
type Synced struct {
	Namespace string
	Token     WatchToken
	// ConfirmedTime is the time, by the server's clock, up to which every change has been sent.
	ConfirmedTime time.Time
}

// Bookmark reports that every change up to Token has been sent. Bookmarks come from time to time while the namespace is followed.
type Bookmark struct {
	Namespace string
	Token     WatchToken
	// ConfirmedTime is the time, by the server's clock, up to which every change has been sent.
	ConfirmedTime time.Time
}

// Reset reports that a namespace starts over: documents that are not sent again before Synced no longer exist.
type Reset struct {
	Namespace string
	// Reason is machine-readable, as in an error, for example TOKEN_OUT_OF_RANGE. It is empty if the watch itself starts the namespace over
	// because it has no token: the stream broke before Synced, or the token that was given does not cover the namespace.
	Reason string
	// Message is a human-readable description.
	Message string
}

// Status reports that the state of a namespace has changed. No Status comes for a namespace that is NamespaceStateReady from the start of a
// stream.
type Status struct {
	Namespace string
	State     NamespaceState
	// Reason is machine-readable, as in an error; empty if the state is NamespaceStateReady.
	Reason string
	// Message is a human-readable description.
	Message string
}

// Gap reports that the history may lack events here (WatchModeEntries, or FromBeginning).
type Gap struct {
	Namespace string
	HistoryGap
}

// Interrupted reports that the stream broke. The watch connects again by itself and resumes where it was.
type Interrupted struct {
	Err error
	// Attempt is how many attempts in a row have failed, counted from 1.
	Attempt int
	// RetryIn is the pause before the watch connects again.
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
