package daemon

import (
	"os/exec"
	"runtime"

	sandboxv1 "execworker/proto/sandbox/v1"
)

// capabilities are what this sandbox can do: the programs an agent asks for
// first, if they are there, and what the worker adds.
func capabilities() []string {
	var found []string
	for _, program := range []string{"bash", "rg", "base64", "file", "python3", "git"} {
		if _, err := exec.LookPath(program); err == nil {
			found = append(found, program)
		}
	}
	return append(found, "workspace-subdir")
}

// hello is the first frame of every session.
func (c Config) hello(capabilities []string) *sandboxv1.Hello {
	return &sandboxv1.Hello{
		SandboxId:    c.SandboxID,
		Labels:       c.Labels,
		Capabilities: capabilities,
		Image:        c.Image,
		Arch:         runtime.GOARCH,
		CapacityMax:  uint32(c.Slots),
		Trust:        c.Trust,
	}
}
