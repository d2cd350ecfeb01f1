package topicpolicies

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

const (
	// mostInFlight is how many changes UpdateMany keeps in flight by default, and mostBytesInFlight their maximum size together. A change
	// that is larger goes alone.
	mostInFlight      = 2_000
	mostBytesInFlight = 8 << 20
	// checkInterval is the interval at which UpdateMany checks whether pauses are over, and whether streams still answer.
	checkInterval = 50 * time.Millisecond
	// shuttingDown is the reason of a server that is stopping.
	shuttingDown = "SHUTTING_DOWN"
)

// ChangeRequest is one of many changes: an Update or a Deletion.
type ChangeRequest interface {
	parcel() *parcel
}

// ChangeResult is the result of one of many changes.
type ChangeResult struct {
	// Index is the number of the change among all changes, counted from 0.
	Index int
	// Updated is the result of an update, and Deleted that of a deletion; nil if the change failed.
	Updated *UpdateResult
	Deleted *DeleteResult
	// Err is the error of the change; the other changes are not affected.
	Err error
}

// ManyOption is an option of UpdateMany.
type ManyOption func(*many)

// MaxInFlight sets how many changes UpdateMany keeps in flight at most: read, and without a result. It is at least 1; the default is 2,000.
func MaxInFlight(most int) ManyOption { return func(m *many) { m.most = most } }

// UpdateMany makes many changes over one stream, many at a time. Each change gets one result; results come in the order in which the
// changes are settled. Changes of one document are made in the order in which they are given. A change that fails does not affect the
// others.
//
// UpdateMany never waits for more changes before it sends some, and stops reading changes when too many are in flight or the caller is slow
// to take results. If a stream breaks, the changes without a result are sent again with the same request ids, as RetryPolicy says. Changes
// of a namespace that another sidecar leads go there. Each change may take as long as a call (WithTimeout), counted from when it is first
// sent; an error that the service returns for a single change is final, unless the service refused all later changes of the namespace too.
//
// The second value is nil except once, at the end, if the context's end or Close has stopped everything. By then all changes that were read
// have their results; the others were not read.
//
// The changes are read in a separate goroutine. If the loop over the results is left early, it is not known which of the changes in flight
// are made.
func (c *Client) UpdateMany(ctx context.Context, changes iter.Seq[ChangeRequest], options ...ManyOption) iter.Seq2[ChangeResult, error] {
	return func(yield func(ChangeResult, error) bool) {
		over, end := context.WithCancel(ctx)
		defer end()
		m := &many{
			client: c, ctx: ctx, over: over, lanes: map[string]*lane{}, queues: map[string]*queue{}, parcels: map[uint64]*parcel{},
			given: make(chan ChangeRequest), events: make(chan func()), most: mostInFlight,
		}
		for _, option := range options {
			option(m)
		}
		if m.most < 1 {
			yield(ChangeResult{}, invalid("MaxInFlight", "OUT_OF_BOUNDS", "MaxInFlight is at least 1."))
			return
		}
		go m.read(changes)
		finished := false
		defer func() { // also where the body of the caller's loop panics
			for _, lane := range m.lanes {
				if finished {
					lane.finish()
				} else {
					lane.cancel(nil)
				}
			}
		}()
		finished = m.run(yield)
	}
}

// many is one call of UpdateMany: the changes in flight, by namespace (queue) and by stream (lane). It belongs to the goroutine that loops
// over the results; other goroutines pass functions to it, to be run there.
type many struct {
	client  *Client
	ctx     context.Context
	over    context.Context // ends with the loop too
	lanes   map[string]*lane
	queues  map[string]*queue
	parcels map[uint64]*parcel
	most    int // how many changes may be in flight
	bytes   int
	next    uint64
	settled []ChangeResult
	held    time.Duration // spent in the body of the caller's loop
	given   chan ChangeRequest
	events  chan func()
}

// read passes the changes on. given is closed only at their end, so that the end of the context does not look like it.
func (m *many) read(changes iter.Seq[ChangeRequest]) {
	stopped := false
	defer func() {
		if !stopped { // also where the changes end the goroutine
			close(m.given)
		}
	}()
	for change := range changes {
		select {
		case m.given <- change:
		case <-m.over.Done():
			stopped = true
			return
		}
	}
}

// now returns the time of a clock that stands still while the body of the caller's loop runs: results that arrive then can't be read, and
// must not count as late.
func (m *many) now() time.Time { return time.Now().Add(-m.held) }

// later runs a function in the goroutine of the loop, unless the loop has ended.
func (m *many) later(do func()) {
	select {
	case m.events <- do:
	case <-m.over.Done():
	}
}

// run reports whether all changes were settled.
func (m *many) run(yield func(ChangeResult, error) bool) bool {
	glance := time.NewTicker(checkInterval)
	defer glance.Stop()
	given := m.given
	for given != nil || len(m.parcels) > 0 {
		room := given
		if len(m.parcels) >= m.most || m.bytes >= mostBytesInFlight {
			room = nil
		}
		var ended *Error
		select {
		case change, more := <-room:
			if more {
				m.add(change)
			} else {
				given = nil
			}
		case do := <-m.events:
			do()
		case <-glance.C:
			m.look()
			if m.client.line.isClosed() {
				ended = closed()
			}
		case <-m.ctx.Done():
			ended = stopped(m.ctx.Err())
		}
		if ended != nil {
			m.giveUp(ended)
		}
		for _, result := range m.settled {
			began := time.Now()
			if !yield(result, nil) {
				return false
			}
			m.held += time.Since(began)
		}
		m.settled = m.settled[:0]
		if ended != nil {
			yield(ChangeResult{}, ended)
			return false
		}
	}
	return true
}

func (m *many) add(change ChangeRequest) {
	each := change.parcel()
	each.change.Sequence = m.next
	each.repeats = repeats{policy: m.client.retries, change: true, repeatable: true}
	m.parcels[m.next] = each
	m.next++
	m.bytes += each.size
	if each.unsendable != nil {
		m.settle(each, ChangeResult{Err: each.unsendable})
		return
	}
	waiting := m.queues[each.namespace]
	if waiting == nil {
		waiting = &queue{inFlight: map[*parcel]struct{}{}}
		m.queues[each.namespace] = waiting
	}
	waiting.waiting = append(waiting.waiting, each)
	m.send(each.namespace)
}

// send sends the waiting changes of a namespace to the sidecar that writes it.
func (m *many) send(namespace string) {
	from, now := m.queues[namespace], m.now()
	if !from.ready(now) {
		return
	}
	address := m.client.line.routes.writer(namespace)
	if !from.moveTo(address) {
		return
	}
	stream := m.lanes[address]
	if stream == nil {
		stream = m.open(address)
	}
	stream.put(from.depart(now.Add(m.client.timeout)), now)
}

// answered handles the result of a change.
func (m *many) answered(stream *lane, result *pb.PolicyChangeResult) {
	each := stream.answered(result.GetSequence(), m.now())
	if each == nil {
		return
	}
	m.queues[each.namespace].arrived(each)
	if refused := result.GetError(); refused != nil {
		failure := fromStatus(status.FromProto(refused), nil)
		m.failed(each, stream.address, failure, true, refusedWithAllBehind(failure))
	} else if made, failure := successOf(each.change, result); failure != nil {
		m.failed(each, stream.address, failure, true, false)
	} else {
		m.settle(each, made)
	}
	m.sendNext(each.namespace)
}

// successOf converts the result of a change that succeeded. The error says that the result is of another kind than the change.
func successOf(change *pb.PolicyChangeRequest, result *pb.PolicyChangeResult) (ChangeResult, *Error) {
	switch updated, deleted := result.GetUpdated(), result.GetDeleted(); {
	case updated != nil && change.GetUpdate() != nil:
		made := updateResultOf(updated)
		return ChangeResult{Updated: &made}, nil
	case deleted != nil && change.GetDelete() != nil:
		made := deleteResultOf(deleted)
		return ChangeResult{Deleted: &made}, nil
	case updated != nil || deleted != nil:
		return ChangeResult{}, &Error{Code: codes.Internal, Message: "The service gave the result of another kind of change."}
	default:
		return ChangeResult{}, &Error{Code: codes.Unknown, Message: "The service gave a result that this client does not know."}
	}
}

// broke handles the end of a stream. The changes without a result are sent again, or fail as a call would.
func (m *many) broke(stream *lane, failure *Error) {
	delete(m.lanes, stream.address)
	if m.client.line.isClosed() { // whatever error gRPC reports in that case
		failure = closed()
	}
	namespaces := map[string]struct{}{}
	for _, each := range stream.inFlight {
		m.queues[each.namespace].arrived(each)
		m.failed(each, stream.address, failure, stream.hasSent(each), true)
		namespaces[each.namespace] = struct{}{}
	}
	clear(stream.inFlight)
	for namespace := range namespaces {
		m.sendNext(namespace)
	}
}

// refusedWithAllBehind reports whether the service refuses all later changes of the namespace too, so that they can be sent again together
// in their order.
func refusedWithAllBehind(failure *Error) bool {
	return refusedByFollower(failure) || (failure.FromService && failure.Reason == shuttingDown)
}

// failed handles a failed attempt of a change. again says whether the change may be sent again, if RetryPolicy agrees.
func (m *many) failed(each *parcel, address string, failure *Error, sent, again bool) {
	each.sent = each.sent || sent
	each.ambiguous = each.ambiguous || (sent && ambiguous(failure))
	leader := m.client.line.routes.failed(address, each.namespace, failure)
	wait, helps := each.repeats.failed(failure, sent, 1, leader != "", rand.Float64())
	at := m.now().Add(wait)
	if again && helps && at.Before(each.deadline) && !errors.Is(failure, ErrClosed) {
		m.queues[each.namespace].repeat(each, at)
		return
	}
	m.settle(each, ChangeResult{Err: each.verdict(m).of(failure)})
}

func (m *many) settle(each *parcel, result ChangeResult) {
	result.Index = int(each.change.GetSequence())
	m.settled = append(m.settled, result)
	delete(m.parcels, each.change.GetSequence())
	m.bytes -= each.size
}

// sendNext sends what may be sent of a namespace after a result, and drops its queue if that is empty.
func (m *many) sendNext(namespace string) {
	m.send(namespace)
	if m.queues[namespace].empty() {
		delete(m.queues, namespace)
	}
}
