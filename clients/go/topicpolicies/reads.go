package topicpolicies

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// ReadOption says when a document is read; of several, the last one counts. The default is now, as far as the server knows.
type ReadOption func(*pb.GetPolicyRequest)

// AtLeastVersion waits until the server that answers has reached a version of the document, such as the one that an update returned. If the
// version is not reached in time, the error matches context.DeadlineExceeded. Use it with one scope only; an empty version means any.
func AtLeastVersion(version string) ReadOption {
	return func(request *pb.GetPolicyRequest) {
		request.ReadAt = nil
		if version != "" {
			request.ReadAt = &pb.GetPolicyRequest_AtLeastVersion{AtLeastVersion: version}
		}
	}
}

// AsOfTime reads the documents as they were at a time in the past, from the server's history.
func AsOfTime(moment time.Time) ReadOption {
	return func(request *pb.GetPolicyRequest) {
		request.ReadAt = &pb.GetPolicyRequest_AsOfTime{AsOfTime: timestamppb.New(moment)}
	}
}

// AsOfVersion reads the document of a version, from the server's history. Use it with one scope only.
func AsOfVersion(version string) ReadOption {
	return func(request *pb.GetPolicyRequest) {
		request.ReadAt = &pb.GetPolicyRequest_AsOfVersion{AsOfVersion: version}
	}
}

// Get reads one document. If there is none, the result has no policies; that is no error.
func (c *Client) Get(ctx context.Context, key Key, options ...ReadOption) (PolicyDocument, error) {
	documents, err := c.read(ctx, key.Topic, []Scope{key.full().Scope}, options)
	if err != nil {
		return PolicyDocument{}, err
	}
	return documents[0], nil
}

// GetBoth reads the documents of both scopes of a topic in one call.
func (c *Client) GetBoth(ctx context.Context, topic string, options ...ReadOption) (local, global PolicyDocument, err error) {
	documents, err := c.read(ctx, topic, []Scope{ScopeLocal, ScopeGlobal}, options)
	if err != nil {
		return PolicyDocument{}, PolicyDocument{}, err
	}
	return documents[0], documents[1], nil
}

// read returns one document for each of the scopes, in their order.
func (c *Client) read(ctx context.Context, topic string, scopes []Scope, options []ReadOption) ([]PolicyDocument, error) {
	request := &pb.GetPolicyRequest{Topic: topic, Scopes: scopes}
	for _, option := range options {
		option(request)
	}
	answer, since, err := ask(ctx, c, request, c.stub.GetPolicy)
	if err != nil {
		return nil, err
	}
	documents := make([]PolicyDocument, 0, len(scopes))
	for _, scope := range scopes {
		for _, document := range answer.GetDocuments() {
			if document.GetScope() == scope {
				documents = append(documents, readDocument(document, since))
				break
			}
		}
	}
	if len(documents) != len(scopes) {
		return nil, &Error{Code: codes.Internal, Message: fmt.Sprintf("The service answered for %d of %d scopes.", len(documents), len(scopes))}
	}
	return documents, nil
}

// EffectiveQuery selects the effective policies of a topic.
type EffectiveQuery struct {
	Topic string
	// View is EffectiveViewEnforced if it is not set.
	View EffectiveView
	// AtLeastLocalVersion and AtLeastGlobalVersion are versions that the topic's documents must have reached; empty: any.
	AtLeastLocalVersion  string
	AtLeastGlobalVersion string
}

// EffectivePolicy is the effective policies of a topic, and the level that sets each value.
type EffectivePolicy struct {
	// Topic is the full name.
	Topic string
	// Policies has the effective values. A field that is not set has no value on any level.
	Policies *TopicPolicies
	// Sources has the level that sets each value, in the order of the paths.
	Sources []FieldSource
	// LocalVersion and GlobalVersion are the versions of the topic's documents.
	LocalVersion  string
	GlobalVersion string
	// Disabled reports whether topic policies are disabled for this topic, so that its documents have no effect.
	Disabled bool
	// UnconfirmedSince is the time since which the server can't reach the change log, so that there may be newer documents; zero if the
	// server reached the log.
	UnconfirmedSince time.Time
}

// FieldSource is the level that sets one effective value.
type FieldSource struct {
	// Path is the field, or the part of it that has a source of its own: an entry of a map, a leaf of the offload policies.
	Path   string
	Source PolicySource
}

// Effective reads the effective policies of a topic, and the level that sets each value.
func (c *Client) Effective(ctx context.Context, query EffectiveQuery) (EffectivePolicy, error) {
	request := &pb.GetEffectivePolicyRequest{
		Topic:                query.Topic,
		View:                 query.View,
		AtLeastLocalVersion:  query.AtLeastLocalVersion,
		AtLeastGlobalVersion: query.AtLeastGlobalVersion,
	}
	answer, since, err := ask(ctx, c, request, c.stub.GetEffectivePolicy)
	if err != nil {
		return EffectivePolicy{}, err
	}
	effective := EffectivePolicy{
		Topic:         answer.GetTopic(),
		Policies:      answer.GetPolicies(),
		Sources:       make([]FieldSource, 0, len(answer.GetSources())),
		LocalVersion:  answer.GetLocalVersion(),
		GlobalVersion: answer.GetGlobalVersion(),
		Disabled:      answer.GetDisabled(),

		UnconfirmedSince: since,
	}
	if effective.Policies == nil {
		effective.Policies = &TopicPolicies{}
	}
	for _, each := range answer.GetSources() {
		effective.Sources = append(effective.Sources, FieldSource{each.GetPath(), each.GetSource()})
	}
	return effective, nil
}

// ServerInfo reads the server's version, configuration and limits.
func (c *Client) ServerInfo(ctx context.Context) (*ServerInfo, error) {
	return invoke(ctx, c, &pb.GetServerInfoRequest{}, c.stub.GetServerInfo)
}
