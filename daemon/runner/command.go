package runner

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"execworker/daemon/process"

	"golang.org/x/sys/unix"
)

// maxArg is the longest string that execve takes as one argument, its NUL
// included (MAX_ARG_STRLEN of execve(2): 32 pages, and the smallest page).
const maxArg = 32 * 4096

// longCommand makes bash read its command from descriptor 3 and then be as if
// it had come with -c: eval goes through the same parser, one line at a time,
// and the descriptor is closed and the variable gone before the command's first
// word runs. Only a parse error is worded a little differently ("bash:", not
// "bash: -c:"), and BASH_EXECUTION_STRING is this line. read fails at the end
// of its input, which must not matter where the environment turns errexit on.
const longCommand = `IFS= read -r -d "" -u 3 _execworker || :; exec 3<&-; eval "unset -v _execworker; $_execworker"`

// shell is the command line for text, and a file for descriptor 3 if it needs
// one; the caller closes that.
func shell(text string) (path string, args []string, command *os.File, err error) {
	if i := strings.IndexByte(text, 0); i >= 0 {
		return "", nil, nil, &process.SpawnError{Step: "command", Err: fmt.Errorf("has a NUL byte at offset %d", i)}
	}
	path, err = exec.LookPath("bash")
	if err != nil {
		if wrapped := errors.Unwrap(err); wrapped != nil {
			err = wrapped
		}
		return "", nil, nil, &process.SpawnError{Step: "find", Path: "bash", Err: err}
	}
	if len(text) < maxArg {
		return path, []string{"bash", "-c", text}, nil, nil
	}
	command, err = memoryFile(text)
	if err != nil {
		return "", nil, nil, &process.SpawnError{Step: "hand over the command", Err: err}
	}
	return path, []string{"bash", "-c", longCommand}, command, nil
}

// memoryFile returns a file that holds text, at its start. Its content goes
// with its last descriptor.
func memoryFile(text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("command", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "command")
	if _, err := bytes.NewBufferString(text).WriteTo(f); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := f.Seek(0, 0); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
