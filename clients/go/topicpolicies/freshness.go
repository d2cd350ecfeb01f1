package topicpolicies

import (
	"time"

	"google.golang.org/grpc/metadata"
)

// unconfirmedKey is the trailing metadata of an answer that the server could not confirm, because it can't reach the change log.
const unconfirmedKey = "topicpolicies-unconfirmed-since"

// unconfirmedSince is since when an answer can't be confirmed; zero if it could be, or nobody says what can be read.
func unconfirmedSince(trailer metadata.MD) time.Time {
	for _, said := range trailer.Get(unconfirmedKey) {
		if since, err := time.Parse(time.RFC3339Nano, said); err == nil {
			return since.UTC()
		}
	}
	return time.Time{}
}
