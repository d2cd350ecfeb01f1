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

// Selection says what to watch, and how.
type Selection struct {
	// Topics are single topics, and Namespaces (tenant/namespace) those of which all topics are watched.
	Topics     []string
	Namespaces []string
	// Scopes are the scopes to watch; if empty, both.
	Scopes []Scope
	// Mode is WatchModeLatest if it is not set.
	Mode WatchMode
	// Resume is the token of an earlier watch, or of a List, to resume from; if nil, the watch begins with a snapshot.
	Resume *ResumeToken
	// FromBeginning begins with the first event in the history instead of with a snapshot; WatchModeEntries always does.
	FromBeginning bool
	// EndWhenSynced ends the watch when every namespace is synced.
	EndWhenSynced bool
	// IncludePrevious adds the document before each change.
	IncludePrevious bool
	// BookmarkInterval is the time between two bookmarks of a namespace, at least 1 second; 0: 10 seconds.
	BookmarkInterval time.Duration
	// Patience is how long the service may be silent or unreachable before the watch gives up; 0: without limit. It must be longer than
	// BookmarkInterval.
	Patience time.Duration
}

// Watch is an open watch, for use by one goroutine.
type Watch struct {
	client  *Client
	ctx     context.Context
	cancel  context.CancelFunc
	session *session
	address string
	stream  grpc.ServerStreamingClient[pb.WatchPoliciesResponse]
	end     context.CancelFunc
	pending []Event          // events of the session itself, not yet delivered
	batch   []*pb.WatchEvent // events that were received, not yet delivered
	delay   time.Duration
	err     error
}

// Watch follows documents: per namespace a snapshot, Synced, then changes. When the stream breaks, the watch connects again after a
// growing, jittered pause and resumes where it was; a namespace that can't be resumed starts over with Reset and a snapshot. The watch
// connects with the first Next, and ends with the context.
func (c *Client) Watch(ctx context.Context, selection Selection) (*Watch, error) {
	session, err := newSession(selection, c.pauses)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	return &Watch{client: c, ctx: ctx, cancel: cancel, session: session}, nil
}

// Close ends the watch. It may be called from any goroutine.
func (w *Watch) Close() { w.cancel() }

// Token returns the place from which to resume after all events that Next has returned so far. Save it once you have processed them.
func (w *Watch) Token() ResumeToken { return w.session.token() }

// Next waits for the next event. It returns io.EOF when every namespace is synced (EndWhenSynced), an error that matches the context's when
// the watch was closed or its context has ended, and otherwise an error that retrying can't cure.
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

// next returns the next event that was received; nil if there is none. The token advances event by event, not with the batch.
func (w *Watch) next() Event {
	if len(w.pending) > 0 {
		event := w.pending[0]
		w.pending = w.pending[1:]
		return event
	}
	for len(w.batch) > 0 {
		event := w.session.receive(w.batch[0])
		w.batch = w.batch[1:]
		if event != nil {
			return event
		}
	}
	return nil
}

// All returns an iterator over the events, and at the end the error of Next; no error if Next returned io.EOF.
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
	if err := w.client.line.pause(w.ctx, w.delay); errors.Is(err, ErrClosed) {
		w.err = err
		w.cancel()
		return
	} else if err != nil {
		w.err = stopped(err)
		return
	}
	request, events := w.session.connect(time.Now())
	w.pending = append(w.pending, events...)
	if malformed := malformed(request); malformed != nil {
		w.err = malformed
		w.cancel()
		return
	}
	ctx, end := context.WithCancel(w.client.line.tagged(w.ctx))
	w.end = end
	w.address = w.client.line.routes.address()
	stub, err := w.client.line.stub(w.address)
	if err == nil {
		err = w.patiently(func() (err error) {
			w.stream, err = stub.WatchPolicies(ctx, request)
			return err
		})
	}
	if err != nil {
		w.broke(err)
	}
}

func (w *Watch) receive() {
	var response *pb.WatchPoliciesResponse
	err := w.patiently(func() (err error) {
		response, err = w.stream.Recv()
		return err
	})
	if err != nil {
		w.broke(err)
		return
	}
	w.session.received(time.Now())
	w.batch = response.GetEvents()
}

// patiently waits for the service, and ends the stream when the patience is over. The time in which the caller does not wait does not count.
func (w *Watch) patiently(wait func() error) error {
	if w.session.patience <= 0 {
		return wait()
	}
	timer := time.AfterFunc(w.session.patience, w.end)
	if err := wait(); timer.Stop() || err == nil {
		return err
	}
	return &Error{Code: codes.DeadlineExceeded, Message: "The service was silent for too long.", kind: context.DeadlineExceeded}
}

func (w *Watch) broke(err error) {
	w.end()
	w.stream = nil
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
	w.pending = append(w.pending, interrupted)
}
