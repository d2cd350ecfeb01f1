// Package topicpolicies is the client of the topic policies sidecar for Apache Pulsar: it changes, reads and follows topic policies.
//
// A Client has every call of the service, as generated from its definitions (the package topicpolicies/v1, which says what each field means),
// and adds iterators for lists and watches, edits, batches of any size, and a cache.
package topicpolicies

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	_ "embed"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/protobuf/proto"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// serviceConfig says which calls gRPC repeats: clients/service_config.json, the same for all languages.
//
//go:embed service_config.json
var serviceConfig string

// maxRequest is the size of the largest request that gRPC keeps to repeat it, in bytes: more than a batch.
const maxRequest = 8 << 20

// maxMessage is the size of the largest answer in bytes: effective policies can be larger than the 4 MiB that gRPC receives by default.
const maxMessage = 64 << 20

// Client is a client of the service. It is safe for concurrent use. Close it when it is no longer needed.
//
// Its calls are those of the service. ListPolicies and ListHistory read page after page, WatchPolicies and WatchHistory resume; the generated
// calls of these names are in the embedded clients. gRPC repeats calls that fail with UNAVAILABLE. A change without a request id gets one, so
// that nothing is done twice. Every error is an *Error.
type Client struct {
	pb.TopicPoliciesServiceClient
	pb.PolicyHistoryServiceClient
	settings   settings
	connection *grpc.ClientConn
}

// Option is an option of a client.
type Option func(*settings)

type settings struct {
	actor   string
	timeout time.Duration
	tls     *tls.Config
	plain   bool
	token   func(context.Context) (string, error)
	dial    []grpc.DialOption
}

// WithActor sets the actor of changes that name none. It is kept in the log with each change.
func WithActor(actor string) Option { return func(s *settings) { s.actor = actor } }

// WithTimeout sets how long a call may take, repeats included, if its context has no deadline. The default is 30 seconds. Watches have no
// limit.
func WithTimeout(timeout time.Duration) Option { return func(s *settings) { s.timeout = timeout } }

// WithTLS sets the configuration of TLS: certificate authorities, a client certificate, a server name. Without this option and WithoutTLS,
// TLS with the system's authorities is used, unless all addresses are on this machine.
func WithTLS(config *tls.Config) Option { return func(s *settings) { s.tls, s.plain = config, false } }

// WithoutTLS turns TLS off: everything is sent in the clear.
func WithoutTLS() Option { return func(s *settings) { s.tls, s.plain = nil, true } }

// WithToken sends a bearer token with every call. The function is called for every call, so the token may change; if it fails, so does the
// call. A token is never sent without TLS to another machine.
func WithToken(token func(context.Context) (string, error)) Option {
	return func(s *settings) { s.token = token }
}

// TokenFile returns a function for WithToken that reads the token from a file, for every call.
func TokenFile(path string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		content, err := os.ReadFile(path)
		return strings.TrimSpace(string(content)), err
	}
}

// WithDialOptions passes further options to gRPC: interceptors, stats handlers. They override the client's own.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, options...) }
}

// New creates a client of the service at a target: its address in gRPC's syntax, such as "localhost:6680", or those of several sidecars,
// separated by commas; the first that can be reached is used. The first call connects.
func New(target string, options ...Option) (*Client, error) {
	chosen := settings{timeout: 30 * time.Second}
	for _, option := range options {
		option(&chosen)
	}
	connection, err := chosen.connect(target)
	if err != nil {
		return nil, err
	}
	return &Client{
		pb.NewTopicPoliciesServiceClient(connection), pb.NewPolicyHistoryServiceClient(connection), chosen, connection,
	}, nil
}

// Close ends all calls and watches, and closes the connection.
func (c *Client) Close() error { return c.connection.Close() }

func (s *settings) connect(target string) (*grpc.ClientConn, error) {
	addresses := strings.Split(strings.TrimPrefix(target, "ipv4:"), ",") // the list that other languages' gRPC knows
	local := true
	for i, address := range addresses {
		addresses[i] = strings.TrimSpace(address)
		local = local && isLocal(addresses[i])
	}
	transport := credentials.NewTLS(s.tls)
	if s.plain || (s.tls == nil && local) {
		transport = insecure.NewCredentials()
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDisableServiceConfig(), // of DNS
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxRetryRPCBufferSize(maxRequest)),
		grpc.WithChainUnaryInterceptor(s.call),
	}
	if s.token != nil {
		options = append(options, grpc.WithPerRPCCredentials(bearer{s.token, !local}))
	}
	if len(addresses) > 1 || strings.HasPrefix(target, "ipv4:") {
		all := manual.NewBuilderWithScheme("sidecars")
		state := resolver.State{}
		for _, address := range addresses {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, fmt.Errorf("topicpolicies: one of several addresses: %w", err)
			}
			state.Addresses = append(state.Addresses, resolver.Address{Addr: address, ServerName: host})
		}
		all.InitialState(state)
		target, options = "sidecars:///all", append(options, grpc.WithResolvers(all))
	}
	return grpc.NewClient(target, append(options, s.dial...)...)
}

// call makes one call: with a deadline, with the ids and the actor of its changes, and with this package's errors.
func (s *settings) call(
	ctx context.Context, method string, request, answer any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	request, change, requestID := s.identified(request)
	if err := ctx.Err(); err != nil {
		return newError(err, false, requestID) // nothing is sent
	}
	if err := invoke(ctx, method, request, answer, connection, options...); err != nil {
		return newError(err, change, requestID)
	}
	return nil
}

// limited returns a context with the client's time limit, unless it has a deadline.
func (s *settings) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has || s.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.timeout)
}

// identified returns a request in which each change has a request id and an actor, whether it can change something, and the id of a single one.
func (s *settings) identified(request any) (_ any, change bool, requestID string) {
	switch each := request.(type) {
	case *pb.UpdatePolicyRequest:
		each = proto.CloneOf(each)
		s.identify(&each.RequestId, &each.Actor)
		return each, !each.ValidateOnly, each.RequestId
	case *pb.DeletePolicyRequest:
		each = proto.CloneOf(each)
		s.identify(&each.RequestId, &each.Actor)
		return each, !each.ValidateOnly, each.RequestId
	case *pb.BatchUpdatePoliciesRequest:
		each = proto.CloneOf(each)
		for _, one := range each.Changes {
			if update := one.GetUpdate(); update != nil {
				s.identify(&update.RequestId, &update.Actor)
			} else if deletion := one.GetDelete(); deletion != nil {
				s.identify(&deletion.RequestId, &deletion.Actor)
			}
		}
		return each, true, ""
	}
	return request, false, ""
}

func (s *settings) identify(requestID, actor *string) {
	if *requestID == "" {
		var id [16]byte
		rand.Read(id[:]) //nolint:errcheck // it never fails
		*requestID = hex.EncodeToString(id[:])
	}
	if *actor == "" {
		*actor = s.actor
	}
}

// bearer sends a token, never in the clear to another machine.
type bearer struct {
	token  func(context.Context) (string, error)
	secure bool
}

// GetRequestMetadata returns the metadata of one call.
func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.token(ctx)
	if err != nil {
		return nil, fmt.Errorf("there is no token: %w", err)
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity reports whether gRPC must refuse a connection without TLS.
func (b bearer) RequireTransportSecurity() bool { return b.secure }

// isLocal reports whether an address is on this machine: a loopback address, localhost or a Unix socket.
func isLocal(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	address = address[strings.LastIndex(address, "/")+1:] // without a scheme, such as dns:///
	host, _, err := net.SplitHostPort(strings.TrimPrefix(address, "dns:"))
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || (ip != nil && ip.IsLoopback()))
}
