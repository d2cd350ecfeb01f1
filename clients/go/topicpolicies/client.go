package topicpolicies

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// Client changes, reads and follows topic policies. It is safe for concurrent use. Close it when it is no longer needed.
//
// Every call returns an *Error if it fails. If the context ended the call, the error matches the context's error too (errors.Is).
type Client struct {
	line    *line
	stub    pb.TopicPoliciesServiceClient
	target  string
	timeout time.Duration
	retries RetryPolicy
	pauses  RetryPolicy
}

// New creates a client of the service at a target: its address in gRPC's syntax, or the addresses of several sidecars, separated by commas;
// if one can't be reached, the client moves on to the next. An empty target is DefaultTarget. The first call connects.
//
// If one sidecar leads a namespace, changes of that namespace go to it, whatever its address, with the same TLS and token; reads and
// watches stay at the client's own addresses.
func New(target string, options ...Option) (*Client, error) {
	if target == "" {
		target = DefaultTarget
	}
	chosen := settings{timeout: 30 * time.Second, retries: DefaultRetries, pauses: watchPauses}
	for _, option := range options {
		option(&chosen)
	}
	if err := checkActor(chosen.actor); err != nil {
		return nil, err
	}
	if err := chosen.retries.check(); err != nil {
		return nil, err
	}
	line, err := newLine(addressesOf(target), chosen)
	if err != nil {
		return nil, err
	}
	return &Client{
		line:    line,
		stub:    pb.NewTopicPoliciesServiceClient(line),
		target:  target,
		timeout: chosen.timeout,
		retries: chosen.retries,
		pauses:  chosen.pauses,
	}, nil
}

// Close ends all calls and watches, and closes the connections.
func (c *Client) Close() error { return c.line.close() }

// Stub returns the generated client on the same connections, with the same metadata, for calls that this package does not wrap. Its unary
// calls are retried as RetryPolicy says, a change that was sent only if it has a request id. Its streams go where reads go.
func (c *Client) Stub() pb.TopicPoliciesServiceClient { return c.stub }

// invoke makes one call.
func invoke[Request, Answer any](
	ctx context.Context, c *Client, request *Request,
	method func(context.Context, *Request, ...grpc.CallOption) (*Answer, error),
) (*Answer, error) {
	answer, _, err := ask(ctx, c, request, method)
	return answer, err
}

// ask makes one call. It also returns the time since which the server can't confirm its answers; zero if this one was confirmed.
func ask[Request, Answer any](
	ctx context.Context, c *Client, request *Request,
	method func(context.Context, *Request, ...grpc.CallOption) (*Answer, error),
) (*Answer, time.Time, error) {
	noted := &call{}
	var trailer metadata.MD
	answer, err := method(context.WithValue(ctx, callKey{}, noted), request, grpc.Trailer(&trailer))
	if err == nil {
		return answer, unconfirmedSince(trailer), nil
	}
	if malformed := malformed(request); malformed != nil {
		return nil, time.Time{}, malformed // gRPC reports it as INTERNAL, as it does a broken answer
	}
	_, requestID, _ := changeOf(request)
	sent, ambiguous := noted.state()
	return nil, time.Time{}, verdict{requestID, sent, ambiguous, ctx.Err(), c.target}.of(fromError(err))
}

func checkActor(actor string) error {
	for i := range len(actor) {
		if b := actor[i]; b < ' ' || b > '~' || (b == ' ' && (i == 0 || i == len(actor)-1)) {
			return invalid("actor", "MALFORMED_ACTOR", "A client's actor is sent as metadata: printable ASCII, without blanks around it.")
		}
	}
	return nil
}
