package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socketPathMost is what sun_path takes, its zero byte not counted (unix(7)).
const socketPathMost = 107

// socketFile is the file of the unix socket.
type socketFile struct {
	path string
	file os.FileInfo // as it was made, to know it again
}

// listen makes the socket, for its owner only, in a directory that is its
// owner's too, and takes the place of one that nobody serves any more.
func (f *socketFile) listen(path string) (net.Listener, error) {
	if len(path) > socketPathMost {
		return nil, fmt.Errorf("the path has %d bytes: use at most %d", len(path), socketPathMost)
	}
	if err := ownDirectory(filepath.Dir(path)); err != nil {
		return nil, err
	}
	// Two that start at once must not take each other's socket, which between
	// bind and listen looks like one that nobody serves.
	unlock, err := lockDirectory(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close() // FileListener has its own
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, fmt.Errorf("bind: %w", err)
	}
	f.path = path
	if f.file, err = os.Lstat(path); err != nil {
		return nil, err
	}
	// Between bind and listen nobody can connect, so nobody can slip in before
	// the mode is set, and the umask, which is the whole program's, need not change.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, f.remove())
	}
	if err := unix.Listen(fd, unix.SOMAXCONN); err != nil {
		return nil, errors.Join(err, f.remove())
	}
	l, err := net.FileListener(file)
	if err != nil {
		return nil, errors.Join(err, f.remove())
	}
	return l, nil
}

// remove takes the file away if it is still the one that was made.
func (f *socketFile) remove() error {
	if f.file == nil {
		return nil
	}
	now, err := os.Lstat(f.path)
	// The number of an inode alone can be that of ours, used again.
	if errors.Is(err, fs.ErrNotExist) || err == nil && !(os.SameFile(now, f.file) && now.ModTime().Equal(f.file.ModTime())) {
		return nil
	}
	f.file = nil
	return errors.Join(err, os.Remove(f.path))
}

// ownDirectory makes the directory, or sees that nobody else could put another
// socket in the place of ours.
func ownDirectory(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	link, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if owner := int(link.Sys().(*syscall.Stat_t).Uid); owner != 0 && owner != os.Geteuid() && link.Mode().Type() == fs.ModeSymlink {
		// It leads to a directory of ours for now.
		return fmt.Errorf("%s is a link of user %d: use a directory of your own", dir, owner)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	switch {
	case owner != 0 && int(owner) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d: use a directory of your own", dir, owner)
	case info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0:
		return fmt.Errorf("%s can be written to by others (%s): use a directory of mode 0700", dir, info.Mode().Perm())
	}
	return nil
}

// lockTime is what another one that makes a socket in the same place gets. It
// needs a few system calls; a command could hold the lock for ever.
const lockTime = 2 * time.Second

// lockDirectory waits for whoever else is making a socket there, for lockTime at
// most.
func lockDirectory(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(lockTime); ; time.Sleep(5 * time.Millisecond) { // flock(2) has no time limit
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil // which ends the lock too
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR || time.Now().After(until) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
	}
}

// removeStale removes a socket of ours that nobody serves. Anything else in its
// place stays, and is an error.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there and is no socket (%s): remove it, or set ADMIN_SOCKET", path, info.Mode())
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
		return fmt.Errorf("%s is there and belongs to user %d: set ADMIN_SOCKET", path, owner)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
		return fmt.Errorf("another worker serves there: stop it, or set ADMIN_SOCKET")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s is there, and whether it is served is unclear: %w", path, err)
	}
	return os.Remove(path)
}
