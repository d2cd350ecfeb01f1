package topicpolicies

import "time"

// part is what a cache has of one namespace.
type part struct {
	documents map[Key]PolicyDocument
	// absent are those among them that do not exist: kept for their versions, until a bookmark says that nothing older comes any more.
	absent map[Key]struct{}
	// fresh are those that the present snapshot has told; nil outside of one.
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

// take takes a document over, unless what is there is as new. Versions from before and after a reset are not compared: what a snapshot
// tells of a key first is believed.
func (p *part) take(document PolicyDocument) bool {
	before, comparable := p.documents[document.Key]
	if p.fresh != nil {
		_, told := p.fresh[document.Key]
		comparable = comparable && told
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

// reset begins to note what is told anew.
func (p *part) reset() { p.fresh = map[Key]struct{}{} }

// complete drops what the snapshot did not tell, and gives its keys.
func (p *part) complete() []Key {
	var gone []Key
	if p.fresh != nil {
		for key := range p.documents {
			if _, told := p.fresh[key]; !told {
				delete(p.documents, key)
				delete(p.absent, key)
				gone = append(gone, key)
			}
		}
	}
	p.fresh, p.synced = nil, true
	if p.state == stateUnset {
		p.state, p.reason, p.message = NamespaceStateReady, "", ""
	}
	return gone
}

// confirm takes note that the copy has everything up to a time, by the local clock.
func (p *part) confirm(asOf time.Time) {
	p.confirmed = asOf
	for key := range p.absent {
		delete(p.documents, key)
	}
	clear(p.absent)
}

// staleness is how long ago that was; Forever if there never was such a time.
func (p *part) staleness(now time.Time) time.Duration {
	if !p.synced {
		return Forever
	}
	return now.Sub(p.confirmed)
}
