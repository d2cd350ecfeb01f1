package topicpolicies

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"topicpolicies.example/clients/go/internal/testserver"
)

// sidecar is the server that tests share; each test uses namespaces of its own in it.
var sidecar struct {
	once      sync.Once
	server    *testserver.Server
	directory string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if sidecar.server != nil {
		sidecar.server.Stop()
	}
	_ = os.RemoveAll(sidecar.directory)
	os.Exit(code)
}

// shared returns the address of the server that tests share.
func shared(t *testing.T) string {
	t.Helper()
	sidecar.once.Do(func() {
		var err error
		if sidecar.directory, err = os.MkdirTemp("", "topicpolicies-go-"); err != nil {
			t.Fatal(err)
		}
		sidecar.server = started(t, sidecar.directory)
	})
	return sidecar.server.Address
}

// ownServer returns a server for a test that stops it.
func ownServer(t *testing.T) *testserver.Server {
	t.Helper()
	server := started(t, t.TempDir())
	t.Cleanup(server.Stop)
	return server
}

func started(t *testing.T, directory string) *testserver.Server {
	t.Helper()
	server, err := testserver.New(directory)
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// connected returns a client that is closed after the test.
func connected(t *testing.T, target string, options ...Option) *Client {
	t.Helper()
	client, err := New(target, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

var namespaces atomic.Int64

// newNamespace returns a namespace that no other test uses.
func newNamespace() string { return fmt.Sprintf("go/n%d", namespaces.Add(1)) }

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(100 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in 100 seconds not: %s", what)
		}
	}
}
