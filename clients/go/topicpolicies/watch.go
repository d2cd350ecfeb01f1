package topicpolicies

import (
	"context"
	"iter"
	"maps"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// The shortest and the longest pause before a watch that broke goes on.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 10 * time.Second
)

// WatchPolicies follows documents: per namespace a snapshot, a bookmark that says SYNCED, then changes. A watch that breaks goes on where it
// was, until the context ends or an error that a repetition can't cure comes; that error ends the sequence.
//
// To go on later, keep the last ResumeToken of each namespace and pass them in the request. If a watch breaks within a snapshot, the next
// event of that namespace is a reset without a reason, and the snapshot begins again.
func (c *Client) WatchPolicies(ctx context.Context, request *pb.WatchPoliciesRequest) iter.Seq2[*pb.WatchEvent, error] {
	return follow(ctx, request.GetResumeTokens(), (*pb.WatchEvent).GetResumeToken, beginsAgain,
		func(ctx context.Context, tokens map[string]string) (func() ([]*pb.WatchEvent, error), error) {
			sent := proto.CloneOf(request)
			sent.ResumeTokens = tokens
			stream, err := c.TopicPoliciesServiceClient.WatchPolicies(ctx, sent)
			return func() ([]*pb.WatchEvent, error) {
				answer, err := stream.Recv()
				return answer.GetEvents(), err
			}, err
		})
}

// WatchHistory follows everything that the history records, from its beginning or from the positions of the request. A watch that breaks goes
// on where it was, as WatchPolicies does. To go on later, keep the last Position of each namespace.
func (c *Client) WatchHistory(ctx context.Context, request *pb.WatchHistoryRequest) iter.Seq2[*pb.WatchHistoryEvent, error] {
	again := func(namespace string) *pb.WatchHistoryEvent {
		return &pb.WatchHistoryEvent{
			Namespace: namespace, Content: &pb.WatchHistoryEvent_Reset_{Reset_: &pb.WatchReset{Message: brokeEarly}},
		}
	}
	return follow(ctx, request.GetPositions(), (*pb.WatchHistoryEvent).GetPosition, again,
		func(ctx context.Context, positions map[string]string) (func() ([]*pb.WatchHistoryEvent, error), error) {
			sent := proto.CloneOf(request)
			sent.Positions = positions
			stream, err := c.PolicyHistoryServiceClient.WatchHistory(ctx, sent)
			return func() ([]*pb.WatchHistoryEvent, error) {
				answer, err := stream.Recv()
				return answer.GetEvents(), err
			}, err
		})
}

const brokeEarly = "The connection broke before there was a place to go on from. The namespace begins again."

func beginsAgain(namespace string) *pb.WatchEvent {
	return &pb.WatchEvent{Namespace: namespace, Content: &pb.WatchEvent_Reset_{Reset_: &pb.WatchReset{Message: brokeEarly}}}
}

type event interface {
	GetNamespace() string
	GetReset_() *pb.WatchReset
}

// places are where a watch stands.
type places[E event] struct {
	token  func(E) string
	tokens map[string]string   // by namespace
	begun  map[string]struct{} // the namespaces that have sent something since they began without a token
}

// take notes the place of an event.
func (p *places[E]) take(each E) {
	namespace := each.GetNamespace()
	p.begun[namespace] = struct{}{}
	if each.GetReset_() != nil {
		delete(p.tokens, namespace)
	}
	if token := p.token(each); token != "" {
		p.tokens[namespace] = token
	}
}

// again returns the namespaces that begin again on the next stream, although they have sent something.
func (p *places[E]) again() (namespaces []string) {
	for namespace := range p.begun {
		if _, has := p.tokens[namespace]; !has {
			namespaces = append(namespaces, namespace)
			delete(p.begun, namespace)
		}
	}
	return namespaces
}

// follow opens stream after stream and yields their events.
func follow[E event](
	ctx context.Context, tokens map[string]string, token func(E) string, reset func(namespace string) E,
	open func(context.Context, map[string]string) (func() ([]E, error), error),
) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		at := &places[E]{token, map[string]string{}, map[string]struct{}{}}
		maps.Copy(at.tokens, tokens)
		pause := firstPause
		for {
			began, err := stream(ctx, at, reset, open, yield)
			if err == nil {
				return // the caller has left the loop
			}
			failure := newError(err, false, "")
			if ctx.Err() != nil || !failure.resumable(began) {
				var none E
				yield(none, failure)
				return
			}
			if began {
				pause = firstPause
			}
			select {
			case <-ctx.Done(): // the next stream ends with the context's error
			case <-time.After(max(failure.RetryAfter, pause/2+rand.N(pause))):
			}
			pause = min(2*pause, maxPause)
		}
	}
}

// stream yields the events of one stream. It returns the error that ended the stream, nil if the caller has left the loop, and whether
// anything came.
func stream[E event](
	ctx context.Context, at *places[E], reset func(string) E,
	open func(context.Context, map[string]string) (func() ([]E, error), error), yield func(E, error) bool,
) (began bool, _ error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, namespace := range at.again() {
		if !yield(reset(namespace), nil) {
			return began, nil
		}
	}
	receive, err := open(ctx, maps.Clone(at.tokens))
	if err != nil {
		return began, err
	}
	for {
		events, err := receive()
		if err != nil {
			return began, err
		}
		began = true
		for _, each := range events {
			at.take(each)
			if !yield(each, nil) {
				return began, nil
			}
		}
	}
}
