package main

import (
	"os/exec"
	"runtime"
)

// starter starts processes from one thread that lives as long as the bench:
// Pdeathsig is about the thread that forked. It is for one goroutine at a time.
type starter struct {
	cmds chan *exec.Cmd
	errs chan error
}

func newStarter() *starter {
	s := &starter{cmds: make(chan *exec.Cmd), errs: make(chan error)}
	go func() {
		runtime.LockOSThread() // and never unlocked
		for cmd := range s.cmds {
			s.errs <- cmd.Start()
		}
	}()
	return s
}

func (s *starter) start(cmd *exec.Cmd) error {
	s.cmds <- cmd
	return <-s.errs
}

// close comes after the last process has ended.
func (s *starter) close() { close(s.cmds) }
