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

	pb "topicpolicies/clients/go/topicpolicies/v1"
)

// Selection says what to watch.
type Selection struct {
	// Topics are single topics, and Namespaces, tenant/namespace, those of which all topics are watched.
	Topics     []string
	Namespaces []string
	// Scopes; none: both.
	Scopes []Scope
	// Mode is Latest if it is not set.
	Mode WatchMode
	// Resume goes on from a token of an earlier watch; nil begins with a snapshot.
	Resume *ResumeToken
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
	told    []Event
	delay   time.Duration
	err     error
}

// Watch follows documents: per namespace a snapshot, Synced, then changes. It resumes by itself where it broke, after a jittered and growing pause,
// and starts over with Restarted and a snapshot where the service can't resume. It connects with the first Next, and ends with the context.
func (c *Client) Watch(ctx context.Context, selection Selection) (*Watch, error) {
	session, err := newSession(selection, c.retries)
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

// Next waits for the next event. It fails with the context's error when the watch was closed or its context is over, and otherwise with what makes
// it senseless to try again.
func (w *Watch) Next() (Event, error) {
	for len(w.told) == 0 {
		if w.err != nil {
			return nil, w.err
		}
		if w.stream == nil {
			w.connect()
		} else {
			w.receive()
		}
	}
	event := w.told[0]
	w.told = w.told[1:]
	return event, nil
}

// All gives the events one after the other, and at the end the error that Next fails with.
func (w *Watch) All() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			event, err := w.Next()
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

func (w *Watch) connect() {
	if err := pause(w.ctx, w.delay); err != nil {
		w.err = err
		return
	}
	request, events := w.session.connect(time.Now())
	w.told = append(w.told, events...)
	ctx, end := context.WithCancel(w.client.tagged(w.ctx))
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
	if event := w.session.received(response, time.Now()); event != nil {
		w.told = append(w.told, event)
	}
}

func (w *Watch) broke(err error) {
	if w.ctx.Err() != nil {
		w.err = w.ctx.Err()
		return
	}
	failure := fromError(err)
	if errors.Is(err, io.EOF) {
		failure = &Error{Code: codes.Unavailable, Message: "The service has ended the stream.", kind: ErrUnavailable}
	}
	w.client.line.routes.failed(w.address, "", failure)
	interrupted, err := w.session.broke(failure, time.Now(), rand.Float64())
	if err != nil {
		w.err = err
		w.cancel()
		return
	}
	w.delay = interrupted.RetryIn
	w.told = append(w.told, interrupted)
}
