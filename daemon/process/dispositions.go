package process

import (
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ignored returns the signals that this program ignores, most likely because
// whoever started it did: nohup, or a shell in the background.
func ignored() (signals []os.Signal) {
	var buf [4 << 10]byte
	b, err := readProc(unix.Getpid(), "status", buf[:])
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(b), "SigIgn:\t")
	line, _, _ := strings.Cut(rest, "\n")
	mask, _ := strconv.ParseUint(line, 16, 64)
	for n := range 64 {
		if mask&(1<<n) != 0 {
			signals = append(signals, syscall.Signal(n+1))
		}
	}
	return signals
}

// dropIgnored has them caught and dropped. For us that is the same; but exec
// makes a caught signal the default one again and keeps an ignored one
// (signal(7)), and a main that cannot be interrupted is not what it was asked
// for. The caller ends it with signal.Stop, which ignores them again.
func dropIgnored() chan<- os.Signal {
	c := make(chan os.Signal, 1) // nobody receives, and Notify never waits
	if signals := ignored(); len(signals) > 0 {
		signal.Notify(c, signals...)
	}
	return c
}
