package topicpolicies

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
)

// calls is a gRPC stats handler that records the result of each attempt of a call: if the connection broke during the first attempt, the
// change may have been made, whatever the result of the last attempt.
type calls struct{}

type (
	callKey    struct{}
	attemptKey struct{}
)

// call records what is known of one call with all its attempts.
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

// begin starts another attempt of the client, of which gRPC may make several of its own.
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

// present reports whether the request was sent in the present attempt, and how many attempts gRPC made of it, at least one.
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

// HandleRPC records that an attempt was made, that its request was sent, and how it ended.
func (calls) HandleRPC(ctx context.Context, event stats.RPCStats) {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return
	}
	switch each := event.(type) {
	case *stats.Begin:
		if !each.IsTransparentRetryAttempt { // a transparent retry follows an attempt that never reached the service
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

// TagConn does nothing.
func (calls) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (calls) HandleConn(context.Context, stats.ConnStats) {}

// ambiguous reports whether a change that was sent and failed with this error may have been made.
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

// settled reports whether this error of a repeat says that the change was not made before: the service looks up the request id first.
func settled(failure *Error) bool {
	switch failure.Code {
	case codes.Aborted, codes.AlreadyExists, codes.InvalidArgument:
		return true
	default:
		return false
	}
}
