package topicpolicies

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	other := path + ".new"
	if err := os.WriteFile(other, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
}

func TestATokenFileIsReadAgainWhenItChangesAndTheLastValidTokenIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write(t, path, "first\n")
	file, now := &tokenFile{path: path, look: time.Second}, time.Now()
	want := func(expected string) {
		t.Helper()
		if token, err := file.present(now); err != nil || token != expected {
			t.Fatalf("the token is %q, %v instead of %q", token, err, expected)
		}
		now = now.Add(time.Second)
	}
	want("first")
	write(t, path, " second \n")
	want("second")
	for _, wrong := range []string{"", "\n", "two words", "tökén", "a\nb", "a\x00b"} {
		write(t, path, wrong)
		want("second")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	want("second")
	write(t, path, "third")
	want("third")
}

func TestATokenFileIsNotCheckedForEachCall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write(t, path, "first")
	token := TokenFile(path)
	if _, err := token(context.Background()); err != nil {
		t.Fatal(err)
	}
	file := &tokenFile{path: path, look: time.Hour}
	now := time.Now()
	_, _ = file.present(now)
	write(t, path, "second")
	if found, _ := file.present(now.Add(time.Minute)); found != "first" {
		t.Fatalf("the file was read again: %q", found)
	}
}

func TestATokenFileThatDoesNotExistYetIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	token := TokenFile(path)
	if _, err := token(context.Background()); err == nil {
		t.Fatal("no error for a missing file")
	}
	write(t, path, "first")
	if found, err := token(context.Background()); err != nil || found != "first" {
		t.Fatalf("%q, %v", found, err)
	}
}
