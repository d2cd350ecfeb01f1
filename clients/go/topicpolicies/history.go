package topicpolicies

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// HistoryQuery selects a part of the history.
type HistoryQuery struct {
	// Topic or Namespace (tenant/namespace) says whose history is read. Set exactly one of them.
	Topic     string
	Namespace string
	// Scopes are the scopes to read; if empty, both.
	Scopes []Scope
	// StartTime excludes events before it, and EndTime events at that time or later; zero: no limit.
	StartTime time.Time
	EndTime   time.Time
	// Actor selects the events of one actor; nil: all events. An empty name selects the events that have no actor, such as those of
	// brokers.
	Actor *string
	// Order is HistoryOrderNewestFirst if it is not set.
	Order HistoryOrder
}

// HistoryEntry is one event of the change log, as the server read it, and its effect.
type HistoryEntry struct {
	// Document is the document after the event; nil if the event could not be read and its document is not known.
	Document *PolicyDocument
	// Previous is the document before the event; nil if it is not known.
	Previous *PolicyDocument
	// Kind is the kind of the event, and Outcome what it did to the document.
	Kind    HistoryKind
	Outcome HistoryOutcome
	// Time is the time of the event; the history is ordered by it.
	Time time.Time
	// Partition is the partition of the change log, and Position the event's position in it.
	Partition int32
	Position  string
	// Origin says who or what made the event.
	Origin *ChangeOrigin
	// Changed has the paths of the fields and map entries that differ between the two documents.
	Changed []string
	// Stale reports whether the writer computed the event from a document other than the one that the event found.
	Stale bool
	// Unexplained reports that no recent document explains this event of a broker, and Ambiguous that two explain it differently.
	Unexplained bool
	Ambiguous   bool
	// Replicated reports whether the event came from another cluster.
	Replicated bool
	// Problem says why the event could not be read; empty if it could.
	Problem string
}

// HistoryGap is a period for which the history of a namespace may lack events.
type HistoryGap struct {
	// Start is zero if the period begins with the log.
	Start  time.Time
	End    time.Time
	Reason HistoryGapReason
}

// History is a part of the history, read page by page, for use by one goroutine.
type History struct {
	client    *Client
	ctx       context.Context
	query     HistoryQuery
	gaps      []HistoryGap
	following bool
	since     time.Time
}

// History returns the history of the documents of a topic or a namespace, as the server has recorded it. Pages are read when All is
// iterated.
func (c *Client) History(ctx context.Context, query HistoryQuery) *History {
	return &History{client: c, ctx: ctx, query: query}
}

// All returns an iterator over the events. It ends after the first error.
func (h *History) All() iter.Seq2[HistoryEntry, error] {
	return func(yield func(HistoryEntry, error) bool) {
		for page := ""; ; {
			answer, since, err := ask(h.ctx, h.client, h.query.request(page), h.client.stub.ListHistory)
			if err != nil {
				yield(HistoryEntry{}, err)
				return
			}
			h.following, h.since = answer.GetFollowing(), since
			if page == "" {
				h.gaps = nil
				for _, gap := range answer.GetGaps() {
					h.gaps = append(h.gaps, gapOf(gap))
				}
			}
			for _, entry := range answer.GetEntries() {
				if ofKnownScope(entry) && !yield(entryOf(entry), nil) {
					return
				}
			}
			if page = answer.GetNextPageToken(); page == "" {
				return
			}
		}
	}
}

// Gaps returns the gaps in the requested period, for which the history may lack events: the newest 100, newest first. They are known once
// All has returned the first entry, or has ended.
func (h *History) Gaps() []HistoryGap { return h.gaps }

// Following reports whether the server follows the change log, as of the last page that was read. If not, the newest events may be missing.
func (h *History) Following() bool { return h.following }

// UnconfirmedSince returns the time since which the server can't reach the change log, according to the last page that was read, so that
// the newest events may be missing; zero if the server reached the log.
func (h *History) UnconfirmedSince() time.Time { return h.since }

func (q HistoryQuery) request(page string) *pb.ListHistoryRequest {
	return &pb.ListHistoryRequest{
		Topic: q.Topic, Namespace: q.Namespace, Scopes: q.Scopes, StartTime: timestampOf(q.StartTime), EndTime: timestampOf(q.EndTime),
		Actor: q.Actor, Order: q.Order, PageToken: page,
	}
}

func entryOf(m *pb.HistoryEntry) HistoryEntry {
	return HistoryEntry{
		Document:    knownDocument(m.GetDocument()),
		Previous:    knownDocument(m.GetPrevious()),
		Kind:        m.GetKind(),
		Outcome:     m.GetOutcome(),
		Time:        timeOf(m.GetTime()),
		Partition:   m.GetPartition(),
		Position:    m.GetPosition(),
		Origin:      m.GetOrigin(),
		Changed:     m.GetChanged().GetPaths(),
		Stale:       m.GetStale(),
		Unexplained: m.GetUnexplained(),
		Ambiguous:   m.GetAmbiguous(),
		Replicated:  m.GetReplicated(),
		Problem:     m.GetProblem(),
	}
}

// ofKnownScope reports whether the scope of an entry is known to this package. An entry that could not be read has no scope, and is
// included.
func ofKnownScope(entry *pb.HistoryEntry) bool {
	return entry.GetDocument() == nil || knownScope(entry.GetDocument().GetScope())
}

func gapOf(m *pb.HistoryGap) HistoryGap {
	return HistoryGap{timeOf(m.GetStartTime()), timeOf(m.GetEndTime()), m.GetReason()}
}

func timestampOf(moment time.Time) *timestamppb.Timestamp {
	if moment.IsZero() {
		return nil
	}
	return timestamppb.New(moment)
}

func timeOf(m *timestamppb.Timestamp) time.Time {
	if m == nil {
		return time.Time{}
	}
	return m.AsTime()
}
