package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A file that is read at each dial may have become anything by then. None of it
// may hold up the attempt, and with it the drain.
func TestDialRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(fifo, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, link, dir, "/dev/zero", "/dev/ptmx"} {
		for _, r := range []Relay{
			{Addr: "r:1", TLS: true, CAFile: path},
			{Addr: "r:1", TLS: true, CertFile: path, KeyFile: path},
		} {
			if _, err := r.dial(); err == nil || !strings.Contains(err.Error(), path+" is no regular file") {
				t.Errorf("%+v: %v", r, err)
			}
		}
	}
}

func TestReadRegularFollowsLinksAndIsBounded(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", link); err != nil { // as Kubernetes mounts secrets
		t.Fatal(err)
	}
	if got, err := readRegular(link); string(got) != "text" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if err := os.Truncate(file, maxPEM+1); err != nil {
		t.Fatal(err)
	}
	if got, err := readRegular(file); err == nil {
		t.Errorf("read %d bytes", len(got))
	}
}
