package topicpolicies

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
)

// calls notes what became of each attempt of a call: a change whose first attempt broke in the middle may have been made, whatever the last
// attempt says.
type calls struct{}

type (
	callKey    struct{}
	attemptKey struct{}
)

// call is one call with all its attempts.
type call struct {
	mu        sync.Mutex
	sent      bool
	now       bool
	made      int
	ambiguous bool
}

type attempt struct {
	call *call
	sent bool
}

// begin: another attempt follows, of which gRPC may make several.
func (c *call) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.made = false, 0
}

func (c *call) noteMade() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
}

func (c *call) noteSent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent, c.now = true, true
}

// present tells whether the request went out in the present attempt, and how many gRPC made of it: at least one.
func (c *call) present() (sent bool, made int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, max(c.made, 1)
}

func (c *call) noteAmbiguous() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ambiguous = true
}

func (c *call) state() (sent, ambiguous bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent, c.ambiguous
}

// TagRPC begins an attempt.
func (calls) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return context.WithValue(ctx, attemptKey{}, &attempt{call: c})
	}
	return ctx
}

// HandleRPC notes that an attempt was made, when its request was sent, and how it ended.
func (calls) HandleRPC(ctx context.Context, event stats.RPCStats) {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return
	}
	switch each := event.(type) {
	case *stats.Begin:
		if !each.IsTransparentRetryAttempt { // such a one follows one that the service has not seen
			a.call.noteMade()
		}
	case *stats.OutHeader:
		a.sent = true
		a.call.noteSent()
	case *stats.End:
		if each.Error != nil && a.sent && ambiguous(fromError(each.Error)) {
			a.call.noteAmbiguous()
		}
	}
}

// TagConn is of no concern.
func (calls) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn is of no concern.
func (calls) HandleConn(context.Context, stats.ConnStats) {}

// ambiguous tells whether a change that was sent and failed like this may have been made all the same.
func ambiguous(failure *Error) bool {
	switch failure.Code {
	case codes.DeadlineExceeded, codes.Internal:
		return true
	case codes.Unavailable, codes.Canceled, codes.Unknown:
		return !failure.FromService
	default:
		return false
	}
}

// settled are the answers that a repeat gets only if the request was not applied before: the service looks its id up first.
func settled(failure *Error) bool {
	switch failure.Code {
	case codes.Aborted, codes.AlreadyExists, codes.InvalidArgument:
		return true
	default:
		return false
	}
}
