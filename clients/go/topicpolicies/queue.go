package topicpolicies

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// parcel is one change of UpdateMany, from when it is read until it is settled.
type parcel struct {
	change     *pb.PolicyChangeRequest
	namespace  string
	requestID  string // empty for a dry run
	size       int
	unsendable *Error    // why the change can't be sent at all
	deadline   time.Time // set when the change is first sent
	repeats    repeats
	sent       bool // in any attempt
	ambiguous  bool
	place      int // in the order of its lane
}

// mostBytesOfChange is the maximum size of a change: larger than any document that the service accepts. A larger one could make a message
// too large for the service, which ends the stream, and with it the other changes.
const mostBytesOfChange = 2 << 20

// framing is the maximum number of bytes that a change adds to a message besides its request.
const framing = 16

func (u Update) parcel() *parcel {
	request := u.request()
	return newParcel(u.Key, request, &pb.PolicyChangeRequest{Change: &pb.PolicyChangeRequest_Update{Update: request}})
}

func (d Deletion) parcel() *parcel {
	request := d.request()
	return newParcel(d.Key, request, &pb.PolicyChangeRequest{Change: &pb.PolicyChangeRequest_Delete{Delete: request}})
}

func newParcel(key Key, request proto.Message, change *pb.PolicyChangeRequest) *parcel {
	_, requestID, _ := changeOf(request)
	each := &parcel{change: change, namespace: namespaceOf(key.Topic), requestID: requestID, size: proto.Size(request) + framing}
	if each.unsendable = malformed(request); each.unsendable == nil && each.size > mostBytesOfChange {
		each.unsendable = invalid("policies", "DOCUMENT_TOO_LARGE", "The change is larger than any document may be.")
	}
	return each
}

func (p *parcel) verdict(m *many) verdict {
	return verdict{p.requestID, p.sent, p.ambiguous, m.ctx.Err(), m.client.target}
}

// queue is the changes of one namespace, in their order: changes that have to be sent again go first, and only when no change of the
// namespace is in flight.
type queue struct {
	address  string // the address of the changes in flight
	inFlight map[*parcel]struct{}
	again    []*parcel
	until    time.Time // pauses the namespace while a change has to be sent again
	waiting  []*parcel
}

// repeat puts back a change that has to be sent again, not before a time.
func (q *queue) repeat(each *parcel, at time.Time) {
	q.again = append(q.again, each)
	if at.After(q.until) {
		q.until = at
	}
}

// ready reports whether something may be sent.
func (q *queue) ready(now time.Time) bool {
	if len(q.again) > 0 {
		if len(q.inFlight) > 0 || now.Before(q.until) {
			return false
		}
		slices.SortFunc(q.again, func(a, b *parcel) int { return int(a.change.GetSequence()) - int(b.change.GetSequence()) })
		q.waiting, q.again = append(q.again, q.waiting...), nil
	}
	return len(q.waiting) > 0
}

// moveTo reports whether the namespace's changes may go to an address now: not while some are in flight to another one.
func (q *queue) moveTo(address string) bool {
	if address != q.address && len(q.inFlight) > 0 {
		return false
	}
	q.address = address
	return true
}

// depart returns all waiting changes, which are in flight from now on. A change that departs for the first time gets a deadline.
func (q *queue) depart(deadline time.Time) []*parcel {
	for _, each := range q.waiting {
		if each.deadline.IsZero() {
			each.deadline = deadline
		}
		q.inFlight[each] = struct{}{}
	}
	departed := q.waiting
	q.waiting = nil
	return departed
}

// arrived records that a change is no longer in flight.
func (q *queue) arrived(each *parcel) { delete(q.inFlight, each) }

func (q *queue) empty() bool { return len(q.inFlight)+len(q.again)+len(q.waiting) == 0 }
