// Package testserver runs the service in a separate process, for tests.
package testserver

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// readyTime is how long a server may take to become ready.
const readyTime = 60 * time.Second

// Server is a "topicpolicies serve" process with an embedded log, on a loopback port that stays the same across restarts.
type Server struct {
	Address string
	data    string
	process *exec.Cmd
	output  *bytes.Buffer
}

// New prepares a server with its log in a directory. It starts nothing.
func New(directory string) (*Server, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	return &Server{Address: address, data: filepath.Join(directory, "policies.db")}, nil
}

// freeAddress returns an address at which nothing listens now. Its port is below the range of ports for outgoing connections, so that none
// of those takes it meanwhile.
func freeAddress() (address string, err error) {
	for range 100 {
		address = fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		var probe net.Listener
		if probe, err = net.Listen("tcp", address); err == nil {
			return address, probe.Close()
		}
	}
	return "", err
}

// Start starts the server, and returns when it is ready.
func (s *Server) Start() error {
	root, err := repository()
	if err != nil {
		return err
	}
	python := os.Getenv("TOPICPOLICIES_PYTHON")
	if python == "" {
		python = filepath.Join(root, ".venv", "bin", "python")
	}
	if _, err := exec.LookPath(python); err != nil {
		return fmt.Errorf(
			"the tests run against the real service, and %s is missing: run python3 dev.py check once, "+
				"or name an interpreter that has the server in TOPICPOLICIES_PYTHON: %w", python, err,
		)
	}
	s.output = &bytes.Buffer{}
	s.process = exec.Command(python, "-m", "topicpolicies_server", "serve", "--listen", s.Address, "--data", s.data)
	paths := filepath.Join(root, "server") + string(os.PathListSeparator) + filepath.Join(root, "clients", "python")
	s.process.Env = append(os.Environ(), "PYTHONPATH="+paths)
	s.process.Stdout, s.process.Stderr = s.output, s.output
	if err := s.process.Start(); err != nil {
		return err
	}
	if err := s.ready(); err != nil {
		s.Kill()
		return fmt.Errorf("the server does not serve: %w; it printed:\n%s", err, s.output)
	}
	return nil
}

// Kill ends the server abruptly, like a failure of the machine (SIGKILL).
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Stop ends the server as an operator does (SIGTERM).
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

func (s *Server) end(signal syscall.Signal) {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Signal(signal) // the process may have ended by itself
	_ = s.process.Wait()
	s.process = nil
}

func (s *Server) ready() error {
	connection, err := grpc.NewClient(s.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	for {
		answer, err := grpc_health_v1.NewHealthClient(connection).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err == nil && answer.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %w", readyTime, err)
		case <-time.After(50 * time.Millisecond):
			connection.ResetConnectBackoff()
		}
	}
}

// repository returns the root directory of the repository, which contains the definitions and the server.
func repository() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "proto", "topicpolicies")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("the tests of the Go client need the whole repository: the server is in it")
		}
	}
}
