package topicpolicies

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// ReadOption says when a document is to be read; of several the last counts. Without any it is now, as far as the server knows.
type ReadOption func(*pb.GetPolicyRequest)

// AtLeastVersion waits until the answer has reached a version of the document, such as the one that an update returned, on any server.
// Where that is not reached in time, the error matches context.DeadlineExceeded. It goes with one scope only; an empty version is any.
func AtLeastVersion(version string) ReadOption {
	return func(request *pb.GetPolicyRequest) {
		request.ReadAt = nil
		if version != "" {
			request.ReadAt = &pb.GetPolicyRequest_AtLeastVersion{AtLeastVersion: version}
		}
	}
}

// AsOfTime reads the documents as they were at a time that is over, by the server's history.
func AsOfTime(moment time.Time) ReadOption {
	return func(request *pb.GetPolicyRequest) {
		request.ReadAt = &pb.GetPolicyRequest_AsOfTime{AsOfTime: timestamppb.New(moment)}
	}
}

// AsOfVersion reads the document that a version is, by the server's history. It goes with one scope only.
func AsOfVersion(version string) ReadOption {
	return func(request *pb.GetPolicyRequest) {
		request.ReadAt = &pb.GetPolicyRequest_AsOfVersion{AsOfVersion: version}
	}
}

// Get reads one document; an absent one is no error.
func (c *Client) Get(ctx context.Context, key Key, options ...ReadOption) (PolicyDocument, error) {
	documents, err := c.read(ctx, key.Topic, []Scope{key.full().Scope}, options)
	if err != nil {
		return PolicyDocument{}, err
	}
	return documents[0], nil
}

// GetBoth reads a topic's documents of both scopes at once.
func (c *Client) GetBoth(ctx context.Context, topic string, options ...ReadOption) (local, global PolicyDocument, err error) {
	documents, err := c.read(ctx, topic, []Scope{ScopeLocal, ScopeGlobal}, options)
	if err != nil {
		return PolicyDocument{}, PolicyDocument{}, err
	}
	return documents[0], documents[1], nil
}

// read gives one document for each of the scopes, in their order.
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

// EffectiveQuery asks what holds for a topic.
type EffectiveQuery struct {
	Topic string
	// View is EffectiveViewEnforced if it is not set.
	View EffectiveView
	// AtLeastLocalVersion and AtLeastGlobalVersion are versions that the topic's documents must have reached; empty: any.
	AtLeastLocalVersion  string
	AtLeastGlobalVersion string
}

// EffectivePolicy is what holds for a topic, and which level says so.
type EffectivePolicy struct {
	// Topic is the full name.
	Topic string
	// Policies is what holds. A field that is not set has no value on any level.
	Policies *TopicPolicies
	// Sources say where each value comes from, in the order of their paths.
	Sources []FieldSource
	// LocalVersion and GlobalVersion are the versions of the topic's documents.
	LocalVersion  string
	GlobalVersion string
	// Disabled tells whether topic policies are disabled for this topic, so that its documents do not count.
	Disabled bool
	// UnconfirmedSince is since when the server can't reach the change log, so that newer documents may hold; zero: it can.
	UnconfirmedSince time.Time
}

// FieldSource says where one effective value comes from.
type FieldSource struct {
	// Path is the field, or what in it has a source of its own: an entry of a map, a leaf of the offload policies.
	Path   string
	Source PolicySource
}

// Effective reads what holds for a topic, and which level says so.
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

// ServerInfo tells what the server is, and what its limits are.
func (c *Client) ServerInfo(ctx context.Context) (*ServerInfo, error) {
	return invoke(ctx, c, &pb.GetServerInfoRequest{}, c.stub.GetServerInfo)
}
