package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"log"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
)

// CheckAddr refuses an address that the API may not listen on: all but loopback.
func CheckAddr(addr string) error {
	name, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q is no HOST:PORT", addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("%q has no port from 0 to 65535", addr)
	}
	if name == "localhost" {
		return nil
	}
	if ip, err := netip.ParseAddr(name); err != nil || !ip.IsLoopback() {
		return fmt.Errorf("%q is not loopback: use 127.0.0.1, ::1 or localhost", addr)
	}
	return nil
}

// Listen binds the first of sockets that can be, and the first of addrs. What
// cannot be bound is logged and told by Problems, for the worker's work is to run
// commands. It is an error if sockets is a single one, which somebody has asked
// for, and that cannot be bound, and if an address is not loopback. After an
// error nothing is bound.
func (s *Server) Listen(sockets, addrs []string) (err error) {
	defer func() {
		if err != nil {
			for _, d := range s.doors {
				d.Close()
			}
			_ = s.socket.remove()
			s.doors = nil
		}
	}()
	for _, addr := range addrs {
		if err := CheckAddr(addr); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
	}
	for i, socket := range sockets {
		l, err := s.socket.listen(socket)
		if err == nil {
			d := newDoor(l, "unix")
			d.inside = func(c *connection) bool { return s.overSocket(c).class == descendant }
			s.doors = append(s.doors, d)
			break
		}
		last := i == len(sockets)-1
		switch {
		case len(sockets) == 1:
			return fmt.Errorf("listen on %s: %w", socket, err)
		case last || !cannotBeMade(err):
			s.problem("admin socket not bound", socket, err)
		}
	}
	for _, addr := range addrs {
		listeners, err := s.listenTCP(addr)
		if err == nil {
			for _, l := range listeners {
				s.doors = append(s.doors, newDoor(l, "tcp"))
			}
			break
		}
		s.problem("admin address not bound", addr, rootOf(err))
	}
	return nil
}

// problem notes what could not be bound. Whatever serves there instead may be a
// command that waits for a token.
func (s *Server) problem(message, place string, err error) {
	s.problems = append(s.problems, fmt.Sprintf("%s could not be bound: %v", place, err))
	s.options.Log.Warn(message, slog.String("place", place), slog.String("error", err.Error()),
		slog.String("hint", "something else may serve there: do not send it a token"))
}

// cannotBeMade says that a socket cannot be in a place for want of permission or
// of the place itself, which is what the next place is for.
func cannotBeMade(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EROFS)
}

// listenTCP binds one address; localhost is both of them, on the same port, if
// there is the second here. Where it is but is taken, that is a problem: clients
// try ::1 first, and who serves there may be a command.
func (s *Server) listenTCP(addr string) ([]net.Listener, error) {
	if host(addr) != "localhost" {
		l, err := listenLoopback(addr)
		return []net.Listener{l}, err
	}
	_, port, _ := net.SplitHostPort(addr)
	first, err := listenLoopback(net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return nil, err
	}
	second := net.JoinHostPort("::1", strconv.Itoa(first.Addr().(*net.TCPAddr).Port)) // the one that 0 became
	l, err := listenLoopback(second)
	switch {
	case err == nil:
		return []net.Listener{first, l}, nil
	case !errors.Is(err, syscall.EADDRNOTAVAIL) && !errors.Is(err, syscall.EAFNOSUPPORT):
		s.problem("admin address not bound", second, rootOf(err))
	}
	return []net.Listener{first}, nil
}

// listenLoopback binds one address. What was bound counts, not what was written.
func listenLoopback(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err == nil && !isLoopback(l.Addr()) {
		l.Close()
		return nil, fmt.Errorf("%s is not loopback", l.Addr())
	}
	return l, err
}

// rootOf is the error under those that repeat the address.
func rootOf(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// Socket is the path of the unix socket; empty when there is none.
func (s *Server) Socket() string { return s.socket.path }

// Addrs are the TCP addresses that are bound.
func (s *Server) Addrs() []string {
	var addrs []string
	for _, d := range s.doors {
		if d.network == "tcp" {
			addrs = append(addrs, d.Addr().String())
		}
	}
	return addrs
}

// Problems says which addresses could not be bound, and why.
func (s *Server) Problems() []string { return s.problems }

// serverLog passes what net/http has to say on, as an attribute: it quotes what
// clients send.
func serverLog(to *slog.Logger) *log.Logger { return log.New(lineLog{to}, "", 0) }

type lineLog struct{ to *slog.Logger }

func (l lineLog) Write(line []byte) (int, error) {
	l.to.Debug("admin connection", slog.String("error", strings.TrimSpace(string(line))))
	return len(line), nil
}
