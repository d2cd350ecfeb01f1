package topicpolicies

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// DefaultTarget is where the service listens unless it was told otherwise.
const DefaultTarget = "localhost:6680"

// actorKey is the metadata that says who asks for a change.
const actorKey = "topicpolicies-actor"

const maxMessage = 64 << 20

// Option says how a client works.
type Option func(*settings)

type settings struct {
	actor   string
	timeout time.Duration
	retries RetryPolicy
	pauses  RetryPolicy // of watches
	tls     *tls.Config
	plain   bool
	token   func(context.Context) (string, error)
	dial    []grpc.DialOption
}

// WithActor says who asks for the changes that do not say so themselves; it is written into the log beside them.
func WithActor(actor string) Option { return func(s *settings) { s.actor = actor } }

// WithTimeout says how long a call may take in all, its repeats included, where its context has no deadline. Otherwise it is 30 seconds.
func WithTimeout(timeout time.Duration) Option { return func(s *settings) { s.timeout = timeout } }

// WithRetries says how calls are repeated. Otherwise it is DefaultRetries.
func WithRetries(policy RetryPolicy) Option { return func(s *settings) { s.retries = policy } }

// WithTLS uses TLS with this configuration: authorities, an own certificate, a server's name. Without this option and WithoutTLS, TLS with
// the system's authorities is used, unless all of the target is on this machine.
func WithTLS(config *tls.Config) Option { return func(s *settings) { s.tls, s.plain = config, false } }

// WithoutTLS sends everything in the clear.
func WithoutTLS() Option { return func(s *settings) { s.tls, s.plain = nil, true } }

// WithToken sends a bearer token with every call (metadata "authorization"). It is asked for each time, so it may be renewed.
func WithToken(token func(context.Context) (string, error)) Option {
	return func(s *settings) { s.token = token }
}

// WithDialOptions gives further options to gRPC, for every connection; they come last and win. A default service config among them replaces
// the one by which gRPC repeats reads.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, options...) }
}

// secured tells whether connections use TLS: those to the addresses that were given, and those to wherever they send the client.
func (s *settings) secured(addresses []string) bool {
	elsewhere := slices.ContainsFunc(addresses, func(address string) bool { return !isLocal(address) })
	return s.tls != nil || (!s.plain && elsewhere)
}

// connect makes the connection to an address, which is opened by the first call. stays tells whether gRPC is to repeat reads at that
// address.
func (s *settings) connect(address string, secured, stays bool) (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if secured {
		transport = credentials.NewTLS(s.tls)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithStatsHandler(calls{}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// A connection that died without a word is noticed.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	}
	// To gRPC an xds target is nothing but its service config, which has repeats of its own.
	xds := strings.HasPrefix(address, "xds:")
	if !xds {
		options = append(options, grpc.WithDisableServiceConfig()) // what DNS says
	}
	if stays && !xds {
		options = append(options, grpc.WithDefaultServiceConfig(s.retries.serviceConfig()))
	} else {
		options = append(options, grpc.WithDisableRetry()) // calls are repeated by line, which knows where else to go
	}
	if s.token != nil {
		options = append(options, grpc.WithPerRPCCredentials(bearer{s.token, !isLocal(address)}))
	}
	return grpc.NewClient(address, append(options, s.dial...)...)
}

// bearer sends a token; not in the clear, unless it stays on this machine.
type bearer struct {
	token  func(context.Context) (string, error)
	secure bool
}

// GetRequestMetadata is the metadata of one call.
func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.token(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity tells whether gRPC is to refuse a connection without TLS.
func (b bearer) RequireTransportSecurity() bool { return b.secure }

// isLocal tells whether a target is on this machine: a loopback address, localhost or a Unix socket.
func isLocal(target string) bool {
	if strings.HasPrefix(target, "unix:") {
		return true
	}
	address := strings.TrimPrefix(target, "dns:")
	if i := strings.Index(target, "://"); i >= 0 {
		address = target[i+3:]
		address = address[strings.LastIndex(address, "/")+1:]
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
