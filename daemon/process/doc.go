// Package process starts and ends every child process of the program. Every
// process that comes out of a child is known to belong to it, however it has
// detached itself, and can be made to be gone with proof. It needs no privilege.
//
// # Words
//
// A main is the child itself. Its tree is main and all living descendants of it.
// The owner is this process: a child subreaper, to which the kernel gives each
// orphan of its trees. To sweep a tree is to kill and reap until the proof
// holds. Survivors are what is left of a tree whose main ended by itself.
//
// # Tag
//
// RLIMIT_LOCKS binds nobody since Linux 2.4.25 (getrlimit(2)), but the kernel
// still keeps it and copies it at every fork; whoever is not privileged can
// lower it and never raise it. So the owner lowers its own by a random step for
// each tree, and whoever bears a tree's number belongs to that tree
// (tags in tag.go). Three kinds of process bear another number:
//
//   - A rogue has lowered its own. It is a member of its parent's tree while it
//     has one, and killed on sight once it is adopted. A child that this program
//     starts by another way than Spawn looks just like one.
//   - A foreign process bears our own original limit or more: it comes from
//     outside all trees. Adopted, it is reaped when it ends and never signalled.
//   - Whoever reads a younger sibling's number and takes it dies with that
//     sibling. Root, which can raise the limit, can hide, as it can kill us.
//
// # Spawn
//
// The number is inherited at clone, so our own must stay what it is from the
// moment it is lowered until the child exists (gate in spawn.go). The tree is in
// the books under its number before that, so whoever meets the child before
// main's own number is known leaves it alone. Should main change its number
// before that, it is left alone as well (unsure.go): a child that is first seen
// while spawns are under way, and may be the main of one, is not reaped, and not
// taken for a rogue, before those have entered their mains.
//
// # Sweep and proof
//
// A sweep kills main's group, then those of our children that bear the tag, then
// what a scan of the whole process table finds of it, round by round. Main is
// not reaped before the last of our other children that bear the tag: until then
// its number, and its group's, can mean nobody else.
//
// A process of a tree has a parent in the tree, or it is ours: so a tree that is
// not gone has a child of ours in it. The one way around is to enter a sibling's
// PID namespace and to be orphaned there, hence the scan. The proof is two looks
// in a row, each of the table and then of our children, that find nothing, with
// nobody reaped meanwhile (judgeLocked). A process that is dead to its last
// thread, and is somebody else's to reap, is not in the way of it.
//
// It ends because a process with a pending SIGKILL cannot fork, and what has
// lost its parent comes to us. What cannot be killed is named when the deadline
// has passed, and looked at each second from then on.
//
// # Signals
//
// All go through one function (signaller.send), which refuses what can never be
// meant. A child of ours is pinned until we reap it. Any other process is
// signalled through a pidfd, after its tag was read behind that pidfd; any other
// group than main's while one of its members is stopped (fence.go).
//
// # Looking closely
//
// Inspect reads what the processes of trees do, Origin where a process comes
// from, Holders who has a socket. Origin errs to one side only: what it cannot
// tell from a descendant is one. Its ground is that whoever came out of a tree
// has us among its ancestors for as long as it lives, for we are the subreaper.
//
// # Goroutines
//
// The keeper (keep) looks, kills and reaps; nothing else does, but that Release
// reaps a main and Sweep sends the first kill. A watcher for each main that has
// lived for a while, or that somebody asked Done of, waits for its end. Close
// waits for all of them. Nobody ever waits for any child: a status that another
// part of the program waits for would be lost.
//
// # Locks
//
// Owner.mu makes look, kill and reap one step, and the entry of a main another.
// The gate's lock orders forks and is not held while they run. The lists of
// children have locks of their own. Order: gate.mu, Owner.mu, children.mu,
// forker.mu. No lock is held while OnRogue is called, and the keeper's own
// state has none.
//
// # Levels
//
// LevelBase is all of this. Where RLIMIT_LOCKS cannot be used, RLIMIT_RTTIME is.
// Where neither can, the number travels in the environment, and a process that
// has cleared it and lost its parents is not found: LevelReduced.
//
// A worker inside another worker's tree works. To the outer one it is a rogue:
// it dies when it is adopted, so it cannot be a survivor.
//
// Linux 5.4 and a /proc of our own PID namespace are needed.
package process
