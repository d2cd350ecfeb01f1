package topicpolicies

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

// mostConnections is the maximum number of open connections besides those to the addresses that the client was given.
const mostConnections = 64

// line makes the calls of a client, over one connection to each address in use, which the first call to it opens. The generated client uses
// it as a single connection. routes decides the address of each call. Calls are retried as RetryPolicy says: by line, except for the reads
// that gRPC retries itself.
type line struct {
	settings settings
	secured  bool
	routes   *routes

	mu          sync.Mutex
	connections map[string]*grpc.ClientConn
	others      []string // the addresses in connections that were not given, oldest first
	closed      bool
	closing     chan struct{} // closed with the line
}

var _ grpc.ClientConnInterface = (*line)(nil)

// newLine returns an error if an address that was given can't be used at all.
func newLine(addresses []string, chosen settings) (*line, error) {
	l := &line{
		settings: chosen, secured: chosen.secured(addresses), routes: newRoutes(addresses), connections: map[string]*grpc.ClientConn{},
		closing: make(chan struct{}),
	}
	elsewhere := slices.ContainsFunc(addresses, func(address string) bool { return !isLocal(address) })
	if chosen.token != nil && elsewhere && !l.secured && len(chosen.dial) == 0 { // gRPC itself judges the caller's own dial options
		return nil, invalid("token", "TOKEN_IN_THE_CLEAR", "A token is not sent to another machine without TLS.")
	}
	for _, address := range addresses {
		if _, err := l.connection(address); err != nil {
			_ = l.close()
			return nil, err
		}
	}
	return l, nil
}

// Invoke makes one call, with retries, within the client's timeout if the context has no deadline.
func (l *line) Invoke(ctx context.Context, method string, request, answer any, options ...grpc.CallOption) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.settings.timeout)
		defer cancel()
	}
	noted, known := ctx.Value(callKey{}).(*call)
	if !known {
		noted = &call{}
		ctx = context.WithValue(ctx, callKey{}, noted)
	}
	namespace, requestID, change := changeOf(request)
	ctx = l.tagged(ctx)
	again := repeats{policy: l.settings.retries, change: change, repeatable: requestID != ""}
	leader := ""
	for first := true; ; first = false {
		address := l.routes.address()
		if change {
			address = l.routes.writer(namespace)
		} else if leader != "" {
			address = leader
		}
		connection, err := l.connection(address)
		if err != nil {
			l.routes.forget(address, namespace)
			return err
		}
		noted.begin()
		err = l.attempt(ctx, connection, l.callOptions(address, method, first, options), change, method, request, answer)
		if err == nil || ctx.Err() == context.Canceled {
			return err
		}
		failure := fromError(err)
		if l.isClosed() {
			return closed()
		}
		leader = l.routes.failed(address, namespace, failure)
		sent, made := noted.present()
		wait, repeat := again.failed(failure, sent, made, leader != "", rand.Float64())
		if deadline, _ := ctx.Deadline(); !repeat || time.Until(deadline) <= wait {
			return err
		}
		if ended := l.pause(ctx, wait); errors.Is(ended, ErrClosed) {
			return ended
		} else if ended != nil {
			return err
		}
	}
}

func (l *line) attempt(
	ctx context.Context, connection *grpc.ClientConn, options []grpc.CallOption, change bool, method string, request, answer any,
) error {
	if limit := l.settings.retries.AttemptTimeout; change && limit > 0 && l.settings.retries.repeats() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	return connection.Invoke(ctx, method, request, answer, options...)
}

// callOptions returns the options of one attempt, the caller's last. If a read's first attempt fails, gRPC has already retried it as far as
// it could; from then on only line retries it, so that attempts don't multiply.
func (l *line) callOptions(address, method string, first bool, options []grpc.CallOption) []grpc.CallOption {
	stays := l.stays(address)
	chosen := []grpc.CallOption{grpc.WaitForReady(stays)}
	if stays && !first && slices.Contains(reads, method) {
		chosen = append(chosen, grpc.MaxRetryRPCBufferSize(0)) // gRPC can only retry a request that it has kept
	}
	return append(chosen, options...)
}

// NewStream opens a stream at the address for reads.
func (l *line) NewStream(
	ctx context.Context, description *grpc.StreamDesc, method string, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	connection, err := l.connection(l.routes.address())
	if err != nil {
		return nil, err
	}
	return connection.NewStream(l.tagged(ctx), description, method, options...)
}

// tagged returns a context that carries the client's actor as metadata, unless the caller has set an actor there.
func (l *line) tagged(ctx context.Context) context.Context {
	outgoing, _ := metadata.FromOutgoingContext(ctx)
	if l.settings.actor == "" || len(outgoing.Get(actorKey)) > 0 {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, actorKey, l.settings.actor)
}

// stays reports whether calls stay at an address because there is no other one to try: such calls wait for a connection, and gRPC retries
// the reads.
func (l *line) stays(address string) bool {
	return l.settings.retries.repeats() && len(l.routes.addresses) == 1 && address == l.routes.addresses[0]
}

// stub returns the generated client for one address.
func (l *line) stub(address string) (pb.TopicPoliciesServiceClient, error) {
	connection, err := l.connection(address)
	if err != nil {
		return nil, err
	}
	return pb.NewTopicPoliciesServiceClient(connection), nil
}

func (l *line) connection(address string) (*grpc.ClientConn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, closed()
	}
	if connection := l.connections[address]; connection != nil {
		return connection, nil
	}
	made, err := l.settings.connect(address, l.secured, l.stays(address))
	if err != nil {
		message := fmt.Sprintf("The address %s can't be used: %v", address, err)
		return nil, &Error{Code: codes.FailedPrecondition, Reason: "UNUSABLE_ADDRESS", Message: message, kind: ErrFailedPrecondition, cause: err}
	}
	if !l.routes.given(address) {
		if len(l.others) >= mostConnections {
			_ = l.connections[l.others[0]].Close()
			delete(l.connections, l.others[0])
			l.others = l.others[1:]
		}
		l.others = append(l.others, address)
	}
	l.connections[address] = made
	return made, nil
}

// pause waits for a duration. It returns the context's error if the context ends first, and ErrClosed if the client is closed first.
func (l *line) pause(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-l.closing:
		return closed()
	case <-timer.C:
		return nil
	}
}

func (l *line) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

func (l *line) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		close(l.closing)
	}
	l.closed = true
	var first error
	for _, connection := range l.connections {
		if err := connection.Close(); first == nil {
			first = err
		}
	}
	clear(l.connections)
	return first
}

// changeOf reports whether a request changes something, and if so, in which namespace and with which request id. A dry run changes nothing,
// so its outcome is never unknown.
func changeOf(request any) (namespace, requestID string, change bool) {
	switch each := request.(type) {
	case *pb.UpdatePolicyRequest:
		namespace, requestID, change = namespaceOf(each.GetTopic()), each.GetRequestId(), !each.GetValidateOnly()
	case *pb.DeletePolicyRequest:
		namespace, requestID, change = namespaceOf(each.GetTopic()), each.GetRequestId(), !each.GetValidateOnly()
	}
	if !change {
		return "", "", false
	}
	return namespace, requestID, true
}
