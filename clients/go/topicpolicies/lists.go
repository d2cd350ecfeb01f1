package topicpolicies

import (
	"context"
	"iter"

	"google.golang.org/protobuf/proto"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// ListPolicies returns the documents of a namespace, ordered by topic and scope. Pages are read as they are needed; an error ends the list.
func (c *Client) ListPolicies(ctx context.Context, request *pb.ListPoliciesRequest) iter.Seq2[*pb.PolicyDocument, error] {
	return pages(request.GetPageToken(), func(token string) ([]*pb.PolicyDocument, string, error) {
		page := proto.CloneOf(request)
		page.PageToken = token
		answer, err := c.TopicPoliciesServiceClient.ListPolicies(ctx, page)
		return answer.GetDocuments(), answer.GetNextPageToken(), err
	})
}

// ListHistory returns the history of a topic or a namespace. Pages are read as they are needed; an error ends the list. The generated call
// also says where events may be missing.
func (c *Client) ListHistory(ctx context.Context, request *pb.ListHistoryRequest) iter.Seq2[*pb.HistoryEntry, error] {
	return pages(request.GetPageToken(), func(token string) ([]*pb.HistoryEntry, string, error) {
		page := proto.CloneOf(request)
		page.PageToken = token
		answer, err := c.PolicyHistoryServiceClient.ListHistory(ctx, page)
		return answer.GetEntries(), answer.GetNextPageToken(), err
	})
}

func pages[Element any](token string, read func(token string) ([]Element, string, error)) iter.Seq2[Element, error] {
	return func(yield func(Element, error) bool) {
		for next := token; ; {
			elements, following, err := read(next)
			if err != nil {
				var none Element
				yield(none, err)
				return
			}
			for _, element := range elements {
				if !yield(element, nil) {
					return
				}
			}
			if next = following; next == "" {
				return
			}
		}
	}
}
