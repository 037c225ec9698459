package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	sandboxv1 "execworker/proto/sandbox/v1"
)

// tourSteps is the tour, in order. The later steps are in demokill.go.
var tourSteps = []step{
	{"read", "a file of 100 000 bytes, as base64", stepRead},
	{"write", "100 000 bytes, as base64 through stdin", stepWrite},
	{"bash", "a line on each stream, and exit 7", stepBash},
	{"grep", "the one line of 300 that has a word", stepGrep},
	{"abort", "sleep 300, aborted once it runs", stepAbort},
	{"timeout", "sleep 300, with 1 s to live", stepTimeout},
	{"reconnect", "one exec, before and after a lost link", stepReconnect},
	{"escape", "abort what setsid and forked twice", stepEscape},
}

const tourBytes = 100_000

func randomBytes() []byte {
	b := make([]byte, tourBytes)
	rand.Read(b) // never fails
	return b
}

// stepRead reads a file that the tour wrote.
func stepRead(ctx context.Context, t *tour) (string, error) {
	want, path := randomBytes(), filepath.Join(t.dir, "read-"+t.nonce)
	if err := os.WriteFile(path, want, 0o600); err != nil {
		return "", err
	}
	a, err := t.exec(ctx, &sandboxv1.Exec{Command: "base64 < " + shellQuote(path)})
	if err != nil {
		return "", err
	}
	got, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(string(a.stdout), "\n", ""))
	if err != nil || a.end.GetExitCode() != 0 || a.end == nil {
		return "", errors.New(a.String())
	}
	if !bytes.Equal(got, want) {
		return "", fmt.Errorf("other bytes than are in the file, %d of them", len(got))
	}
	return fmt.Sprintf("exit code 0, the same %d bytes", len(got)), nil
}

// stepWrite writes a file that the tour reads.
func stepWrite(ctx context.Context, t *tour) (string, error) {
	want, path := randomBytes(), filepath.Join(t.dir, "write-"+t.nonce)
	a, err := t.exec(ctx, &sandboxv1.Exec{
		Command: "base64 -d > " + shellQuote(path),
		Stdin:   []byte(base64.StdEncoding.EncodeToString(want)),
	})
	if err != nil {
		return "", err
	}
	if err := a.want(0, "", ""); err != nil {
		return "", err
	}
	got, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if !bytes.Equal(got, want) {
		return "", fmt.Errorf("other bytes in the file than were sent, %d of them", len(got))
	}
	return fmt.Sprintf("exit code 0, the same %d bytes are in the file", len(got)), nil
}

// stepBash tells the streams apart and keeps the exit code.
func stepBash(ctx context.Context, t *tour) (string, error) {
	a, err := t.exec(ctx, &sandboxv1.Exec{
		Command: fmt.Sprintf("echo out-%[1]s; echo err-%[1]s >&2; exit 7", t.nonce),
	})
	if err != nil {
		return "", err
	}
	return a.String(), a.want(7, "out-"+t.nonce+"\n", "err-"+t.nonce+"\n")
}

// stepGrep finds a word in files that the tour wrote.
func stepGrep(ctx context.Context, t *tour) (string, error) {
	const files, lines = 3, 100
	dir := filepath.Join(t.dir, "grep-"+t.nonce)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	for f := range files {
		var text strings.Builder
		for l := range lines {
			if f == 1 && l == 41 {
				fmt.Fprintf(&text, "the needle is %s\n", t.nonce)
			} else {
				fmt.Fprintf(&text, "hay %d %d\n", f, l)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(f)), []byte(text.String()), 0o600); err != nil {
			return "", err
		}
	}
	a, err := t.exec(ctx, &sandboxv1.Exec{Command: fmt.Sprintf("cd %s && grep -rn %s .", shellQuote(dir), t.nonce)})
	if err != nil {
		return "", err
	}
	return a.String(), a.want(0, "./1:42:the needle is "+t.nonce+"\n", "")
}

// shellQuote makes s one word of bash.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
