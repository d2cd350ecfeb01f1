package topicpolicies

import "time"

// part is the copy of one namespace in a cache.
type part struct {
	documents map[Key]PolicyDocument
	// absent are the keys in documents that do not exist: kept for their versions, until a bookmark says that no older event can follow.
	absent map[Key]struct{}
	// fresh are the keys that the present snapshot has sent so far; nil outside a snapshot.
	fresh     map[Key]struct{}
	synced    bool
	confirmed time.Time
	state     NamespaceState
	reason    string
	message   string
}

func newPart() *part {
	return &part{documents: map[Key]PolicyDocument{}, absent: map[Key]struct{}{}, fresh: map[Key]struct{}{}}
}

// take stores a document and reports true, unless the stored one is as new. Versions from before and after a reset are not compared: the
// first event of a key in a snapshot is always stored.
func (p *part) take(document PolicyDocument) bool {
	before, comparable := p.documents[document.Key]
	if p.fresh != nil {
		_, listed := p.fresh[document.Key]
		comparable = comparable && listed
		p.fresh[document.Key] = struct{}{}
	}
	if comparable && document.Version <= before.Version {
		return false
	}
	p.documents[document.Key] = document
	if document.Exists() {
		delete(p.absent, document.Key)
	} else {
		p.absent[document.Key] = struct{}{}
	}
	return true
}

// reset begins to record which documents are sent again.
func (p *part) reset() { p.fresh = map[Key]struct{}{} }

// complete removes the documents that the snapshot did not have, and returns their keys.
func (p *part) complete() []Key {
	var removed []Key
	if p.fresh != nil {
		for key := range p.documents {
			if _, listed := p.fresh[key]; !listed {
				delete(p.documents, key)
				delete(p.absent, key)
				removed = append(removed, key)
			}
		}
	}
	p.fresh, p.synced = nil, true
	if p.state == stateUnset {
		p.state, p.reason, p.message = NamespaceStateReady, "", ""
	}
	return removed
}

// confirm records that the copy is complete up to a time, by the local clock.
func (p *part) confirm(asOf time.Time) {
	p.confirmed = asOf
	for key := range p.absent {
		delete(p.documents, key)
	}
	clear(p.absent)
}

// staleness returns how long ago the copy was confirmed to be complete; Forever if it never was.
func (p *part) staleness(now time.Time) time.Duration {
	if !p.synced {
		return Forever
	}
	return now.Sub(p.confirmed)
}
