package topicpolicies

import (
	"encoding/json"
	"maps"
	"slices"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// WatchToken is a place in the change log of one namespace. It is opaque, except that the positions of one partition compare as strings in
// log order.
type WatchToken struct {
	// Log is the log's identity; places in different logs can't be compared.
	Log string `json:"log"`
	// Positions is the position per partition; empty where nothing was read.
	Positions []string `json:"positions"`
	// LeftOut identifies the topics that were left out because their policies are disabled; empty if there were none.
	LeftOut string `json:"left_out"`
}

func tokenOf(m *pb.WatchToken) *WatchToken {
	return &WatchToken{m.GetLog(), slices.Clone(m.GetPositions()), m.GetLeftOut()}
}

func (t *WatchToken) message() *pb.WatchToken {
	return &pb.WatchToken{Log: t.Log, Positions: slices.Clone(t.Positions), LeftOut: t.LeftOut}
}

// at returns the position in a partition; empty if nothing was read there.
func (t *WatchToken) at(partition int32) string {
	if partition < 0 || int(partition) >= len(t.Positions) {
		return ""
	}
	return t.Positions[partition]
}

// maxPartitions is the maximum number of positions of a token.
const maxPartitions = 1024

// folded returns the token after an event at this position: the greater of the two positions is kept.
func (t *WatchToken) folded(partition int32, position string) *WatchToken {
	if t == nil || position <= t.at(partition) || partition < 0 || partition >= maxPartitions {
		return t
	}
	positions := make([]string, max(len(t.Positions), int(partition)+1))
	copy(positions, t.Positions)
	positions[partition] = position
	return &WatchToken{t.Log, positions, t.LeftOut}
}

// ResumeToken is the place of a watch in each of its namespaces. A namespace without an entry begins with a snapshot.
type ResumeToken struct {
	// Namespaces are the places by tenant/namespace.
	Namespaces map[string]WatchToken `json:"namespaces"`
}

// String returns the token as one line of JSON, to be saved and passed to ParseResumeToken. The format is the same in all clients.
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
		panic(err) // strings can always be encoded
	}
	return string(written)
}

// ParseResumeToken parses the output of String. For any other text it returns ErrInvalidArgument with the reason MALFORMED_TOKEN.
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
