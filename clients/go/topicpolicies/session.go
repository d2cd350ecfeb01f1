package topicpolicies

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// session is a watch that outlives its streams, without I/O: what to request, what a message means, and what to do when the stream breaks
// (docs/watch.md).
//
// It keeps one token per namespace: the place of the watch. The token begins as the one that was given, or as that of the SYNCED bookmark;
// from then on the position of every event is folded into it, so that a stream that breaks between two bookmarks is resumed where it broke.
// Before SYNCED, and after a reset, there is no token: a snapshot has no order in which a position could be a place, so a broken one is
// started over. In WatchModeEntries, where events come in the log's order and without a snapshot, the token of every bookmark is taken.
type session struct {
	request    *pb.WatchPoliciesRequest
	places     map[string]*place
	order      []string
	pauses     RetryPolicy
	patience   time.Duration
	quietSince time.Time
	failed     int
}

// place is one namespace of a watch.
type place struct {
	token     *WatchToken // the place of the watch; nil before and within the snapshot, in WatchModeEntries before the first bookmark
	delivered bool        // whether the consumer may hold documents of an earlier stream
	restart   string      // why the namespace starts over, if it does: for the message of the Reset
	snapshot  bool        // whether the events before SYNCED are a snapshot
	synced    bool        // whether SYNCED came on the present stream
}

const (
	brokenSnapshot = "the watch was interrupted before the snapshot was complete"
	notCovered     = "the token does not cover this namespace"
)

func newSession(selection Selection, pauses RetryPolicy) (*session, error) {
	s := &session{
		request: &pb.WatchPoliciesRequest{
			Topics: selection.Topics, Namespaces: selection.Namespaces, Scopes: selection.Scopes, Mode: selection.Mode,
			FromBeginning: selection.FromBeginning, EndWhenSynced: selection.EndWhenSynced, IncludePrevious: selection.IncludePrevious,
		},
		places:   map[string]*place{},
		pauses:   pauses,
		patience: selection.Patience,
	}
	if selection.BookmarkInterval > 0 {
		s.request.BookmarkInterval = durationpb.New(selection.BookmarkInterval)
	}
	for _, topic := range selection.Topics {
		s.add(namespaceOf(topic))
	}
	for _, namespace := range selection.Namespaces {
		s.add(namespace)
	}
	if len(s.places) == 0 {
		return nil, invalid("topics", "NOTHING_SELECTED", "Name at least one topic or namespace to watch.")
	}
	if selection.Resume != nil {
		for name, place := range s.places {
			place.delivered = true
			if token, covered := selection.Resume.Namespaces[name]; covered {
				place.token = &token
			} else {
				place.restart = notCovered
			}
		}
	}
	return s, nil
}

func (s *session) add(namespace string) {
	if s.places[namespace] == nil {
		s.places[namespace] = &place{restart: brokenSnapshot}
		s.order = append(s.order, namespace)
	}
}

// token returns the place of the watch, after all events so far.
func (s *session) token() ResumeToken {
	token := ResumeToken{map[string]WatchToken{}}
	for name, place := range s.places {
		if place.token != nil {
			token.Namespaces[name] = *place.token
		}
	}
	return token
}

// connect prepares for a new stream. It returns the request to send, and the events to deliver first.
func (s *session) connect(now time.Time) (*pb.WatchPoliciesRequest, []Event) {
	if s.quietSince.IsZero() {
		s.quietSince = now
	}
	request := proto.Clone(s.request).(*pb.WatchPoliciesRequest)
	request.Resume = map[string]*pb.WatchToken{}
	var events []Event
	for _, name := range s.order {
		place := s.places[name]
		place.synced = false
		if place.token != nil {
			request.Resume[name] = place.token.message()
			continue
		}
		place.snapshot = !s.request.GetFromBeginning()
		if place.delivered {
			events = append(events, Reset{Namespace: name, Message: fmt.Sprintf("The namespace %s begins again: %s.", name, place.restart)})
		}
		place.delivered, place.restart = false, brokenSnapshot
	}
	return request, events
}

// received records that the service has sent something.
func (s *session) received(now time.Time) { s.quietSince = now }

// receive converts an event of a stream, which the token then covers; nil if there is nothing to deliver. Namespaces that were not
// selected, and contents that this package does not know, are ignored.
func (s *session) receive(event *pb.WatchEvent) Event {
	name := event.GetNamespace()
	place := s.places[name]
	if place == nil {
		return nil
	}
	switch content := event.GetContent().(type) {
	case *pb.WatchEvent_Change:
		return place.change(name, content.Change)
	case *pb.WatchEvent_Entry:
		return place.entry(name, content.Entry)
	case *pb.WatchEvent_Bookmark:
		return s.bookmark(name, place, content.Bookmark)
	case *pb.WatchEvent_Status:
		status := content.Status
		return Status{name, status.GetState(), reasonOf(status.GetReason()), status.GetMessage()}
	case *pb.WatchEvent_Reset_:
		place.token, place.synced, place.delivered = nil, false, true
		place.snapshot = s.request.GetMode() != WatchModeEntries
		return Reset{name, reasonOf(content.Reset_.GetReason()), content.Reset_.GetMessage()}
	case *pb.WatchEvent_Gap:
		return Gap{name, gapOf(content.Gap)}
	default:
		return nil
	}
}

func (p *place) change(name string, change *pb.PolicyChange) Event {
	inSnapshot := p.snapshot && p.token == nil
	p.token = p.token.folded(change.GetPartition(), change.GetPosition())
	if !knownScope(change.GetDocument().GetScope()) {
		return nil
	}
	p.delivered = true
	return Changed{
		Namespace:       name,
		Document:        documentOf(change.GetDocument()),
		PreviousVersion: change.GetPreviousVersion(),
		Previous:        knownDocument(change.GetPrevious()),
		Partition:       change.GetPartition(),
		Position:        change.GetPosition(),
		Origin:          change.GetOrigin(),
		Snapshot:        inSnapshot,
	}
}

func (p *place) entry(name string, entry *pb.HistoryEntry) Event {
	p.token = p.token.folded(entry.GetPartition(), entry.GetPosition())
	if !ofKnownScope(entry) {
		return nil
	}
	p.delivered = true
	return Entry{name, entryOf(entry)}
}

func (s *session) bookmark(name string, place *place, bookmark *pb.Bookmark) Event {
	synced := bookmark.GetKind() == pb.BookmarkKind_BOOKMARK_KIND_SYNCED
	if place.token == nil && !synced && s.request.GetMode() != WatchModeEntries {
		return nil // within a snapshot there is no place to resume from
	}
	place.token, place.delivered = tokenOf(bookmark.GetToken()), true
	confirmed := timeOf(bookmark.GetConfirmedTime())
	if !synced {
		return Bookmark{name, *place.token, confirmed}
	}
	place.synced = true
	s.failed = 0
	return Synced{name, *place.token, confirmed}
}

// complete reports whether the watch was to end when every namespace is synced, and every one is.
func (s *session) complete() bool {
	for _, place := range s.places {
		if !place.synced {
			return false
		}
	}
	return s.request.GetEndWhenSynced()
}

// broke records that the stream has ended. It returns the event to deliver, with the time to wait before connecting again; or the error,
// if retrying can't help or the patience is over. chance is a random number, at least 0 and less than 1.
func (s *session) broke(failure *Error, now time.Time, chance float64) (Interrupted, error) {
	renewable := failure.Reason == "CREDENTIALS_EXPIRED" && s.failed == 0 // the next stream may have a newer token
	renewable = renewable || (!failure.FromService && strings.Contains(failure.Message, noToken))
	if !resumable(failure.Code) && !renewable {
		return Interrupted{}, failure
	}
	s.failed++
	delay := s.pauses.delay(s.failed, chance)
	if failure.Code == codes.ResourceExhausted && !passingLimit(failure) { // other watches have to end first
		delay = s.pauses.longest(chance)
	}
	delay += failure.RetryAfter
	if s.patience > 0 && now.Sub(s.quietSince)+delay > s.patience {
		return Interrupted{}, failure
	}
	return Interrupted{failure, s.failed, delay}, nil
}

// resumable reports whether it makes sense to open another stream after one that ended with this code.
func resumable(code codes.Code) bool {
	switch code {
	case codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented, codes.FailedPrecondition:
		return false
	default:
		return true
	}
}
