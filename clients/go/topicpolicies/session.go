package topicpolicies

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "topicpolicies/clients/go/topicpolicies/v1"
)

// session is a watch that outlives its streams, without I/O: what to ask for, what an answer means, what to do when the stream breaks.
//
// Per namespace it keeps one token: where the watch is. The token begins as the one that was handed in, or as that of the SYNCED bookmark that
// ends the snapshot; from then on the position of every change is folded into it, so that a stream that breaks between two bookmarks is resumed
// where it broke. Before SYNCED there is no token: a snapshot comes in no order that a position could stand for, and a broken one is begun again.
//
// Nothing is told twice: after a resume, what is at or before the token that was sent, and, always, what is no newer than what was told of the
// same document since the last bookmark. (Older versions need not be remembered: no stream goes back behind a bookmark.)
//
// When the service says OUT_OF_RANGE, the tokens are forgotten and every namespace starts over with Restarted and a snapshot.
type session struct {
	request    *pb.WatchPoliciesRequest
	places     map[string]*place
	order      []string
	policy     RetryPolicy
	patience   time.Duration
	quietSince time.Time
	failed     int
}

// place is one namespace of a watch.
type place struct {
	token   *WatchToken    // where the watch is; nil in or before the snapshot
	resumed *WatchToken    // what this stream was resumed from, until it has caught up
	told    bool           // whether the consumer may hold documents of an earlier stream
	restart string         // why the next snapshot comes again
	recent  map[Key]string // the versions that were told since the last bookmark
}

const brokenSnapshot = "the watch was interrupted before the snapshot was complete"

func newSession(selection Selection, policy RetryPolicy) (*session, error) {
	s := &session{
		request: &pb.WatchPoliciesRequest{
			Topics: selection.Topics, Namespaces: selection.Namespaces, Scopes: selection.Scopes, Mode: selection.Mode,
		},
		places:   map[string]*place{},
		policy:   policy,
		patience: selection.Patience,
	}
	if selection.BookmarkInterval > 0 {
		s.request.BookmarkInterval = durationpb.New(selection.BookmarkInterval)
	}
	for _, topic := range selection.Topics {
		s.place(namespaceOf(topic))
	}
	for _, namespace := range selection.Namespaces {
		s.place(namespace)
	}
	if len(s.places) == 0 {
		return nil, invalid("topics", "NOTHING_SELECTED", "Name at least one topic or namespace to watch.")
	}
	if selection.Resume != nil {
		for name, place := range s.places {
			place.told = true
			place.restart = "the token does not cover this namespace"
			if token, known := selection.Resume.Namespaces[name]; known {
				place.token = &token
			}
		}
	}
	return s, nil
}

func (s *session) place(namespace string) *place {
	known := s.places[namespace]
	if known == nil {
		known = &place{restart: brokenSnapshot, recent: map[Key]string{}}
		s.places[namespace] = known
		s.order = append(s.order, namespace)
	}
	return known
}

// token is where the watch is, after everything that it has told.
func (s *session) token() ResumeToken {
	token := ResumeToken{map[string]WatchToken{}}
	for name, place := range s.places {
		if place.token != nil {
			token.Namespaces[name] = *place.token
		}
	}
	return token
}

// connect: a stream is about to be opened. What to send, and what to tell first.
func (s *session) connect(now time.Time) (*pb.WatchPoliciesRequest, []Event) {
	if s.quietSince.IsZero() {
		s.quietSince = now
	}
	request := proto.Clone(s.request).(*pb.WatchPoliciesRequest)
	request.Resume = map[string]*pb.WatchToken{}
	var events []Event
	for _, name := range s.order {
		place := s.places[name]
		place.resumed = place.token
		if place.token != nil {
			request.Resume[name] = place.token.message()
			continue
		}
		clear(place.recent)
		if place.told {
			place.told = false
			events = append(events, Restarted{name, fmt.Sprintf("The namespace %s begins again with a snapshot: %s.", name, place.restart)})
			place.restart = brokenSnapshot
		}
	}
	return request, events
}

// received: a message has come. What it tells; nil if nothing.
func (s *session) received(response *pb.WatchPoliciesResponse, now time.Time) Event {
	s.quietSince = now
	switch content := response.GetContent().(type) {
	case *pb.WatchPoliciesResponse_Change:
		return s.change(content.Change)
	case *pb.WatchPoliciesResponse_Bookmark:
		return s.bookmark(content.Bookmark)
	case *pb.WatchPoliciesResponse_Status:
		if content.Status.GetState() == pb.NamespaceState_NAMESPACE_STATE_FAILED {
			return NamespaceUnavailable{content.Status.GetNamespace(), content.Status.GetMessage(), content.Status.GetReason()}
		}
		return NamespaceLoading{content.Status.GetNamespace(), content.Status.GetMessage()}
	default:
		return nil // a newer service's
	}
}

func (s *session) change(change *pb.PolicyChange) Event {
	place := s.place(change.GetNamespace())
	key := Key{change.GetTopic(), change.GetScope()}
	snapshot := place.token == nil
	if !snapshot {
		known, told := place.recent[key]
		before := place.resumed.at(change.GetPartition())
		if (told && change.GetVersion() <= known) || (before != "" && change.GetPosition() <= before) {
			return nil
		}
		place.recent[key] = change.GetVersion()
		place.token = place.token.folded(change.GetPartition(), change.GetPosition())
	}
	place.told = true
	where := Place{
		change.GetNamespace(), change.GetPreviousVersion(), change.GetPartition(), change.GetPosition(), change.GetOrigin(), snapshot,
	}
	document := Document{Key: key, Version: change.GetVersion()}
	if !change.GetExists() {
		return Deleted{document, where}
	}
	document.Policies = change.GetPolicies()
	if document.Policies == nil {
		document.Policies = &TopicPolicies{}
	}
	return Changed{document, where}
}

func (s *session) bookmark(bookmark *pb.Bookmark) Event {
	place := s.place(bookmark.GetNamespace())
	synced := bookmark.GetKind() == pb.BookmarkKind_BOOKMARK_KIND_SYNCED
	if place.token == nil && !synced {
		return nil // in the middle of a snapshot there is no place to resume from
	}
	place.token = tokenOf(bookmark.GetToken())
	place.told = true
	clear(place.recent)
	s.failed = 0
	if synced {
		place.resumed = nil
		return Synced{bookmark.GetNamespace(), *place.token}
	}
	return Bookmark{bookmark.GetNamespace(), *place.token}
}

// broke: the stream has ended. What to tell, and with it how long to wait before connecting again; or the error, if it makes no sense to try
// again or patience is at its end. chance is at least 0 and less than 1.
func (s *session) broke(failure *Error, now time.Time, chance float64) (Interrupted, error) {
	switch {
	case failure.Code == codes.OutOfRange && len(s.token().Namespaces) > 0:
		for _, place := range s.places {
			place.told = place.told || place.token != nil
			place.token = nil
			place.restart = fmt.Sprintf("it can't be resumed (%s)", strings.TrimRight(failure.Message, "."))
		}
	case !resumable(failure.Code):
		return Interrupted{}, failure
	}
	s.failed++
	delay := s.policy.delay(s.failed, chance)
	if s.patience > 0 && now.Sub(s.quietSince)+delay > s.patience {
		return Interrupted{}, failure
	}
	return Interrupted{failure, s.failed, delay}, nil
}

// resumable tells whether streams break like this. Whoever cancels a watch himself does not ask.
func resumable(code codes.Code) bool {
	switch code {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Internal, codes.Unknown:
		return true
	default:
		return false
	}
}
