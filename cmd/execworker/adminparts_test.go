package main

import (
	"context"

	"execworker/admin"
	"execworker/daemon"
	"execworker/daemon/observe"
)

// The daemon is what the admin API asks about processes.
var (
	_ admin.Processes = (*daemon.Daemon)(nil)
	_ interface {
		Inspect(ctx context.Context, seqs []uint64, files bool) map[uint64]observe.Inspection
	} = (*daemon.Daemon)(nil)
)
