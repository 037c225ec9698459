package daemon_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"execworker/daemon"
	"execworker/daemon/observe"
	"execworker/test/relaytest"
)

// Output past the 8 MiB of buffered mode is cut, and hashed all the same.
func TestHashesAreOfAllOutput(t *testing.T) {
	const size = 9 << 20
	r := relaytest.New(t)
	d, _ := startAt(t, r, nil, func(c *daemon.Config) { c.HashOutput = true })
	s := r.Attach(t)
	command := "head -c 9437184 /dev/zero; echo err >&2"
	for id, streaming := range []bool{false, true} {
		s.Exec(t, uint64(id), command, relaytest.Streaming(streaming))
		s.WantEnd(t, uint64(id), 0)
		wantHashes(t, receiptOf(t, d, uint64(id)), bytes.Repeat([]byte{0}, size), []byte("err\n"))
	}
}

func TestHashOfNothingIsAHash(t *testing.T) {
	r := relaytest.New(t)
	d, _ := startAt(t, r, nil, func(c *daemon.Config) { c.HashOutput = true })
	s := r.Attach(t)
	s.Exec(t, 1, "exec sleep 300", relaytest.Timeout(1))
	s.WantError(t, 1, "timeout:1")
	wantHashes(t, receiptOf(t, d, 1), nil, nil)
}

func TestOutputIsNotHashedUnlessAskedFor(t *testing.T) {
	d, r, _ := start(t, 1, nil)
	s := r.Attach(t)
	s.Exec(t, 1, "echo hi")
	s.WantEnd(t, 1, 0)
	if got := receiptOf(t, d, 1); got.StdoutHash != "" || got.StderrHash != "" {
		t.Errorf("hashes are %q and %q", got.StdoutHash, got.StderrHash)
	}
}

// receiptOf waits for the receipt of an exec that has been answered.
func receiptOf(t *testing.T, d *daemon.Daemon, reqID uint64) observe.Receipt {
	t.Helper()
	for {
		for _, receipt := range d.Receipts() {
			if receipt.Exec.ID == observe.SandboxID(reqID) {
				return receipt
			}
		}
		time.Sleep(time.Millisecond) // it is filed right after the terminal frame
	}
}

func wantHashes(t *testing.T, got observe.Receipt, stdout, stderr []byte) {
	t.Helper()
	for _, stream := range []struct {
		name, got string
		text      []byte
	}{{"stdout", got.StdoutHash, stdout}, {"stderr", got.StderrHash, stderr}} {
		sum := sha256.Sum256(stream.text)
		if want := hex.EncodeToString(sum[:]); stream.got != want {
			t.Errorf("hash of %s is %q, want %s", stream.name, stream.got, want)
		}
	}
}
