package topicpolicies

import (
	"time"

	pb "topicpolicies/clients/go/topicpolicies/v1"
)

// Event is what a watch tells: Changed, Deleted, Synced, Bookmark, Restarted, NamespaceLoading, NamespaceUnavailable or Interrupted.
//
// A consumer that mirrors documents needs four of them: on Changed and Deleted it moves along; on Restarted it begins to note which documents
// of the namespace are told again; on Synced it drops those that were not. PolicyCache is that consumer.
type Event interface{ event() }

// Place is where an event stands, and who caused it.
type Place struct {
	// Namespace is tenant/namespace.
	Namespace string
	// PreviousVersion is empty in what was loaded from the log.
	PreviousVersion string
	// Partition is the partition of the change log, and Position the event's position in it.
	Partition int32
	Position  string
	// Origin says who changed the document, as far as the log tells.
	Origin *pb.ChangeOrigin
	// Snapshot tells whether it belongs to the snapshot before Synced; otherwise it is a change.
	Snapshot bool
}

// Changed: there is a document, of the snapshot or because it changed.
type Changed struct {
	Document
	Place
}

// Deleted: there is no document. It was deleted, or, in a snapshot, a topic that was asked for has none.
type Deleted struct {
	Document
	Place
}

// Synced: the snapshot of a namespace is complete, or a resumed watch has caught up with it.
type Synced struct {
	Namespace string
	Token     WatchToken
}

// Bookmark: nothing before this place is owed any more. It is sent from time to time.
type Bookmark struct {
	Namespace string
	Token     WatchToken
}

// Restarted: a namespace begins again with a snapshot; what is not told again before Synced is gone. It comes before every snapshot but the
// first of a watch that was begun without a token.
type Restarted struct {
	Namespace string
	Reason    string
}

// NamespaceLoading: the service is still reading the change log of a namespace.
type NamespaceLoading struct {
	Namespace string
	Message   string
}

// NamespaceUnavailable: the service can't read the change log of a namespace for now; it tries again, and so nothing is lost.
type NamespaceUnavailable struct {
	Namespace string
	Message   string
	// Reason is machine-readable, as in an error: TOPIC_POLICIES_DISABLED, for example.
	Reason string
}

// Interrupted: the stream broke; the watch tries again by itself, from where it was.
type Interrupted struct {
	Err error
	// Attempt is how many times in a row, counted from 1.
	Attempt int
	// RetryIn is the pause before it tries again.
	RetryIn time.Duration
}

func (Changed) event()              {}
func (Deleted) event()              {}
func (Synced) event()               {}
func (Bookmark) event()             {}
func (Restarted) event()            {}
func (NamespaceLoading) event()     {}
func (NamespaceUnavailable) event() {}
func (Interrupted) event()          {}
