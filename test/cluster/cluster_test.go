package cluster_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"pgsnowflake/test/cluster"
)

var backend cluster.Backend

func TestMain(m *testing.M) {
	var err error
	if backend, err = cluster.Open(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "no server to test with:", err)
		os.Exit(1)
	}
	fmt.Printf("backend %s, PostgreSQL %d\n", backend.Name(), backend.Major())
	os.Exit(m.Run())
}

func exec(t *testing.T, c *pgx.Conn, sql string) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func one[T any](t *testing.T, c *pgx.Conn, sql string) (v T) {
	t.Helper()
	if err := c.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func want[T comparable](t *testing.T, what string, got, wanted T) {
	t.Helper()
	if got != wanted {
		t.Errorf("%s: %v wanted, got %v", what, wanted, got)
	}
}

func TestSettings(t *testing.T) {
	node := backend.Start(t, cluster.Config{Name: "it's me", Settings: map[string]string{"work_mem": "5MB"}})
	show := func(name string) string {
		t.Helper()
		return one[string](t, node.Connect(t, "postgres"), "SHOW "+name)
	}
	want(t, "cluster_name", show("cluster_name"), "it's me")
	want(t, "work_mem", show("work_mem"), "5MB")
	want(t, "max_connections", show("max_connections"), "200")
	want(t, "fsync", show("fsync"), "on")
	want(t, "major", one[int](t, node.Connect(t, "template1"), "SELECT current_setting('server_version_num')::int / 10000"),
		backend.Major())

	node.Set(t, map[string]string{"work_mem": "6MB"})
	want(t, "work_mem before a reload", show("work_mem"), "5MB")
	node.Reload(t)
	want(t, "work_mem after a reload", show("work_mem"), "6MB")
	node.Set(t, map[string]string{"max_connections": "50"})
	node.Restart(t, cluster.Fast)
	want(t, "max_connections after a restart", show("max_connections"), "50")
}

func TestExec(t *testing.T) {
	node := backend.Start(t, cluster.Config{Env: []string{"SNOWFLAKE_MARK=here"}})
	ctx := t.Context()

	out, err := node.Exec(ctx, "psql", "-Atc", "SELECT 6 * 7")
	want(t, "psql", out, "42\n")
	want(t, "psql's error", err, nil)
	out, err = node.Exec(ctx, "psql", "-Atc", "SELECT 6 * 7", node.PeerConninfo("template1"))
	want(t, "psql by PeerConninfo", out, "42\n")
	want(t, "its error", err, nil)
	out, err = node.ExecIn(ctx, "SELECT 6 *\n7;", "psql", "-At")
	want(t, "psql's stdin", out, "42\n")
	want(t, "its error", err, nil)

	out, err = node.Exec(ctx, "sh", "-c", "echo seen; echo wrong >&2; exit 3")
	want(t, "output of a failure", out, "seen\nwrong\n")
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "wrong") {
		t.Errorf("the error is %v", err)
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := node.Exec(short, "sleep", "20"); err == nil || time.Until(deadline(short)) < -10*time.Second {
		t.Errorf("a program that outlives its context ended with %v", err)
	}

	status, err := node.Exec(ctx, "cat", fmt.Sprintf("/proc/%d/environ", node.PostmasterPID(t)))
	if err != nil || !strings.Contains(status, "SNOWFLAKE_MARK=here\x00") {
		t.Errorf("the postmaster's environment is %q, %v", status, err)
	}
}

func deadline(ctx context.Context) time.Time {
	d, _ := ctx.Deadline()
	return d
}

func TestStopAndCrash(t *testing.T) {
	node := backend.Start(t, cluster.Config{})
	first := node.Connect(t, "postgres")
	exec(t, first, "CREATE TABLE kept (how text)")

	again := []struct {
		how     string
		end     func()
		recover bool
	}{
		{"fast", func() { node.Restart(t, cluster.Fast) }, false},
		{"immediate", func() { node.Restart(t, cluster.Immediate) }, true},
		{"crash", func() { node.Crash(t); node.Start(t) }, true},
		{"crash again", func() { node.Crash(t); node.Start(t) }, true},
	}
	for _, step := range again {
		session := node.Connect(t, "postgres")
		exec(t, session, "INSERT INTO kept VALUES ('"+step.how+"')")
		pid, logged := node.PostmasterPID(t), len(node.Log(t))
		step.end()
		if session.Ping(t.Context()) == nil {
			t.Errorf("%s: a session lives on", step.how)
		}
		if node.PostmasterPID(t) == pid {
			t.Errorf("%s: the postmaster is the same", step.how)
		}
		log := node.Log(t)[logged:]
		want(t, step.how+": recovery in the log", strings.Contains(log, "was not properly shut down"), step.recover)
		want(t, step.how+": rows", one[int](t, node.Connect(t, "postgres"),
			"SELECT count(*) FROM kept WHERE how = '"+step.how+"'"), 1)
	}
}

// A server one of whose processes was killed can be stopped at once after Kill, which it could not while it recovers.
func TestKill(t *testing.T) {
	node := backend.Start(t, cluster.Config{})
	for range 3 {
		session := node.Connect(t, "postgres")
		exec(t, session, "CREATE TABLE IF NOT EXISTS t AS SELECT 1 AS n")
		exec(t, session, "INSERT INTO t SELECT generate_series(1, 300000)")
		want(t, "the session was killed", node.Kill(t, int(session.PgConn().PID())), true)
		if session.Ping(t.Context()) == nil {
			t.Error("the session lives on")
		}
		if pids := node.Processes(t, "checkpointer"); len(pids) != 1 {
			t.Errorf("%d checkpointers", len(pids))
		}
		node.Restart(t, cluster.Fast)
	}
	want(t, "what is no process was killed", node.Kill(t, 1<<22+1), false)
	want(t, "the postmaster was killed", node.Kill(t, node.PostmasterPID(t)), false)
}

// recorder keeps what a failed test would say.
type recorder struct {
	*testing.T
	said string
}

func (r *recorder) Fatalf(format string, args ...any) { r.said = fmt.Sprintf(format, args...) }

// A step that fails says what the server was doing, since nobody can look later.
func TestFailureShowsTheServer(t *testing.T) {
	node := backend.Start(t, cluster.Config{})
	r := &recorder{T: t}
	node.Start(r) // it runs already
	for _, part := range []string{"pg_ctl start", "its processes:", "checkpointer", "its log ends so:", "ready to accept connections"} {
		if !strings.Contains(r.said, part) {
			t.Errorf("a failure does not show %q: %s", part, r.said)
		}
	}
}

func TestStandby(t *testing.T) {
	primary := backend.Start(t, cluster.Config{Name: "primary",
		Settings: map[string]string{"max_connections": "300"}})
	on := primary.Connect(t, "postgres")
	exec(t, on, "CREATE TABLE replicated AS SELECT 1 AS n")
	standby := backend.Start(t, cluster.Config{Name: "standby", StandbyOf: primary})
	exec(t, on, "INSERT INTO replicated VALUES (2)")
	primary.Restart(t, cluster.Fast)
	on = primary.Connect(t, "postgres")
	exec(t, on, "INSERT INTO replicated VALUES (3)")

	there := standby.Connect(t, "postgres")
	for start := time.Now(); one[int](t, there, "SELECT count(*) FROM replicated") < 3; {
		if time.Since(start) > 30*time.Second {
			t.Fatalf("nothing arrives; the standby says:\n%s", standby.Log(t))
		}
		time.Sleep(20 * time.Millisecond)
	}
	want(t, "the standby's name at the primary",
		one[string](t, on, "SELECT application_name FROM pg_stat_replication"), "standby")
	want(t, "in recovery", one[bool](t, there, "SELECT pg_is_in_recovery()"), true)
	primary.Crash(t)
	standby.Promote(t)
	want(t, "in recovery after Promote", one[bool](t, there, "SELECT pg_is_in_recovery()"), false)
	exec(t, there, "INSERT INTO replicated VALUES (4)")
}

func TestClock(t *testing.T) {
	node := backend.Start(t, cluster.Config{FakeClock: true})
	session := node.Connect(t, "postgres")
	for _, offset := range []time.Duration{0, time.Hour, -time.Hour, 1500 * time.Millisecond, -250 * time.Millisecond, 0} {
		node.SetClock(t, offset)
		before := time.Now()
		there := one[time.Time](t, session, "SELECT clock_timestamp()")
		after := time.Now()
		if there.Before(before.Add(offset-time.Millisecond)) || there.After(after.Add(offset+time.Millisecond)) {
			t.Errorf("with offset %v the clock is off by %v to %v", offset, there.Sub(after), there.Sub(before))
		}
	}
	node.SetClock(t, -time.Hour)
	node.Restart(t, cluster.Immediate)
	there := one[time.Time](t, node.Connect(t, "postgres"), "SELECT pg_postmaster_start_time()")
	if ago := time.Since(there); ago < 59*time.Minute || ago > 61*time.Minute {
		t.Errorf("a server started an hour behind says it started %v ago", ago)
	}
}

func TestPeers(t *testing.T) {
	network := backend.NewNetwork(t)
	a, b := backend.Start(t, cluster.Config{Name: "a"}), backend.Start(t, cluster.Config{Name: "b"})
	ask := func(conninfo string) string {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		out, err := a.Exec(ctx, "psql", "-At", "-c", "SHOW cluster_name", conninfo)
		if err != nil {
			return "nothing"
		}
		return strings.TrimSpace(out)
	}
	want(t, "by PeerConninfo", ask(b.PeerConninfo("postgres")), "b")
	stillHere := func() {
		t.Helper()
		want(t, "from this process", one[string](t, a.Connect(t, "postgres"), "SHOW cluster_name"), "a")
	}
	network.Join(t, a)
	network.Join(t, b)
	stillHere()
	conninfo := network.Conninfo(t, b, "postgres")
	want(t, "in a network", ask(conninfo), "b")
	want(t, "whether a network can be cut", network.CanCut(), backend.Name() == "docker")
	if network.CanCut() {
		network.Cut(t, a)
		want(t, "in a network that was cut", ask(conninfo), "nothing")
		want(t, "beside it", ask(b.PeerConninfo("postgres")), "b")
		stillHere()
		network.Join(t, a)
		stillHere()
		want(t, "in the mended network", ask(conninfo), "b")
	}
}
