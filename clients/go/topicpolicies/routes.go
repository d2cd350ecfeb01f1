package topicpolicies

import (
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
)

const (
	// mostLeaders is the maximum number of namespaces whose leaders are remembered.
	mostLeaders = 10_000
	// notLeader is the reason of a refusal because another sidecar writes the namespace.
	notLeader = "NOT_LEADER"
)

// routes decides the addresses to which the calls of one client go, without I/O.
//
// Sidecars may share the namespaces of a cluster, so that each namespace is written by one of them, its leader. The others serve reads and
// watches; they refuse a change with the reason NOT_LEADER and name the leader's address. The leader is remembered by namespace, and
// forgotten when a call to it fails. All other calls go to one of the addresses that the client was given, and to the next one when that
// can't be reached.
type routes struct {
	addresses []string

	mu      sync.Mutex
	turn    int
	writers map[string]string // the addresses for changes, by namespace, where they differ from the current address
}

func newRoutes(addresses []string) *routes {
	return &routes{addresses: addresses, writers: map[string]string{}}
}

// given reports whether an address is one of those that the client was given.
func (r *routes) given(address string) bool { return slices.Contains(r.addresses, address) }

// address returns the current address, for reads and watches.
func (r *routes) address() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.addresses[r.turn]
}

// writer returns the address for changes of a namespace; for calls that change nothing, the namespace is empty.
func (r *routes) writer(namespace string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if writer, known := r.writers[namespace]; known {
		return writer
	}
	return r.addresses[r.turn]
}

// failed records that a call to an address failed. It returns the leader's address if the error named another one, so that the next
// attempt needs no pause. The leader is remembered only for changes; those have a namespace.
func (r *routes) failed(address, namespace string, failure *Error) (leader string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch refused := refusedByFollower(failure); {
	case refused && namespace == "":
		if leader = failure.Metadata["leader"]; leader == "" {
			r.leave(address)
		}
	case refused:
		if leader = failure.Metadata["leader"]; leader == "" {
			r.remember(namespace, r.after(address))
		} else {
			r.remember(namespace, leader)
		}
	case answeredElsewhere(failure.Code):
		if r.writers[namespace] == address {
			delete(r.writers, namespace)
		}
		r.leave(address)
	}
	if leader == address {
		return ""
	}
	return leader
}

// full records that an address has no room for another watch.
func (r *routes) full(address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leave(address)
}

// leave moves on to the next address, if this one is the current one.
func (r *routes) leave(address string) {
	if r.addresses[r.turn] == address {
		r.turn = (r.turn + 1) % len(r.addresses)
	}
}

// forget forgets that a namespace is written at an address.
func (r *routes) forget(address, namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writers[namespace] == address {
		delete(r.writers, namespace)
	}
}

// after returns the address to try next in search of the leader; the current address does not change.
func (r *routes) after(address string) string {
	at := slices.Index(r.addresses, address)
	if at < 0 {
		return r.addresses[r.turn]
	}
	return r.addresses[(at+1)%len(r.addresses)]
}

func (r *routes) remember(namespace, writer string) {
	if _, known := r.writers[namespace]; !known && len(r.writers) >= mostLeaders {
		for any := range r.writers {
			delete(r.writers, any)
			break
		}
	}
	r.writers[namespace] = writer
}

// refusedByFollower reports whether a change was refused because another sidecar writes the namespace. It was certainly not made.
func refusedByFollower(failure *Error) bool {
	return failure.FromService && failure.Reason == notLeader
}

// answeredElsewhere reports whether another sidecar may be able to answer a call that failed with this code.
func answeredElsewhere(code codes.Code) bool {
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Internal, codes.Unknown:
		return true
	default:
		return false
	}
}

// addressesOf splits a target into addresses, separated by commas. A target with a scheme is one address, which gRPC resolves.
func addressesOf(target string) []string {
	for _, scheme := range []string{"ipv4:", "ipv6:", "unix:", "unix-abstract:", "dns:", "vsock:"} {
		if strings.HasPrefix(target, scheme) {
			return []string{target}
		}
	}
	if strings.Contains(target, "://") {
		return []string{target}
	}
	var addresses []string
	for part := range strings.SplitSeq(target, ",") {
		if address := strings.TrimSpace(part); address != "" {
			addresses = append(addresses, address)
		}
	}
	if len(addresses) == 0 {
		return []string{target}
	}
	return addresses
}
