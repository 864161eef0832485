package cluster

// A server and what a test can do to it. Each of its methods that takes a TB fails the test when the server does not
// follow, and shows the end of the server's log.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// patience bounds every step that waits for a server.
const patience = 60 * time.Second

// Mode is a way to stop a server, as pg_ctl names it.
type Mode string

// The ways to stop a server: Smart waits for its sessions to end, Fast ends them, Immediate leaves recovery to the
// next start.
const (
	Smart     Mode = "smart"
	Fast      Mode = "fast"
	Immediate Mode = "immediate"
)

// Node is a server.
type Node struct {
	host *host
	cfg  Config

	mu       sync.Mutex
	settings map[string]string
}

// Name is the Name of the Config.
func (n *Node) Name() string { return cmp.Or(n.cfg.Name, "node") }

// DSN is a conninfo string for a database of the server, for this process.
func (n *Node) DSN(database string) string { return conninfo(n.host.client, database) }

// PeerConninfo is a conninfo string for a database of the server, for other servers of its network and for programs
// that Exec runs beside them.
func (n *Node) PeerConninfo(database string) string { return conninfo(n.host.peer, database) }

func conninfo(a address, database string) string {
	database = strings.NewReplacer(`\`, `\\`, `'`, `\'`, ` `, `\ `).Replace(database)
	return fmt.Sprintf("host=%s port=%d user=postgres dbname=%s sslmode=disable", a.host, a.port, database)
}

// Connect opens a session in a database and closes it when the test ends. It waits for a server that is starting.
func (n *Node) Connect(t TB, database string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := n.connect(ctx, database)
	if err != nil {
		n.fatal(t, "connect to "+database, err)
	}
	t.Cleanup(func() { closeConn(conn) })
	return conn
}

// connect tries until ctx ends, unless the server is up and refuses.
func (n *Node) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	for {
		conn, err := pgx.Connect(ctx, n.DSN(database))
		if err == nil {
			return conn, nil
		}
		var refusal *pgconn.PgError
		const cannotConnectNow = "57P03"
		if errors.As(err, &refusal) && refusal.Code != cannotConnectNow {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// Exec runs a program on the server's host as the server's user, in a folder that it may write to. Postgres's
// programs are in its path and reach this server unless told otherwise. It returns stdout and then stderr, also with
// an error. A context without a deadline gets one of a minute.
func (n *Node) Exec(ctx context.Context, argv ...string) (string, error) {
	return n.ExecIn(ctx, "", argv...)
}

// ExecIn is Exec with something to read on stdin.
func (n *Node) ExecIn(ctx context.Context, stdin string, argv ...string) (string, error) {
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	return n.host.run(ctx, stdin, argv...)
}

// Start starts a stopped or crashed server and waits until it takes connections.
func (n *Node) Start(t TB) {
	t.Helper()
	argv := append([]string{"env"}, n.cfg.Env...)
	if n.cfg.FakeClock {
		argv = append(argv, n.fakeClockEnv(t)...)
	}
	n.must(t, append(argv, "pg_ctl", "start", "-s", "-w", "-t", seconds(patience), "-l", logFile)...)
}

// Stop stops the server.
func (n *Node) Stop(t TB, mode Mode) {
	t.Helper()
	n.must(t, "pg_ctl", "stop", "-s", "-w", "-t", seconds(patience), "-m", string(mode))
}

// Restart stops the server and starts it again.
func (n *Node) Restart(t TB, mode Mode) {
	t.Helper()
	n.Stop(t, mode)
	n.Start(t)
}

// Crash ends the server and all its sessions at once, as a power cut does, and leaves recovery to the next Start.
func (n *Node) Crash(t TB) {
	t.Helper()
	n.must(t, "sh", "-c", crashScript)
}

// Promote makes a standby a primary and waits until it is one.
func (n *Node) Promote(t TB) {
	t.Helper()
	n.must(t, "pg_ctl", "promote", "-s", "-w", "-t", seconds(patience))
}

// Set changes settings, by name as in Config. They are in force after the next Reload or Restart.
func (n *Node) Set(t TB, settings map[string]string) {
	t.Helper()
	n.mu.Lock()
	maps.Copy(n.settings, settings)
	n.mu.Unlock()
	n.writeSettings(t)
}

// Reload has the server read its settings again and waits until new sessions see them.
func (n *Node) Reload(t TB) {
	t.Helper()
	before := n.loadTime(t)
	n.must(t, "pg_ctl", "reload", "-s")
	for deadline := time.Now().Add(patience); n.loadTime(t).Equal(before); {
		if time.Now().After(deadline) {
			n.fatal(t, "reload", errors.New("the server does not read its settings"))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// loadTime is when the postmaster read its settings, as a new session sees it.
func (n *Node) loadTime(t TB) (loaded time.Time) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := n.connect(ctx, "postgres")
	if err == nil {
		defer closeConn(conn)
		err = conn.QueryRow(ctx, "SELECT pg_catalog.pg_conf_load_time()").Scan(&loaded)
	}
	if err != nil {
		n.fatal(t, "ask for the time of the last reload", err)
	}
	return loaded
}

// PostmasterPID is the process id of the running server, as programs that Exec runs know it.
func (n *Node) PostmasterPID(t TB) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(n.must(t, "head", "-n", "1", pidFile)))
	if err != nil {
		n.fatal(t, "find the postmaster", err)
	}
	return pid
}

// Processes are the ids of the server's processes, but for the postmaster, whose titles contain a text.
func (n *Node) Processes(t TB, title string) (pids []int) {
	t.Helper()
	out := n.must(t, "sh", "-c", childrenScript+`for pid in $(children "$(head -n 1 pgdata/postmaster.pid)"); do
	if grep -qFe "$1" "/proc/$pid/cmdline" 2>/dev/null; then echo "$pid"; fi
done`, "sh", title)
	for _, field := range strings.Fields(out) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			n.fatal(t, "find processes", err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// Kill kills a process of the server and waits until the server, which then ends all others too, has recovered. It says
// whether the process was there still. A PostgreSQL that is stopped in mode fast while it recovers from that would never
// end: it waits for its checkpointer, and does not tell it (seen with 15).
func (n *Node) Kill(t TB, pid int) bool {
	t.Helper()
	const again = "all server processes terminated; reinitializing"
	before := strings.Count(n.Log(t), again)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := n.host.run(ctx, "", "sh", "-c", killScript, "sh", strconv.Itoa(pid)); err != nil {
		return false
	}
	for strings.Count(n.Log(t), again) == before { // until then sessions are let in, only to be ended
		if ctx.Err() != nil {
			n.fatal(t, "kill", errors.New("the server does not start its processes anew"))
		}
		time.Sleep(20 * time.Millisecond)
	}
	conn, err := n.connect(ctx, "postgres")
	if err != nil {
		n.fatal(t, "connect after a process was killed", err)
	}
	closeConn(conn)
	return true
}

// Log is all that the server has logged so far, over all its starts.
func (n *Node) Log(t TB) string {
	t.Helper()
	return n.must(t, "cat", logFile)
}

// SetClock puts the server's wall clock ahead of the real one by offset, or behind it, in running sessions too. The
// server must have a FakeClock.
func (n *Node) SetClock(t TB, offset time.Duration) {
	t.Helper()
	if !n.cfg.FakeClock {
		t.Fatalf("server %s: SetClock needs FakeClock", n.Name())
	}
	n.write(t, clockFile, fmt.Sprintf("%+.6f\n", offset.Seconds()))
}

// The files of a server, in its host's folder.
const (
	dataDir      = "pgdata"
	pidFile      = dataDir + "/postmaster.pid"
	settingsFile = dataDir + "/node.conf"
	logFile      = "server.log"
	clockFile    = "clock"
)

// initScript makes a cluster that trusts everyone and reads the node's own settings last.
const initScript = `set -e
initdb -N -A trust -U postgres -E UTF8 --locale=C >/dev/null
echo "include 'node.conf'" >>pgdata/postgresql.conf
printf 'host all all all trust\nhost replication all all trust\n' >>pgdata/pg_hba.conf`

// childrenScript is for scripts that look at processes: the ids of one's children.
const childrenScript = `children() { grep -l "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status 2>/dev/null | cut -d / -f 3; }
`

// killScript kills a child of the postmaster. It is stopped first, since one that has ended and is not buried yet can be
// sent any signal, and nothing comes of it.
const killScript = `postmaster=$(head -n 1 pgdata/postmaster.pid)
grep -q "^PPid:[[:space:]]*$postmaster\$" "/proc/$1/status" && kill -STOP "$1" || exit 1
for try in $(seq 1000); do
	case $(sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status") in
		T*) exec kill -KILL "$1" ;;
		Z* | X* | "") exit 1 ;;
	esac
	sleep 0.01
done
exit 1`

// crashScript kills the postmaster and all its descendants. The postmaster is frozen first, so that it sees no child
// die, starts no other and ends with them. Its lock files are removed because the machine may be slow to bury the
// dead, and a dead postmaster that is not buried looks alive to the next one. Shared memory outlives a crash until
// the next start finds it; how to remove it without one is written to a script, left-behind.
const crashScript = childrenScript + `set -e
descendants() {
	for child in $(children "$1"); do
		echo "$child"
		descendants "$child"
	done
}
alive() {
	for pid in "$@"; do
		grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$pid/status" 2>/dev/null && return
	done
	false
}
postmaster=$(head -n 1 pgdata/postmaster.pid)
[ "$(readlink "/proc/$postmaster/cwd")" -ef pgdata ] || { echo "process $postmaster is not this server"; exit 1; }
kill -STOP "$postmaster"
all="$postmaster $(descendants "$postmaster")"
{
	for pid in $all; do cat "/proc/$pid/maps" 2>/dev/null || true; done |
		grep -o '/dev/shm/PostgreSQL[.0-9]*' | sort -u | sed 's/^/rm -f /'
	sed -n '7s/.* /ipcrm -m /p' pgdata/postmaster.pid
} >left-behind
kill -KILL $all 2>/dev/null || true
tries=0
while alive $all; do
	tries=$((tries + 1))
	[ $tries -lt 1000 ] || { echo "still alive: $all"; exit 1; }
	sleep 0.01
done
rm -f pgdata/postmaster.pid "$PGHOST"/.s.PGSQL.*`

// prepare fills the host's folder: a new cluster, or a copy of the primary's.
func (n *Node) prepare(t TB) {
	t.Helper()
	if primary := n.cfg.StandbyOf; primary != nil {
		n.must(t, "pg_basebackup", "--no-sync", "-R", "-X", "stream", "-c", "fast", "-D", dataDir,
			"-d", primary.PeerConninfo("postgres"))
	} else {
		n.must(t, "sh", "-c", initScript)
	}
	n.writeSettings(t)
	if n.cfg.FakeClock {
		n.SetClock(t, 0)
	}
}

// fakeClockEnv is the environment in which libfaketime reads the clock file at every look at the clock.
func (n *Node) fakeClockEnv(t TB) []string {
	t.Helper()
	library := n.must(t, "sh", "-c", "ls /usr/lib/*/faketime/libfaketimeMT.so.1")
	return []string{
		"LD_PRELOAD=" + strings.TrimSpace(library),
		"FAKETIME_TIMESTAMP_FILE=" + n.host.dir + "/" + clockFile,
		"FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1",
		"NO_FAKE_STAT=1",
	}
}

func (n *Node) currentSettings() map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.settings)
}

// writeSettings writes the node's settings where its postgresql.conf includes them.
func (n *Node) writeSettings(t TB) {
	t.Helper()
	settings := n.currentSettings()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	n.write(t, settingsFile, text.String())
}

// write replaces a file on the host in one step, so that nobody reads half of it.
func (n *Node) write(t TB, file, content string) {
	t.Helper()
	n.must(t, "sh", "-c", `printf %s "$2" >"$1.new" && mv "$1.new" "$1"`, "sh", file, content)
}

// must runs a program on the host, fails the test when that fails, and returns what it printed.
func (n *Node) must(t TB, argv ...string) string {
	t.Helper()
	// Longer than a program that bounds its own waiting takes, so that its message is seen.
	ctx, cancel := context.WithTimeout(context.Background(), patience+10*time.Second)
	defer cancel()
	out, err := n.host.run(ctx, "", argv...)
	if err != nil {
		n.fatal(t, strings.Join(argv, " "), err)
	}
	return out
}

// fatal ends the test with what failed, what the server's processes do, and the end of its log.
func (n *Node) fatal(t TB, what string, err error) {
	t.Helper()
	t.Fatalf("server %s: %s: %v\nits processes:\n%sits log ends so:\n%s", n.Name(), what, err,
		n.look("sh", "-c", processesScript), n.logTail())
}

func (n *Node) logTail() string { return n.look("tail", "-n", "40", logFile) }

// processesScript lists the postmaster and its children: id, state, the kernel's function where each waits, and title.
const processesScript = childrenScript + `p=$(head -n 1 pgdata/postmaster.pid)
for pid in "$p" $(children "$p"); do
	echo "$pid" "$(sed -n 's/^State:[[:space:]]*//p' "/proc/$pid/status")" "$(cat "/proc/$pid/wchan")" "$(tr '\0' ' ' <"/proc/$pid/cmdline")"
done`

// look runs a program that shows how the server is, and returns what it printed, or why not.
func (n *Node) look(argv ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := n.host.run(ctx, "", argv...)
	if err != nil {
		return err.Error() + "\n"
	}
	return out
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }
