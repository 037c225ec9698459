package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"os"
	"strconv"
	"strings"

	"execworker/daemon/observe"
)

// class is who is asking.
type class string

const (
	operator   class = "operator"
	descendant class = "descendant"
	unknown    class = "unknown"
)

// asker is who is behind a request.
type asker struct {
	class  class
	why    string         // one sentence, for a refusal
	origin observe.Origin // of the process, if it was found
}

type askerKey struct{}

func withAsker(ctx context.Context, a asker) context.Context {
	return context.WithValue(ctx, askerKey{}, a)
}

// askerOf returns who is behind r. The guard has put it there; without one it is
// nobody.
func askerOf(r *http.Request) asker {
	a, ok := r.Context().Value(askerKey{}).(asker)
	if !ok {
		return asker{class: descendant, why: "the request came around the guard"}
	}
	return a
}

// ask finds out who is behind a request. It is done anew for each one, because a
// connection can be handed on. That of a descendant is closed with the answer.
func (s *Server) ask(r *http.Request, conn *connection) (asker, *refusal) {
	if conn == nil {
		return askerOf(r), nil // a test may have said
	}
	given := r.Header.Get("Authorization")
	if isProbe(r) && given == "" {
		// All get the same answer, so nobody is looked for: what crowds a door must
		// not make the worker look ill, which would be the end of its sandbox.
		return asker{class: unknown, why: "a probe is nobody's"}, nil
	}
	who, no := s.peer(r.Context(), conn)
	if no != nil {
		return who, no
	}
	if who.class == descendant {
		return who, nil
	}
	if given == "" {
		return who, nil
	}
	if no := conn.door.checkToken(given, s.options.Token); no != nil {
		return who, no
	}
	who.class, who.why = operator, "it has the token"
	return who, nil
}

// checkToken refuses all but the token. It takes one guess at a time, so that
// guesses at once are not more than guesses in a row.
func (d *door) checkToken(authorization, token string) *refusal {
	d.guessing.Lock()
	defer d.guessing.Unlock()
	if d.failures.Tokens() < 1 {
		return &refusal{kind: tooMany, detail: "Authorization: too many wrong tokens came in here", hint: "ask again in a second, with the right one"}
	}
	scheme, given, _ := strings.Cut(authorization, " ")
	bearer := strings.EqualFold(scheme, "Bearer")
	if bearer && token != "" && sameToken(strings.TrimSpace(given), token) {
		return nil
	}
	d.failures.Allow()
	detail := "Authorization: that is not ADMIN_TOKEN"
	switch {
	case token == "":
		detail = "Authorization: this worker was started without ADMIN_TOKEN, so no token is right"
	case !bearer:
		detail = "Authorization: it is not of the kind Bearer"
	}
	return &refusal{kind: badToken, detail: detail, hint: "ask over the unix socket, which needs none"}
}

// sameToken compares hashes, so that neither content nor length can be timed.
func sameToken(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// peer classes the process at the other end. Over the unix socket the kernel says
// who has made the connection, so that a command is known at once and costs no
// look at the process table, however often it asks.
func (s *Server) peer(ctx context.Context, conn *connection) (asker, *refusal) {
	onSocket := conn.door.network == "unix"
	var who asker
	if onSocket {
		if who = s.overSocket(conn); who.class != operator {
			return who, nil
		}
	}
	done, no := conn.door.look(ctx)
	if no != nil {
		return who, no
	}
	defer done()
	if onSocket {
		return s.sharer(conn, who), nil
	}
	return s.holder(conn), nil
}

// overSocket is who has made a connection over the unix socket.
func (s *Server) overSocket(conn *connection) asker {
	peer, err := peerOf(conn.Conn)
	defer peer.close()
	if err != nil || peer.pid <= 0 {
		return asker{class: unknown, why: "the kernel does not say who this is: it comes from another PID namespace"}
	}
	origin := s.options.Processes.Origin(peer.pid)
	if !origin.Found || !peer.alive() || origin.Process.StartedAt.After(conn.at.Add(startSlack)) {
		// And its child may have the connection now.
		return asker{
			class: descendant, why: "the process that made this connection, pid " + strconv.Itoa(peer.pid) + ", has ended",
			origin: observe.Origin{Process: observe.Process{PID: peer.pid}},
		}
	}
	if origin.Descendant {
		return asker{class: descendant, why: fromCommand(origin), origin: origin}
	}
	origin.UID = peer.uid
	return outsider(origin)
}

// sharer is the worst of who has a connection over the unix socket, which may be
// more than its maker: a child of that, or whoever it was sent to. Where the kernel
// does not tell (no unix_diag), its maker has to do. So it has when nobody is
// found: the files of a maker that is root can be closed to us.
func (s *Server) sharer(conn *connection, maker asker) asker {
	inode, err := inodeBehind(conn.Conn)
	if err != nil {
		return maker
	}
	if inode == 0 {
		return closedAlready
	}
	holders, _ := s.options.Processes.Holders(inode)
	return worst(maker, holders)
}

// holder is the worst of who has a connection over TCP.
func (s *Server) holder(conn *connection) asker {
	inode, err := socketInode(conn.Conn.RemoteAddr(), conn.Conn.LocalAddr())
	if err != nil {
		return asker{class: unknown, why: "the kernel does not say whose connection this is"}
	}
	if inode == 0 {
		return closedAlready
	}
	holders, hidden := s.options.Processes.Holders(inode)
	switch {
	case !connectedStill(conn.Conn): // it may have been another socket that was found
		return closedAlready
	case hidden && len(holders) == 0:
		// Nobody can be seen to hold it, and somebody cannot be seen.
		return asker{class: descendant, why: "a process that came out of a command hides its descriptors, and this connection may be its"}
	case len(holders) == 0:
		return asker{class: unknown, why: "no process can be found for this connection: it comes from another PID namespace, such as a port forward"}
	}
	return worst(asker{class: operator, why: "its process is an operator's"}, holders)
}

// closedAlready is who has closed a connection before it was looked at. Loopback
// has no other machines, so it was a process here, and a command that knows the
// token could send what it likes and be gone.
var closedAlready = asker{class: descendant, why: "the other end of this connection is closed, so whose it was cannot be told"}

// worst is the one of those who have a connection, who included, that may least.
func worst(who asker, holders []observe.Origin) asker {
	for _, h := range holders {
		if h.Descendant {
			return asker{class: descendant, why: fromCommand(h), origin: h}
		}
		if a := outsider(h); a.class != operator {
			who = a
		}
	}
	return who
}

// outsider is about a process that did not come out of a command.
func outsider(o observe.Origin) asker {
	if o.UID == 0 || o.UID == os.Geteuid() {
		return asker{class: operator, why: "its process is an operator's", origin: o}
	}
	return asker{class: unknown, why: "it is the process of user " + strconv.Itoa(o.UID) + ", who is neither root nor the worker's", origin: o}
}

func fromCommand(o observe.Origin) string {
	why := "pid " + strconv.Itoa(o.Process.PID) + " came out of a command"
	if o.Exec.ID != "" {
		why += ", that of req_id " + o.Exec.ID
	}
	return why
}
