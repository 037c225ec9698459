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
	if !conn.door.asks.Allow() {
		return asker{}, &refusal{
			kind: tooMany, detail: "more requests come in here than can be looked into",
			hint: "ask again in a second, or over the unix socket, which is counted apart",
		}
	}
	conn.door.looking.Lock() // one look at the process table at a time
	who := s.peer(conn)
	conn.door.looking.Unlock()
	if who.class == descendant {
		return who, nil
	}
	token, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case r.Header.Get("Authorization") == "":
		return who, nil
	case conn.door.failures.Tokens() < 1:
		return who, &refusal{kind: tooMany, detail: "Authorization: too many wrong tokens came in here", hint: "ask again in a second, with the right one"}
	case given && s.options.Token != "" && sameToken(token, s.options.Token):
		who.class, who.why = operator, "it has the token"
		return who, nil
	}
	conn.door.failures.Allow()
	detail := "Authorization: that is not ADMIN_TOKEN"
	switch {
	case s.options.Token == "":
		detail = "Authorization: this worker was started without ADMIN_TOKEN, so no token is right"
	case !given:
		detail = "Authorization: it is not of the kind Bearer"
	}
	return who, &refusal{kind: badToken, detail: detail, hint: "ask over the unix socket, which needs none"}
}

// sameToken compares hashes, so that neither content nor length can be timed.
func sameToken(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// peer classes the process at the other end.
func (s *Server) peer(conn *connection) asker {
	if conn.door.network == "unix" {
		return s.overSocket(conn)
	}
	inode, err := socketInode(conn.Conn.RemoteAddr(), conn.Conn.LocalAddr())
	if err != nil || inode == 0 { // of another network namespace, or closed already
		return asker{class: unknown, why: "no process is known for this connection"}
	}
	holders, hidden := s.options.Processes.Holders(inode)
	worst := asker{class: operator, why: "its process is an operator's"}
	for _, h := range holders {
		if a := outsider(h); a.class != operator {
			worst = a
		}
		if h.Descendant {
			return asker{class: descendant, why: fromCommand(h), origin: h}
		}
	}
	switch {
	case hidden && len(holders) == 0:
		// Nobody can be seen to hold it, and somebody cannot be seen.
		return asker{class: descendant, why: "a process that came out of a command hides its descriptors, and this connection may be its"}
	case len(holders) == 0:
		return asker{class: unknown, why: "no process can be found for this connection: it comes from another PID namespace, such as a port forward"}
	}
	return worst
}

// overSocket is about a connection over the unix socket: the kernel knows who
// has made it.
func (s *Server) overSocket(conn *connection) asker {
	peer, err := peerOf(conn.Conn)
	defer peer.close()
	if err != nil || peer.pid <= 0 {
		return asker{class: unknown, why: "the kernel does not say who this is: it comes from another PID namespace"}
	}
	origin := s.options.Processes.Origin(peer.pid)
	if !origin.Found || !peer.alive() || origin.Process.StartedAt.After(conn.at.Add(startSlack)) {
		// What made it is gone, and its child may have it now.
		return asker{class: descendant, why: "the process that made this connection, pid " + strconv.Itoa(peer.pid) + ", has ended"}
	}
	if origin.Descendant {
		return asker{class: descendant, why: fromCommand(origin), origin: origin}
	}
	origin.UID = peer.uid
	return outsider(origin)
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
