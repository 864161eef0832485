package test

import (
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"pgsnowflake/test/cluster"
)

// What Go in a backend must leave alone: threads, signals, memory, other libraries.

// pid is the process of a session.
func pid(t testing.TB, c *pgx.Conn) int {
	return int(c.PgConn().PID())
}

// run executes a program on a node's host.
func run(t testing.TB, node *cluster.Node, argv ...string) string {
	t.Helper()
	out, err := node.Exec(background(t), argv...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return out
}

// kilobytes reads a line of /proc/PID/status that ends in kB.
func kilobytes(t testing.TB, node *cluster.Node, pid int, name string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.Fields(statusOf(t, node, pid)[name])[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// statusOf reads /proc/PID/status.
func statusOf(t testing.TB, node *cluster.Node, pid int) map[string]string {
	t.Helper()
	return parseStatus(run(t, node, "cat", fmt.Sprintf("/proc/%d/status", pid)))
}

func parseStatus(text string) map[string]string {
	status := make(map[string]string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		status[name] = strings.TrimSpace(value)
	}
	return status
}

// threadsOf reads the status of every thread of a process, the first thread first.
func threadsOf(t testing.TB, node *cluster.Node, pid int) (threads []map[string]string) {
	t.Helper()
	text := run(t, node, "sh", "-c", fmt.Sprintf("cat /proc/%d/task/*/status", pid))
	for _, one := range strings.Split(text, "Name:")[1:] {
		threads = append(threads, parseStatus("Name:"+one))
	}
	for i, thread := range threads {
		if thread["Pid"] == strconv.Itoa(pid) {
			threads[0], threads[i] = threads[i], threads[0]
		}
	}
	return threads
}

// The signals of Postgres, by number on Linux.
var postgresSignals = map[string]int{
	"HUP": 1, "INT": 2, "QUIT": 3, "PIPE": 13, "ALRM": 14, "TERM": 15, "USR1": 10, "USR2": 12, "URG": 23,
}

// signalSet reads a set of signals from /proc.
func signalSet(t testing.TB, hex string) uint64 {
	t.Helper()
	set, err := strconv.ParseUint(hex, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestThreadsAndSignals(t *testing.T) {
	c := connect(t)
	before := threadsOf(t, shared, pid(t, c))
	if len(before) != 1 {
		t.Fatalf("a session has %d threads before the library is loaded", len(before))
	}
	exec(t, c, "LOAD 'snowflake'; SHOW snowflake.worker_id")
	if n := len(threadsOf(t, shared, pid(t, c))); n != 1 {
		t.Fatalf("loading the library starts %d threads", n-1)
	}
	exec(t, c, "SELECT snowflake_next()")
	checkThreads(t, c, before[0], "after an id")
	exec(t, c, "SELECT uuidv7(), snowflake_parse(1)")
	wantError(t, tryExec(t, c, "SELECT 1/0"), "22012")
	wantError(t, tryExec(t, c, "SELECT snowflake_parse(-1)"), "22023")
	exec(t, c, "SELECT snowflake_next()")
	checkThreads(t, c, before[0], "after an error")
}

// checkThreads fails unless Go's threads take no signal of Postgres and the first thread's sets are what they were.
func checkThreads(t *testing.T, c *pgx.Conn, before map[string]string, when string) {
	t.Helper()
	threads := threadsOf(t, shared, pid(t, c))
	if len(threads) < 2 || len(threads) > 8 {
		t.Errorf("%s: %d threads", when, len(threads))
	}
	for _, thread := range threads[1:] {
		blocked := signalSet(t, thread["SigBlk"])
		for name, number := range postgresSignals {
			if blocked>>(number-1)&1 == 0 {
				t.Errorf("%s: a thread of Go does not block SIG%s", when, name)
			}
		}
	}
	for _, set := range []string{"SigBlk", "SigIgn"} {
		if threads[0][set] != before[set] {
			t.Errorf("%s: %s of the first thread was %s and is %s", when, set, before[set], threads[0][set])
		}
	}
	// Go catches what its own code may raise: SIGBUS and SIGSEGV (SIGFPE is caught already). glibc catches 33, from
	// the start or once there are threads.
	const gos = 1<<(7-1) | 1<<(11-1) | 1<<(33-1)
	was, is := signalSet(t, before["SigCgt"]), signalSet(t, threads[0]["SigCgt"])
	if was|gos != is|gos {
		t.Errorf("%s: SigCgt of the first thread was %x and is %x", when, was, is)
	}
}

func TestIdleSessionCostsNothing(t *testing.T) {
	c := connect(t)
	exec(t, c, "SELECT snowflake_next(), uuidv7()")
	cost := func() (ticks, switches int64) {
		stat := strings.Fields(run(t, shared, "cat", fmt.Sprintf("/proc/%d/stat", pid(t, c))))
		user, _ := strconv.ParseInt(stat[13], 10, 64)
		system, _ := strconv.ParseInt(stat[14], 10, 64)
		for _, thread := range threadsOf(t, shared, pid(t, c)) {
			n, _ := strconv.ParseInt(thread["voluntary_ctxt_switches"], 10, 64)
			switches += n
		}
		return user + system, switches
	}
	time.Sleep(time.Second) // what the first call started comes to rest
	ticks, switches := cost()
	time.Sleep(5 * time.Second)
	ticksAfter, switchesAfter := cost()
	if ticksAfter != ticks || switchesAfter > switches+1 {
		t.Errorf("an idle session used %d ticks and %d context switches in 5 s", ticksAfter-ticks, switchesAfter-switches)
	}
}

// The library may come in by any of the ways that Postgres has; the postmaster stays without threads.
func TestWaysToLoad(t *testing.T) {
	for name, settings := range map[string]map[string]string{
		"shared_preload_libraries":  {"shared_preload_libraries": "snowflake"},
		"session_preload_libraries": {"session_preload_libraries": "snowflake"},
	} {
		t.Run(name, func(t *testing.T) {
			node := backend.Start(t, cluster.Config{Name: "load", Settings: settings})
			database := newDatabase(t, node)
			a, b := node.Connect(t, database), node.Connect(t, database)
			if n := len(threadsOf(t, node, pid(t, a))); n != 1 {
				t.Errorf("a new session has %d threads", n)
			}
			idsA, errA := nextIDs(a, 1000)
			idsB, errB := nextIDs(b, 1000)
			if errA != nil || errB != nil {
				t.Fatal(errA, errB)
			}
			wantDistinct(t, idsA, idsB)
			if n := len(threadsOf(t, node, node.PostmasterPID(t))); n != 1 {
				t.Errorf("the postmaster has %d threads", n)
			}
			node.Restart(t, "fast")
			if _, err := nextIDs(node.Connect(t, database), 1000); err != nil {
				t.Error(err)
			}
		})
	}
	if n := len(threadsOf(t, shared, shared.PostmasterPID(t))); n != 1 {
		t.Errorf("the postmaster has %d threads", n)
	}
}

// With asynchronous preemption Go would take SIGURG from Postgres 14 and later, and sessions would sleep through
// their wake-ups: a second or for ever instead of milliseconds.
func TestWakeUps(t *testing.T) {
	database := newDatabase(t, shared)
	waiter, other := shared.Connect(t, database), shared.Connect(t, database)
	exec(t, other, "CREATE TABLE t AS SELECT 1 AS n")
	exec(t, waiter, "SELECT snowflake_next(); LISTEN news")
	exec(t, other, "SELECT snowflake_next()")
	wantError(t, tryExec(t, waiter, "SELECT 1/0"), "22012")

	slow := 0
	measure := func(what string, began time.Time) {
		if took := time.Since(began); took > 200*time.Millisecond {
			slow++
			t.Logf("%s after %v", what, took)
		}
	}
	for range 100 {
		exec(t, waiter, "SELECT snowflake_next()")
		exec(t, other, "BEGIN; UPDATE t SET n = n + 1")
		done := make(chan error, 1)
		go func() { done <- tryExec(t, waiter, "UPDATE t SET n = n - 1") }()
		for one[bool](t, other, "SELECT NOT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)", pid(t, waiter)) {
			time.Sleep(time.Millisecond)
		}
		began := time.Now()
		exec(t, other, "COMMIT")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		measure("lock granted", began)

		began = time.Now()
		exec(t, other, "NOTIFY news")
		if _, err := waiter.WaitForNotification(background(t)); err != nil {
			t.Fatal(err)
		}
		measure("notification", began)
	}
	if slow > 2 { // a busy machine may delay one; a lost wake-up shows in every third
		t.Errorf("%d of 200 wake-ups took longer than 200 ms", slow)
	}
}

func TestPanicsAreErrors(t *testing.T) {
	c := connect(t)
	useVariant(t, c, "panic")
	session := pid(t, c)
	wantError(t, tryExec(t, c, "SELECT snowflake_parse(42)"), "XX000", "injected panic")
	wantError(t, tryExec(t, c, "SELECT snowflake_parse(43)"), "XX000", "nil pointer")
	wantError(t, tryExec(t, c, "SELECT * FROM snowflake_next(43)"), "XX000", "injected panic")
	exec(t, c, "SELECT snowflake_next(), snowflake_parse(44)")
	if one[int](t, c, "SELECT pg_backend_pid()") != session {
		t.Error("the session did not live on")
	}
}

// An error that jumped over frames of Go would leak them (golang/go#63829, relytcloud/pg_ducklake#239).
func TestErrorsLeaveMemoryFlat(t *testing.T) {
	c := connect(t)
	exec(t, c, `CREATE FUNCTION fail(n integer) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			FOR i IN 1 .. n LOOP
				BEGIN
					IF i % 4 = 0 THEN PERFORM 1 / (i % 4);
					ELSIF i % 4 = 1 THEN PERFORM * FROM snowflake_next(-1);
					ELSIF i % 4 = 2 THEN PERFORM uuidv7('100000 years');
					ELSE PERFORM snowflake_parse(-1); END IF;
					RAISE 'no error';
				EXCEPTION WHEN invalid_parameter_value OR division_by_zero OR datetime_field_overflow THEN NULL;
				END;
			END LOOP;
		END $$`)
	exec(t, c, "SELECT snowflake_next(); SELECT fail(20000)")
	before := kilobytes(t, shared, pid(t, c), "RssAnon")
	exec(t, c, "SELECT fail(100000)")
	if grown := kilobytes(t, shared, pid(t, c), "RssAnon") - before; grown > 2*1024 {
		t.Errorf("100,000 errors cost %d kB", grown)
	}
	exec(t, c, "SELECT snowflake_next(); SET statement_timeout = 100")
	wantError(t, tryExec(t, c, "SELECT pg_sleep(10)"), "57014", "statement timeout")
}

// What the first id adds to a session, where nothing is overcommitted: Go's runtime alone would add 42 MB, or 80 MB with
// stacks of the usual size. Memory of the server's that the session touched for the first time does not count.
func TestMemoryOfASession(t *testing.T) {
	c := connect(t)
	exec(t, c, "SELECT count(*) FROM pg_class; SELECT uuidv7_timestamp(NULL)")
	committed := kilobytes(t, shared, pid(t, c), "VmData")
	private := kilobytes(t, shared, pid(t, c), "RssAnon")
	exec(t, c, "SELECT snowflake_next(), uuidv7()")
	committed = kilobytes(t, shared, pid(t, c), "VmData") - committed
	private = kilobytes(t, shared, pid(t, c), "RssAnon") - private
	if committed > 16<<10 || private > 1536 {
		t.Errorf("the first id adds %d kB of committed and %d kB of private memory", committed, private)
	}
}

// A forked copy of a session has no threads of Go (golang/go#16855): it refuses instead of hanging.
func TestForkedCopyRefuses(t *testing.T) {
	c := connect(t)
	useVariant(t, c, "fork")
	exec(t, c, "SET statement_timeout = '20s'")
	if !one[bool](t, c, "SELECT snowflake_release()") {
		t.Error("the copy did not refuse with 55000")
	}
	exec(t, c, "SELECT snowflake_next()")
}

// Go aborts a process to which threads or address space are denied, and with it the server; so we ask first.
func TestNoThreadsOrAddressSpace(t *testing.T) {
	c := connect(t)
	run(t, shared, "prlimit", "--as=400000000", "--pid", strconv.Itoa(pid(t, c)))
	wantError(t, tryExec(t, c, "SELECT snowflake_next()"), "53200", "address space", "LimitAS")
	exec(t, c, "SELECT 1")
}

func TestNoRoomInSharedMemory(t *testing.T) {
	node := backend.Start(t, cluster.Config{Name: "full"})
	c := node.Connect(t, newDatabase(t, node))
	useVariant(t, c, "shmem")
	wantError(t, tryExec(t, c, "SELECT snowflake_next()"), "53200", "shared memory", "shared_preload_libraries")
	exec(t, c, "SELECT uuidv7(), snowflake_parse(1)")
}

// The two tests below look at what was built, not at a server.

func TestLibraryExportsOnlyEntryPoints(t *testing.T) {
	out, err := command("nm", "-D", "--defined-only", "../snowflake.so")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	allowed := regexp.MustCompile(`^(Pg_magic_func|_PG_init|(pg_finfo_)?snowflake_[a-z0-9_]+)$`)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, line := range lines {
		if fields := strings.Fields(line); !allowed.MatchString(fields[2]) {
			t.Errorf("the library exports %s", fields[2])
		}
	}
	if len(lines) < 10 {
		t.Errorf("only %d symbols: is this the library?", len(lines))
	}
	out, _ = command("nm", "-D", "--undefined-only", "../snowflake.so")
	if !strings.Contains(out, "errstart") {
		t.Error("the library does not use the server it is loaded into")
	}
}

func TestEngineIsLight(t *testing.T) {
	out, err := command("go", "list", "-deps", "pgsnowflake/engine")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, heavy := range []string{"net", "os", "os/signal", "os/exec", "fmt", "time", "crypto/rand", "reflect", "unicode"} {
		for _, line := range strings.Fields(out) {
			if line == heavy {
				t.Errorf("the engine depends on %s", heavy)
			}
		}
	}
	if !strings.Contains(out, "pgsnowflake/gen") {
		t.Error("the engine does not depend on gen: is this its list?")
	}
}

// A build that lacks something stops with the name of the package that brings it.
func TestMakeNamesWhatIsMissing(t *testing.T) {
	for variable, text := range map[string]string{
		"GO=/nowhere/go": "install golang-go", "PG_CONFIG=/nowhere/pg_config": "install postgresql-server-dev-",
	} {
		if out, err := command("make", "-n", "-C", "..", variable); err == nil || !strings.Contains(out, text) {
			t.Errorf("make %s: %v\n%s", variable, err, out)
		}
	}
	for _, program := range []string{"gcc", "objcopy"} {
		path := t.TempDir() // a machine with everything but this program
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			entries, _ := os.ReadDir(dir)
			for _, entry := range entries {
				if entry.Name() != program {
					os.Symlink(dir+"/"+entry.Name(), path+"/"+entry.Name()) // the first in the path wins
				}
			}
		}
		out, err := command("env", "PATH="+path, path+"/make", "-n", "-C", "..")
		if err == nil || !strings.Contains(out, "install "+map[string]string{"gcc": "gcc", "objcopy": "binutils"}[program]) {
			t.Errorf("make without %s: %v\n%s", program, err, out)
		}
	}
}

func command(name string, args ...string) (string, error) {
	out, err := osexec.Command(name, args...).CombinedOutput()
	return string(out), err
}
