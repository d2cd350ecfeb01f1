package topicpolicies

import (
	"context"
	"crypto/tls"
	"fmt"
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

// DefaultTarget is the service's default address.
const DefaultTarget = "localhost:6680"

// actorKey is the metadata key of the actor.
const actorKey = "topicpolicies-actor"

const maxMessage = 64 << 20

// Option is an option of a client.
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

// WithActor sets the actor of changes that name none; it is stored in the log with each change.
func WithActor(actor string) Option { return func(s *settings) { s.actor = actor } }

// WithTimeout sets how long a call may take in all, retries included, if its context has no deadline. The default is 30 seconds.
func WithTimeout(timeout time.Duration) Option { return func(s *settings) { s.timeout = timeout } }

// WithRetries sets how failed calls are retried. The default is DefaultRetries.
func WithRetries(policy RetryPolicy) Option { return func(s *settings) { s.retries = policy } }

// WithTLS uses TLS with this configuration: certificate authorities, a client certificate, a server name. Without this option and
// WithoutTLS, TLS with the system's authorities is used, unless all addresses of the target are on this machine.
func WithTLS(config *tls.Config) Option { return func(s *settings) { s.tls, s.plain = config, false } }

// WithoutTLS turns TLS off: everything is sent in the clear.
func WithoutTLS() Option { return func(s *settings) { s.tls, s.plain = nil, true } }

// WithToken sends a bearer token with every call (metadata "authorization"). The function is called for every call, so the token may be
// renewed. If it fails, so does the call, with ErrPermissionDenied; a watch tries again.
func WithToken(token func(context.Context) (string, error)) Option {
	return func(s *settings) { s.token = token }
}

// WithDialOptions passes further options to gRPC, for every connection. They come last and override the client's own. A default service
// config among them replaces the one with which gRPC retries reads.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, options...) }
}

// secured reports whether connections use TLS: those to the addresses that were given, and those to the leaders that their sidecars name.
func (s *settings) secured(addresses []string) bool {
	elsewhere := slices.ContainsFunc(addresses, func(address string) bool { return !isLocal(address) })
	return s.tls != nil || (!s.plain && elsewhere)
}

// connect creates the connection to an address; the first call opens it. stays says whether gRPC is to retry reads at that address.
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
		// Detects a connection that died silently.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	}
	// An xds target has its own service config, with its own retries.
	xds := strings.HasPrefix(address, "xds:")
	if !xds {
		options = append(options, grpc.WithDisableServiceConfig()) // from DNS
	}
	if stays && !xds {
		options = append(options, grpc.WithDefaultServiceConfig(s.retries.serviceConfig()))
	} else {
		options = append(options, grpc.WithDisableRetry()) // line retries the calls, since it knows the other addresses
	}
	if s.token != nil {
		options = append(options, grpc.WithPerRPCCredentials(bearer{s.token, !isLocal(address)}))
	}
	return grpc.NewClient(address, append(options, s.dial...)...)
}

// noToken is part of the message of a call that was not sent because the token function failed: gRPC keeps nothing else of its error.
const noToken = "there is no token"

// bearer sends a token, never in the clear to another machine.
type bearer struct {
	token  func(context.Context) (string, error)
	secure bool
}

// GetRequestMetadata returns the metadata of one call.
func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.token(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", noToken, err)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r < ' ' || r > '~' }) { // gRPC does not check it
		return nil, fmt.Errorf("%s: metadata is printable ASCII; perhaps the token ends with a line break", noToken)
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity reports whether gRPC must refuse a connection without TLS.
func (b bearer) RequireTransportSecurity() bool { return b.secure }

// isLocal reports whether a target is on this machine: a loopback address, localhost or a Unix socket.
func isLocal(target string) bool {
	if strings.HasPrefix(target, "unix:") || strings.HasPrefix(target, "unix-abstract:") {
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
