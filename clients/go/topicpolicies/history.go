package topicpolicies

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// HistoryQuery says which part of the history is to be listed.
type HistoryQuery struct {
	// Topic or Namespace, tenant/namespace: one of them.
	Topic     string
	Namespace string
	// Scopes; none: both.
	Scopes []Scope
	// StartTime leaves out what happened before, and EndTime what happened then or later; zero: nothing.
	StartTime time.Time
	EndTime   time.Time
	// Actor leaves out what others did; nil: nothing. Empty are the events of which nobody said whose they are, such as brokers'.
	Actor *string
	// Order is HistoryOrderNewestFirst if it is not set.
	Order HistoryOrder
}

// HistoryEntry is one event of the change log, as the server read it, and what it did.
type HistoryEntry struct {
	// Document is the document after the event; nil if the event could not be read, and it is not known whose it was.
	Document *PolicyDocument
	// Previous is the document before the event; nil if it is not known.
	Previous *PolicyDocument
	// Kind is what kind of event it is, and Outcome what became of it.
	Kind    HistoryKind
	Outcome HistoryOutcome
	// Time is when it happened, as far as the log tells.
	Time time.Time
	// Partition is the partition of the change log, and Position the event's position in it.
	Partition int32
	Position  string
	// Origin says where it came from.
	Origin *ChangeOrigin
	// Changed are the fields and entries of maps that differ between the two documents.
	Changed []string
	// Stale tells whether it was computed from something else than the document that it met.
	Stale bool
	// Unexplained tells of a broker's event that no recent document explains, and Ambiguous of one that two explain differently.
	Unexplained bool
	Ambiguous   bool
	// Replicated tells whether it came from another cluster.
	Replicated bool
	// Problem is why it could not be read; empty if it could.
	Problem string
}

// HistoryGap is a time in which the record of a namespace may miss events.
type HistoryGap struct {
	// Start is zero if it is the beginning of the log.
	Start  time.Time
	End    time.Time
	Reason HistoryGapReason
}

// History is a part of the history, read page by page, for one goroutine.
type History struct {
	client    *Client
	ctx       context.Context
	query     HistoryQuery
	gaps      []HistoryGap
	following bool
	since     time.Time
}

// History lists what happened to the documents of a topic or a namespace. It reads nothing yet.
func (c *Client) History(ctx context.Context, query HistoryQuery) *History {
	return &History{client: c, ctx: ctx, query: query}
}

// All gives the events. It ends with the first error.
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

// Gaps are where the record may miss events, in the time that was asked for: the newest 100, newest first. They are known with the first
// entry, or the end.
func (h *History) Gaps() []HistoryGap { return h.gaps }

// Following tells whether the server follows the change log, as of the page that was read last. If not, the newest events may be missing.
func (h *History) Following() bool { return h.following }

// UnconfirmedSince is since when the server can't reach the change log, by the page that was read last, so that the newest events may be
// missing; zero: it can.
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

// ofKnownScope tells whether an entry is of a scope that this package knows, or of none, since it could not be read.
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
