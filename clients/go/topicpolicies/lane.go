package topicpolicies

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

const (
	// mostInBatch and mostBytesInBatch are the limits of one message; a change that is larger is sent alone.
	mostInBatch      = 1_000
	mostBytesInBatch = 1 << 20
	// closeTimeout is how long the service may take to end a stream on which no result is outstanding.
	closeTimeout = 5 * time.Second
)

var errSilent = errors.New("nothing was answered in time")

// lane is one stream of changes to one address. The changes that are waiting when a message has been sent go into the next message
// together.
type lane struct {
	address string
	cancel  context.CancelCauseFunc

	// These fields belong to the goroutine that loops over the results.
	inFlight map[uint64]*parcel
	placed   int
	progress time.Time

	mu      sync.Mutex
	outbox  []*parcel // nil for those that were withdrawn
	sent    int       // how many changes were sent or withdrawn, in the order of their places: that of the first one in outbox
	closing bool
	wake    chan struct{}
}

// open opens a stream to an address. Its results and its end are handed to m.
func (m *many) open(address string) *lane {
	ctx, cancel := context.WithCancelCause(m.client.line.tagged(m.ctx))
	l := &lane{address: address, cancel: cancel, inFlight: map[uint64]*parcel{}, wake: make(chan struct{}, 1)}
	m.lanes[address] = l
	go func() {
		failure := l.run(ctx, m)
		cancel(nil)
		m.later(func() { m.broke(l, failure) })
	}()
	return l
}

// put hands changes to the stream, to be sent in this order.
func (l *lane) put(parcels []*parcel, now time.Time) {
	if len(l.inFlight) == 0 {
		l.progress = now
	}
	for _, each := range parcels {
		each.place = l.placed
		l.placed++
		l.inFlight[each.change.GetSequence()] = each
	}
	l.mu.Lock()
	l.outbox = append(l.outbox, parcels...)
	l.mu.Unlock()
	l.stir()
}

// answered removes and returns the change that a result belongs to; nil if no such change is in flight.
func (l *lane) answered(sequence uint64, now time.Time) *parcel {
	each := l.inFlight[sequence]
	if each != nil {
		delete(l.inFlight, sequence)
		l.progress = now
	}
	return each
}

// withdraw removes a change from the stream. It reports whether the change was sent; if it was not, it will not be.
func (l *lane) withdraw(each *parcel) (sent bool) {
	delete(l.inFlight, each.change.GetSequence())
	l.mu.Lock()
	defer l.mu.Unlock()
	if each.place < l.sent {
		return true
	}
	l.outbox[each.place-l.sent] = nil
	return false
}

// hasSent reports whether a change was sent.
func (l *lane) hasSent(each *parcel) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return each.place < l.sent
}

// finish ends the stream, on which no result is outstanding.
func (l *lane) finish() {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	l.stir()
	time.AfterFunc(closeTimeout, func() { l.cancel(nil) })
}

func (l *lane) stir() {
	select {
	case l.wake <- struct{}{}:
	default: // a wake-up is already pending
	}
}

// run runs the stream and returns why it ended.
func (l *lane) run(ctx context.Context, m *many) *Error {
	stub, err := m.client.line.stub(l.address)
	if err != nil {
		return fromError(err)
	}
	stream, err := stub.UpdatePolicies(ctx)
	if err != nil {
		return endOf(ctx, err)
	}
	sending := make(chan struct{})
	go func() {
		defer close(sending)
		l.send(ctx, stream)
	}()
	for {
		answer, err := stream.Recv()
		if err != nil {
			failure := endOf(ctx, err)
			l.cancel(nil)
			<-sending
			return failure
		}
		m.later(func() {
			for _, result := range answer.GetResults() {
				m.answered(l, result)
			}
		})
	}
}

func endOf(ctx context.Context, err error) *Error {
	switch {
	case errors.Is(err, io.EOF):
		return broken()
	case errors.Is(context.Cause(ctx), errSilent):
		return &Error{Code: codes.DeadlineExceeded, Message: "The service has stopped answering.", kind: context.DeadlineExceeded, cause: err}
	default:
		return fromError(err)
	}
}

// send sends batches until the stream ends; the receiving side learns why it ended.
func (l *lane) send(ctx context.Context, stream grpc.BidiStreamingClient[pb.UpdatePoliciesRequest, pb.UpdatePoliciesResponse]) {
	for {
		batch, closing := l.take()
		switch {
		case len(batch) > 0:
			if stream.Send(&pb.UpdatePoliciesRequest{Changes: batch}) != nil {
				return
			}
		case closing:
			_ = stream.CloseSend() // never fails
			return
		default:
			select {
			case <-l.wake:
			case <-ctx.Done():
				return
			}
		}
	}
}

// take returns the next batch.
func (l *lane) take() (batch []*pb.PolicyChangeRequest, closing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	size, passed := 0, 0
	for _, each := range l.outbox {
		if each != nil {
			if size += each.size; len(batch) == mostInBatch || (len(batch) > 0 && size > mostBytesInBatch) {
				break
			}
			batch = append(batch, each.change)
		}
		passed++
	}
	l.outbox = l.outbox[passed:]
	l.sent += passed
	return batch, l.closing
}
