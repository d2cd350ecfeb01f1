package topicpolicies

import (
	"time"

	"google.golang.org/grpc/metadata"
)

// unconfirmedKey is the trailing metadata of an answer that the server could not confirm, because it can't reach the change log.
const unconfirmedKey = "topicpolicies-unconfirmed-since"

// unconfirmedSince returns the time since which an answer can't be confirmed; zero if it was confirmed, or the metadata can't be parsed.
func unconfirmedSince(trailer metadata.MD) time.Time {
	for _, value := range trailer.Get(unconfirmedKey) {
		if since, err := time.Parse(time.RFC3339Nano, value); err == nil {
			return since.UTC()
		}
	}
	return time.Time{}
}
