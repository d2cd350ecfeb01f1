package topicpolicies

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// tokenLook is the time between two looks at a token's file: calls are made more often than tokens change.
const tokenLook = time.Second

// TokenFile gives the bearer token in a file, for WithToken. The file is read anew when it changes, and while it can't be read, or has no
// token in it, the token before stays. The first call fails if there is none yet.
func TokenFile(path string) func(context.Context) (string, error) {
	file := &tokenFile{path: path, look: tokenLook}
	return func(context.Context) (string, error) { return file.present(time.Now()) }
}

type tokenFile struct {
	path string
	look time.Duration

	mu     sync.Mutex
	token  string
	seen   os.FileInfo // of what was read
	looked time.Time
}

// present is the token at a time.
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
