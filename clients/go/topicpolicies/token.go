package topicpolicies

import (
	"encoding/json"
	"maps"
	"slices"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// WatchToken is a place in one namespace's change log. It is opaque but for one thing: of one partition, string order is log order.
type WatchToken struct {
	// Log is the log's identity; places of different logs have nothing to do with each other.
	Log string `json:"log"`
	// Positions is the position per partition; empty where nothing was read.
	Positions []string `json:"positions"`
	// LeftOut names the topics that were left out because their policies are disabled; empty: none were.
	LeftOut string `json:"left_out"`
}

func tokenOf(m *pb.WatchToken) *WatchToken {
	return &WatchToken{m.GetLog(), slices.Clone(m.GetPositions()), m.GetLeftOut()}
}

func (t *WatchToken) message() *pb.WatchToken {
	return &pb.WatchToken{Log: t.Log, Positions: slices.Clone(t.Positions), LeftOut: t.LeftOut}
}

// at is the position in a partition; empty if nothing was read there.
func (t *WatchToken) at(partition int32) string {
	if partition < 0 || int(partition) >= len(t.Positions) {
		return ""
	}
	return t.Positions[partition]
}

// maxPartitions is the most positions that a token has.
const maxPartitions = 1024

// folded is the token after a change at this position: the greater of the two counts.
func (t *WatchToken) folded(partition int32, position string) *WatchToken {
	if t == nil || position <= t.at(partition) || partition < 0 || partition >= maxPartitions {
		return t
	}
	positions := make([]string, max(len(t.Positions), int(partition)+1))
	copy(positions, t.Positions)
	positions[partition] = position
	return &WatchToken{t.Log, positions, t.LeftOut}
}

// ResumeToken is where a watch is in each of its namespaces. A namespace that is missing begins with a snapshot.
type ResumeToken struct {
	// Namespaces are by tenant/namespace.
	Namespaces map[string]WatchToken `json:"namespaces"`
}

// String is the token as one line of JSON, to be kept and given to ParseResumeToken. It is the same in all languages.
func (t ResumeToken) String() string {
	places := map[string]WatchToken{}
	maps.Copy(places, t.Namespaces)
	for name, place := range places {
		if place.Positions == nil {
			place.Positions = []string{}
			places[name] = place
		}
	}
	written, err := json.Marshal(ResumeToken{places})
	if err != nil {
		panic(err) // of strings only
	}
	return string(written)
}

// ParseResumeToken reads what String gave. Anything else is ErrInvalidArgument, reason MALFORMED_TOKEN.
func ParseResumeToken(text string) (ResumeToken, error) {
	var read struct {
		Namespaces map[string]struct {
			Log       *string  `json:"log"`
			Positions []string `json:"positions"`
			LeftOut   string   `json:"left_out"`
		} `json:"namespaces"`
	}
	malformed := invalid("resume", "MALFORMED_TOKEN", "This is not a saved watch token. Begin without one: the watch starts with a snapshot.")
	if json.Unmarshal([]byte(text), &read) != nil || read.Namespaces == nil {
		return ResumeToken{}, malformed
	}
	token := ResumeToken{map[string]WatchToken{}}
	for name, place := range read.Namespaces {
		if place.Log == nil || place.Positions == nil {
			return ResumeToken{}, malformed
		}
		token.Namespaces[name] = WatchToken{*place.Log, place.Positions, place.LeftOut}
	}
	return token, nil
}
