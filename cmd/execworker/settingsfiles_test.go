package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestTokenFileIsReadAtEachDial(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	s := tokenSettings{SandboxTokenFile: path}
	for _, token := range []string{"first", "second"} {
		if err := os.WriteFile(path, []byte(token+"\r\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := s.token(); got != token || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, token)
		}
	}
	longest := strings.Repeat("x", maxToken)
	if err := os.WriteFile(path, []byte(longest+"\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := s.token(); got != longest || err != nil {
		t.Errorf("got %d bytes, %v, want %d", len(got), err, maxToken)
	}
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.token(); err == nil {
		t.Error("a file of 1 MiB was taken for a token")
	}
}

// A program that waits in an open or a read hears no signal.
func TestFilesOfSettingsMustBeFiles(t *testing.T) {
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(fifo, link); err != nil {
		t.Fatal(err)
	}
	cert, key, _ := tlsFiles(t)
	rest := map[string]string{
		"SANDBOX_TOKEN_FILE": "SANDBOX_ID=a",
		"RELAY_CA_FILE":      "RELAY_TLS=1",
		"RELAY_CERT_FILE":    "RELAY_TLS=1|RELAY_KEY_FILE=" + key,
		"RELAY_KEY_FILE":     "RELAY_TLS=1|RELAY_CERT_FILE=" + cert,
	}
	for name, others := range rest {
		for _, path := range []string{fifo, link, dir, "/dev/zero", "/dev/ptmx"} {
			s := start(t, append(strings.Split(others, "|"), name+"="+path), nil, "serve")
			s.wantCode(t, exitUsage)
			wantOutput(t, name, s.stderr, "execworker: "+name+": "+path+" is no regular file\n")
		}
	}
}

func TestFilesOfSettingsMayBeLinks(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("token", link); err != nil {
		t.Fatal(err)
	}
	if got, err := (tokenSettings{SandboxTokenFile: link}).token(); got != "abc" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// The file has become a FIFO when the worker dials again: that attempt fails,
// and a signal still stops the worker.
func TestTokenFileThatBecomesAFIFOHoldsNothingUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("t"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := startLink(t)
	worker := start(t, []string{l.variables[0], "SANDBOX_ID=second", "SANDBOX_TOKEN_FILE=" + path}, nil, "serve")
	l.relay.stdout.wait(t, "second attached")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	l.relay.signal(t, syscall.SIGTERM)
	l.relay.wantCode(t, exitOK)
	worker.stderr.wait(t, "is no regular file")
	worker.signal(t, syscall.SIGTERM)
	worker.wantCode(t, exitOK)
}
