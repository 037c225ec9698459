package observe

import "time"

// Inspection is what the kernel shows of an exec's processes, for whoever wants
// to know why it is stuck.
type Inspection struct {
	At        time.Time
	Window    time.Duration // between the two looks that InWindow is taken from; 0 when there was one look only
	Processes []ProcessDetail
	More      int          // processes that are not listed
	Pipes     []PipeHolder // who holds its stdin, stdout and stderr; only if files were asked for
	// Unreadable says what could not be read, a sentence each. What is not said
	// to be unreadable and is not there does not exist.
	Unreadable []string
}

// ProcessDetail is a process of a tree, looked at closely.
type ProcessDetail struct {
	Process
	Main     bool
	Group    int
	Session  int // another one than main's: it has called setsid
	Threads  int
	RSSBytes int64
	CPU      time.Duration // used so far, all threads together
	InWindow time.Duration // used in the Window
	Command  string        // its arguments with spaces between; untrusted; empty when unreadable
	// Call is the system call that its main thread sleeps in; empty when it runs
	// in user mode or that cannot be read.
	Call string
	FD   int    // the descriptor that Call is about; -1 when about none
	File string // what FD is: pipe:[812], /dev/pts/3; untrusted
	// LockHolder holds the file lock that Call waits for; its PID is 0 when it
	// waits for none or that is not known.
	LockHolder Process
}

// PipeHolder is a process that holds one of an exec's pipes open.
type PipeHolder struct {
	Process Process
	Command string // as in ProcessDetail
	Stream  string // stdin, stdout or stderr of the exec
	FD      int
	Writes  bool // it can write to it
	Member  bool // it is of the exec's tree
	Session int
}

// Origin says where a process comes from.
type Origin struct {
	Process Process
	UID     int  // effective
	Found   bool // else nothing is known of it, not even that it exists
	// Descendant: it came out of a command, or cannot be told from one that did.
	Descendant bool
	Exec       ID     // of a descendant's tree; zero when that is not known
	Seq        uint64 // of the same execution
}
