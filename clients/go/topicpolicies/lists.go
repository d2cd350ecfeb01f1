package topicpolicies

import (
	"context"
	"iter"
	"time"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// List is the documents of a namespace, read page by page, for use by one goroutine.
type List struct {
	client    *Client
	ctx       context.Context
	namespace string
	scopes    []Scope
	token     *ResumeToken
	since     time.Time
}

// List returns the documents of a namespace, tenant/namespace; without scopes, of both. Pages are read when All is iterated.
func (c *Client) List(ctx context.Context, namespace string, scopes ...Scope) *List {
	return &List{client: c, ctx: ctx, namespace: namespace, scopes: scopes}
}

// All returns an iterator over the documents, ordered by topic and scope. It ends after the first error.
func (l *List) All() iter.Seq2[PolicyDocument, error] {
	return func(yield func(PolicyDocument, error) bool) {
		for page := ""; ; {
			request := &pb.ListPoliciesRequest{Namespace: l.namespace, Scopes: l.scopes, PageToken: page}
			answer, since, err := ask(l.ctx, l.client, request, l.client.stub.ListPolicies)
			if err != nil {
				yield(PolicyDocument{}, err)
				return
			}
			l.since = since
			if page == "" && answer.GetToken() != nil {
				l.token = &ResumeToken{map[string]WatchToken{l.namespace: *tokenOf(answer.GetToken())}}
			}
			for _, document := range answer.GetDocuments() {
				if knownScope(document.GetScope()) && !yield(readDocument(document, since), nil) {
					return
				}
			}
			if page = answer.GetNextPageToken(); page == "" {
				return
			}
		}
	}
}

// Token returns the place in the change log at which the first page was read; nil before that. A watch of the namespace that resumes from
// here misses nothing.
func (l *List) Token() *ResumeToken { return l.token }

// UnconfirmedSince returns the time since which the server can't reach the change log, according to the last page that was read; zero if
// the server reached the log. The documents carry the same time.
func (l *List) UnconfirmedSince() time.Time { return l.since }
