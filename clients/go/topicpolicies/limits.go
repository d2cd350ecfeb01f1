package topicpolicies

import (
	"context"

	"google.golang.org/grpc/codes"
)

// look sends changes whose pause is over, gives up those whose time is over, and ends streams that no longer answer.
func (m *many) look() {
	limit, now := m.client.retries.AttemptTimeout, m.now()
	for _, stream := range m.lanes {
		for _, each := range stream.inFlight {
			if now.After(each.deadline) {
				m.late(stream, each)
			}
		}
	}
	for namespace := range m.queues {
		m.sendNext(namespace)
	}
	for _, stream := range m.lanes {
		if limit > 0 && m.client.retries.repeats() && len(stream.inFlight) > 0 && now.Sub(stream.progress) > limit {
			stream.cancel(errSilent)
		}
	}
}

// late settles a change whose time is over, however well its stream answers others.
func (m *many) late(stream *lane, each *parcel) {
	sent := stream.withdraw(each)
	m.queues[each.namespace].arrived(each)
	each.sent, each.ambiguous = each.sent || sent, each.ambiguous || sent
	failure := &Error{Code: codes.DeadlineExceeded, Message: "The change was not answered in time.", kind: context.DeadlineExceeded}
	m.settle(each, ChangeResult{Err: each.verdict(m).of(failure)})
}

// giveUp settles all changes that are left.
func (m *many) giveUp(failure *Error) {
	for _, stream := range m.lanes {
		for _, each := range stream.inFlight {
			if stream.hasSent(each) {
				each.sent, each.ambiguous = true, true // it may have been made, as far as is known here
			}
		}
	}
	for _, each := range m.parcels {
		m.settle(each, ChangeResult{Err: each.verdict(m).of(failure)})
	}
}
