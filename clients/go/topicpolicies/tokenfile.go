package topicpolicies

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// tokenLook is the time between two checks of a token's file: calls are made more often than tokens change.
const tokenLook = time.Second

// TokenFile returns a function for WithToken that reads the bearer token from a file. The file is read again when it changes; while it
// can't be read, or has no token in it, the last token stays in use. If there never was one, calls fail.
func TokenFile(path string) func(context.Context) (string, error) {
	file := &tokenFile{path: path, look: tokenLook}
	return func(context.Context) (string, error) { return file.present(time.Now()) }
}

type tokenFile struct {
	path string
	look time.Duration

	mu     sync.Mutex
	token  string
	seen   os.FileInfo // of the file as it was read last
	looked time.Time
}

// present returns the token at a time.
func (f *tokenFile) present(now time.Time) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.token != "" && now.Before(f.looked.Add(f.look)) {
		return f.token, nil
	}
	f.looked = now
	if err := f.renew(); err != nil && f.token == "" {
		return "", err
	}
	return f.token, nil
}

func (f *tokenFile) renew() error {
	info, err := os.Stat(f.path)
	if err != nil {
		return fmt.Errorf("topicpolicies: the token's file can't be read: %w", err)
	}
	if f.seen != nil && os.SameFile(info, f.seen) && info.ModTime().Equal(f.seen.ModTime()) && info.Size() == f.seen.Size() {
		return nil
	}
	content, err := os.ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("topicpolicies: the token's file can't be read: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("topicpolicies: the file %s has no bearer token in it", f.path)
	}
	f.token, f.seen = token, info
	return nil
}
