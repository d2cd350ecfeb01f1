package topicpolicies

import (
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// Selection says what to watch.
type Selection struct {
	// Topics are single topics, and Namespaces, tenant/namespace, those of which all topics are watched.
	Topics     []string
	Namespaces []string
	// Scopes; none: both.
	Scopes []Scope
	// Mode is WatchModeLatest if it is not set.
	Mode WatchMode
	// Resume goes on from a token of an earlier watch, or of a List; nil begins with a snapshot.
	Resume *ResumeToken
	// FromBeginning begins with the first event that the history has, instead of with a snapshot; WatchModeEntries always does.
	FromBeginning bool
	// EndWhenSynced ends the watch once every namespace has told Synced.
	EndWhenSynced bool
	// IncludePrevious has changes tell the document before.
	IncludePrevious bool
	// BookmarkInterval is the time between two bookmarks; 0: 10 seconds. 1 second is the least.
	BookmarkInterval time.Duration
	// Patience is how long the service may be silent or out of reach before the watch gives up; 0: for ever. It must be longer than
	// BookmarkInterval.
	Patience time.Duration
}

// Watch is an open watch, for one goroutine.
type Watch struct {
	client  *Client
	ctx     context.Context
	cancel  context.CancelFunc
	session *session
	address string
	stream  grpc.ServerStreamingClient[pb.WatchPoliciesResponse]
	end     context.CancelFunc
	told    []Event          // by the session itself
	batch   []*pb.WatchEvent // came, and was not given yet
	delay   time.Duration
	err     error
}

// Watch follows documents: per namespace a snapshot, Synced, then changes. It resumes by itself where it broke, after a jittered and
// growing pause; where the service can't resume, it says so with Reset and begins with a snapshot. It connects with the first Next, and
// ends with the context.
func (c *Client) Watch(ctx context.Context, selection Selection) (*Watch, error) {
	session, err := newSession(selection, c.pauses)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	return &Watch{client: c, ctx: ctx, cancel: cancel, session: session}, nil
}

// Close ends the watch; any goroutine may do it.
func (w *Watch) Close() { w.cancel() }

// Token is where to go on after everything that Next has given so far. Save it once you have dealt with that.
func (w *Watch) Token() ResumeToken { return w.session.token() }

// Next waits for the next event. It fails with io.EOF when all was told (EndWhenSynced), with an error that matches the context's when the
// watch was closed or its context is over, and otherwise with what makes it senseless to try again.
func (w *Watch) Next() (Event, error) {
	for {
		if event := w.next(); event != nil {
			return event, nil
		}
		switch {
		case w.err != nil:
			return nil, w.err
		case w.stream == nil:
			w.connect()
		default:
			w.receive()
		}
	}
}

// next is the next event of what has come; nil if there is none. The token moves along with it, not with the batch.
func (w *Watch) next() Event {
	if len(w.told) > 0 {
		event := w.told[0]
		w.told = w.told[1:]
		return event
	}
	for len(w.batch) > 0 {
		event := w.session.tell(w.batch[0])
		w.batch = w.batch[1:]
		if event != nil {
			return event
		}
	}
	return nil
}

// All gives the events one after the other, and at the end the error that Next fails with; none when all was told.
func (w *Watch) All() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			event, err := w.Next()
			if errors.Is(err, io.EOF) || !yield(event, err) || err != nil {
				return
			}
		}
	}
}

func (w *Watch) connect() {
	if err := pause(w.ctx, w.delay); err != nil {
		w.err = stopped(err)
		return
	}
	request, events := w.session.connect(time.Now())
	w.told = append(w.told, events...)
	ctx, end := context.WithCancel(w.client.line.tagged(w.ctx))
	w.address = w.client.line.routes.address()
	stub, err := w.client.line.stub(w.address)
	if err == nil {
		w.stream, err = stub.WatchPolicies(ctx, request)
	}
	if err != nil {
		end()
		w.stream = nil
		w.broke(err)
		return
	}
	w.end = end
}

func (w *Watch) receive() {
	response, err := w.stream.Recv()
	if err != nil {
		w.end()
		w.stream = nil
		w.broke(err)
		return
	}
	w.session.heard(time.Now())
	w.batch = response.GetEvents()
}

func (w *Watch) broke(err error) {
	atEnd := errors.Is(err, io.EOF)
	switch {
	case atEnd && w.session.complete():
		w.err = io.EOF
	case w.ctx.Err() != nil:
		w.err = stopped(w.ctx.Err())
	case w.client.line.isClosed():
		w.err = closed()
	}
	if w.err != nil {
		w.cancel()
		return
	}
	failure := broken()
	if !atEnd {
		failure = fromError(err)
	}
	if failure.Code == codes.ResourceExhausted {
		w.client.line.routes.full(w.address)
	} else {
		w.client.line.routes.failed(w.address, "", failure)
	}
	interrupted, err := w.session.broke(failure, time.Now(), rand.Float64())
	if err != nil {
		w.err = err
		w.cancel()
		return
	}
	w.delay = interrupted.RetryIn
	w.told = append(w.told, interrupted)
}
