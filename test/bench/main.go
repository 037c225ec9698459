// Command bench measures the built worker against floors taken in the same run:
// plain os/exec of the same command, a raw gRPC stream, SIGKILL-to-wait of a
// plain child. It prints what it measured beside the targets of the design.
//
//	go run ./test/bench --quick
//	go run ./test/bench --only true,stream --json out.json
//
// Four kinds of processes take part, so that none pays for another's heap,
// goroutines or garbage:
//
//	bench ──────── the relay (relay.go) and the stopwatch
//	  ├─ execworker serve        what is measured
//	  ├─ bench floor-exec        runs the same commands with os/exec
//	  └─ bench floor-stream      sends the same chunks over plain grpc-go
//
// The machine is assumed to be noisy. So worker and floor take turns in small
// rounds, each round gives one ratio, and the ratio in the table is the median of
// those; the quartiles beside it say how far to trust it. "measured" and "floor"
// are medians over all rounds, and their quotient may differ a little from it.
//
// A row is one function in rows.go; to add one, write it and list it there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	quick bool
	json  string
	only  string
	uid   int
	bin   string
	env   []string // for the worker, beside what it needs
	sizes sizes
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "floor-exec":
			return floorExec(os.Stdin, os.Stdout)
		case "floor-stream":
			return floorStream(ctx, args[1:])
		}
	}
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	results, err := measure(ctx, o, chosen, stderr)
	// What was measured before something went wrong is worth seeing.
	printTable(stdout, results)
	if o.json != "" && err == nil {
		err = writeJSON(o.json, o, results)
	}
	return err
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&o.quick, "quick", false, "small samples: under 40 s")
	f.StringVar(&o.json, "json", "", "write the results to this `file` too")
	f.StringVar(&o.only, "only", "", "run only these `rows`, with commas: "+strings.Join(rowNames(), ", "))
	f.IntVar(&o.uid, "uid", -1, "run worker and floors as this `user` and group")
	f.StringVar(&o.bin, "bin", "", "measure this `program` instead of building one")
	f.Func("env", "set this `variable` (K=V) for the worker; may be repeated", func(kv string) error {
		if !strings.Contains(kv, "=") {
			return errors.New("want K=V")
		}
		o.env = append(o.env, kv)
		return nil
	})
	f.Usage = func() {
		fmt.Fprint(stderr, "Measures execworker against its floors, and prints a table.\n\n"+
			"usage: go run ./test/bench [flags]\n\n")
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("what is %q? (see --help)", f.Arg(0))
	}
	o.sizes = full
	if o.quick {
		o.sizes = quick
	}
	return o, nil
}
