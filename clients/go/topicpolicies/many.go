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
	// mostUnderWay is how many changes UpdateMany takes before the first of them is told of, and mostBytesUnderWay how large they may be
	// together; a larger one goes alone.
	mostUnderWay      = 2_000
	mostBytesUnderWay = 8 << 20
	// glances is how often it is looked whether pauses are over, and whether streams still answer.
	glances = 50 * time.Millisecond
	// shuttingDown is the reason of a server that is stopping.
	shuttingDown = "SHUTTING_DOWN"
)

// ChangeRequest is one change among many: an Update or a Deletion.
type ChangeRequest interface {
	parcel() *parcel
}

// ChangeResult is what became of one change among many.
type ChangeResult struct {
	// Index is the change's place among those that were given, counted from 0.
	Index int
	// Updated is what became of an update, and Deleted of a deletion; nil if it failed.
	Updated *UpdateResult
	Deleted *DeleteResult
	// Err is why it failed, alone.
	Err error
}

// UpdateMany makes many changes over one stream, many at a time, and gives one result for each, in the order in which they are settled.
// Changes of one document are made in the order in which they are given. A change that fails concerns no other one.
//
// It never waits for more changes before it sends some, and takes no more of them than it can hold until their results are taken. When a
// stream breaks, what it has left open is repeated with the same request ids, as RetryPolicy says. Changes of a namespace that another
// sidecar leads go there. Each may take as long as a call (WithTimeout) from when it is sent first; an error that the service gives for a
// single change is told and not repeated.
//
// The second value is nil, but for once: when the end of the context, or of the client, has cut everything short. What had been taken has
// been told of then, and the rest is not taken.
//
// The changes are read in a goroutine of their own. When the loop over the results is left early, it is not known which of those under way
// are made.
func (c *Client) UpdateMany(ctx context.Context, changes iter.Seq[ChangeRequest]) iter.Seq2[ChangeResult, error] {
	return func(yield func(ChangeResult, error) bool) {
		over, end := context.WithCancel(ctx)
		defer end()
		m := &many{
			client: c, ctx: ctx, over: over, lanes: map[string]*lane{}, queues: map[string]*queue{}, parcels: map[uint64]*parcel{},
			given: make(chan ChangeRequest), events: make(chan func()),
		}
		go m.read(changes)
		if finished := m.run(yield); finished {
			for _, lane := range m.lanes {
				lane.finish()
			}
			return
		}
		for _, lane := range m.lanes {
			lane.cancel(nil)
		}
	}
}

// many is one call of UpdateMany: the changes that are under way, by namespace (queue) and by stream (lane). It belongs to the goroutine of
// the loop over the results; others hand it what is to be done there.
type many struct {
	client  *Client
	ctx     context.Context
	over    context.Context // ends with the loop too
	lanes   map[string]*lane
	queues  map[string]*queue
	parcels map[uint64]*parcel
	bytes   int
	next    uint64
	settled []ChangeResult
	held    time.Duration // spent by the body of the loop
	given   chan ChangeRequest
	events  chan func()
}

func (m *many) read(changes iter.Seq[ChangeRequest]) {
	defer close(m.given)
	for change := range changes {
		select {
		case m.given <- change:
		case <-m.over.Done():
			return
		}
	}
}

// now is a clock that stands still while the body of the loop runs: what comes meanwhile can't be looked at, and is not late for that.
func (m *many) now() time.Time { return time.Now().Add(-m.held) }

// later has something done in the goroutine of the loop, unless that is over.
func (m *many) later(do func()) {
	select {
	case m.events <- do:
	case <-m.over.Done():
	}
}

// run tells whether everything was settled.
func (m *many) run(yield func(ChangeResult, error) bool) bool {
	glance := time.NewTicker(glances)
	defer glance.Stop()
	given := m.given
	for given != nil || len(m.parcels) > 0 {
		room := given
		if len(m.parcels) >= mostUnderWay || m.bytes >= mostBytesUnderWay {
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
	waiting := m.queues[each.namespace]
	if waiting == nil {
		waiting = &queue{underWay: map[*parcel]struct{}{}}
		m.queues[each.namespace] = waiting
	}
	waiting.waiting = append(waiting.waiting, each)
	m.send(each.namespace)
}

// send sends what waits of a namespace, to whoever writes it.
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

// answered: a change has its result.
func (m *many) answered(stream *lane, result *pb.PolicyChangeResult) {
	each := stream.answered(result.GetSequence(), m.now())
	if each == nil {
		return
	}
	m.queues[each.namespace].arrived(each)
	switch what := result.GetResult().(type) {
	case *pb.PolicyChangeResult_Updated:
		updated := updateResultOf(what.Updated)
		m.settle(each, ChangeResult{Updated: &updated})
	case *pb.PolicyChangeResult_Deleted:
		deleted := deleteResultOf(what.Deleted)
		m.settle(each, ChangeResult{Deleted: &deleted})
	case *pb.PolicyChangeResult_Error:
		failure := fromStatus(status.FromProto(what.Error), nil)
		m.failed(each, stream.address, failure, true, refusedWithAllBehind(failure))
	default:
		failure := &Error{Code: codes.Unknown, Message: "The service gave a result that this client does not know."}
		m.failed(each, stream.address, failure, true, false)
	}
	m.goOn(each.namespace)
}

// broke: a stream has ended. What it owed an answer is sent again, or has failed as a call would.
func (m *many) broke(stream *lane, failure *Error) {
	delete(m.lanes, stream.address)
	if m.client.line.isClosed() { // whatever gRPC makes of that
		failure = closed()
	}
	namespaces := map[string]struct{}{}
	for _, each := range stream.underWay {
		m.queues[each.namespace].arrived(each)
		m.failed(each, stream.address, failure, stream.hasSent(each), true)
		namespaces[each.namespace] = struct{}{}
	}
	clear(stream.underWay)
	for namespace := range namespaces {
		m.goOn(namespace)
	}
}

// refusedWithAllBehind tells whether the service refuses all later changes of the namespace too, so that one that is sent again with them
// is not overtaken.
func refusedWithAllBehind(failure *Error) bool {
	return refusedByFollower(failure) || (failure.FromService && failure.Reason == shuttingDown)
}

// failed: an attempt of a change has failed. again tells whether it may be made again, if RetryPolicy agrees.
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

// goOn sends what may be sent of a namespace after an answer, and drops the queue of one of which nothing is left.
func (m *many) goOn(namespace string) {
	m.send(namespace)
	if m.queues[namespace].empty() {
		delete(m.queues, namespace)
	}
}

// look sends what has paused long enough, and ends streams that do not answer any more.
func (m *many) look() {
	for namespace := range m.queues {
		m.send(namespace)
	}
	limit, now := m.client.retries.AttemptTimeout, m.now()
	for _, stream := range m.lanes {
		if limit > 0 && m.client.retries.repeats() && len(stream.underWay) > 0 && now.Sub(stream.progress) > limit {
			stream.cancel(errSilent)
		}
	}
}

// giveUp settles all that is left.
func (m *many) giveUp(failure *Error) {
	for _, stream := range m.lanes {
		for _, each := range stream.underWay {
			each.sent, each.ambiguous = true, true // for all that is known here
		}
	}
	for _, each := range m.parcels {
		m.settle(each, ChangeResult{Err: each.verdict(m).of(failure)})
	}
}
