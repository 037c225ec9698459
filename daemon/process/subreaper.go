package process

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// checkSubreaper reads back that orphans come to us.
func checkSubreaper() error {
	var is int32
	if err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&is)), 0, 0, 0); err != nil {
		return fmt.Errorf("process: subreaper: %w", err)
	}
	if is != 1 {
		return errors.New("process: subreaper: the kernel has not kept it")
	}
	return nil
}
