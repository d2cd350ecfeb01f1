package topicpolicies

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"topicpolicies.example/clients/go/internal/testserver"
)

// sidecar is the server that tests share; each test uses topics and namespaces of its own in it.
var sidecar *testserver.Server

func TestMain(m *testing.M) { os.Exit(withServer(m)) }

func withServer(m *testing.M) int {
	directory, err := os.MkdirTemp("", "topicpolicies-go-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(directory)
	if sidecar, err = testserver.New(directory); err == nil {
		err = sidecar.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer sidecar.Stop()
	return m.Run()
}

// ownServer returns a server for a test that stops servers, or needs other options.
func ownServer(t *testing.T, options ...string) *testserver.Server {
	t.Helper()
	server, err := testserver.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server.Options = options
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// ownServerWithLevels returns a server that knows the policies of a namespace and of the brokers.
func ownServerWithLevels(t *testing.T, namespace string) *testserver.Server {
	t.Helper()
	cluster := filepath.Join(t.TempDir(), "cluster.toml")
	if err := os.WriteFile(cluster, fmt.Appendf(nil, "cluster = \"us\"\n[broker]\n[namespaces.%q]\n", namespace), 0o600); err != nil {
		t.Fatal(err)
	}
	return ownServer(t, "--cluster-file", cluster)
}

var namespaces atomic.Int64

// newNamespace returns a namespace that no other test uses.
func newNamespace() string { return fmt.Sprintf("go/n%d", namespaces.Add(1)) }

func topicIn(namespace string) Key { return Key{"persistent://" + namespace + "/orders", ScopeLocal} }

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in 20 seconds not: %s", what)
		}
	}
}
