package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"pgsnowflake/test/cluster"
)

// Servers that lease their worker ids from another one.

const leaseTTL = 2 * time.Second

// soon is within a lease, on a machine that has much else to do.
const soon = leaseTTL + 15*time.Second

// lessee starts a server that leases from the arbiter that conninfo names; settings come on top.
func lessee(t *testing.T, name, conninfo string, settings map[string]string) *cluster.Node {
	t.Helper()
	all := map[string]string{
		"shared_preload_libraries": "snowflake_keeper", "snowflake.lease_conninfo": conninfo,
		"snowflake.lease_ttl": fmt.Sprintf("%dms", leaseTTL.Milliseconds()),
	}
	for name, value := range settings {
		all[name] = value
	}
	return backend.Start(t, cluster.Config{Name: name, Settings: all})
}

// newArbiter starts a server that lends worker ids, and returns it and how others reach it.
func newArbiter(t *testing.T) (node *cluster.Node, conninfo string) {
	t.Helper()
	node = backend.Start(t, cluster.Config{Name: "arbiter"})
	return node, node.PeerConninfo(arbiterDatabase(t, node, leaseTTL))
}

// within fails the test unless something becomes so in time; why says what it is instead.
func within(t testing.TB, limit time.Duration, what string, so func() bool, why func() string) time.Duration {
	t.Helper()
	started := time.Now()
	for !so() {
		if time.Since(started) > limit {
			t.Fatalf("%s: not within %v: %s", what, limit, why())
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(started)
}

func leaseState(t testing.TB, c *pgx.Conn) string {
	return one[string](t, c, "SELECT concat_ws(' | ', worker_id, worker_source, lease_state) FROM snowflake_status()")
}

// makesIDs waits until a session makes ids, and returns the worker of the first.
func makesIDs(t testing.TB, c *pgx.Conn, limit time.Duration, when string) (worker int64) {
	t.Helper()
	took := within(t, limit, "ids "+when, func() bool {
		var id int64
		err := c.QueryRow(background(t), "SELECT snowflake_next()").Scan(&id)
		worker = id >> 12 & 1023
		return err == nil
	}, func() string { return leaseState(t, c) })
	t.Logf("ids flow %s after %v", when, took.Round(10*time.Millisecond))
	return worker
}

// refuses waits until a session gets SF002 with a text.
func refuses(t testing.TB, c *pgx.Conn, limit time.Duration, text string) {
	t.Helper()
	var err error
	within(t, limit, "SF002 with "+text, func() bool {
		err = tryExec(t, c, "SELECT snowflake_next()")
		return sqlError(err).Code == "SF002" && strings.Contains(sqlError(err).Detail, text)
	}, func() string { return fmt.Sprint(err, sqlError(err).Detail) })
}

// keeperPID is the process id of a server's lease keeper, or 0.
func keeperPID(t testing.TB, node *cluster.Node) int {
	t.Helper()
	if pids := node.Processes(t, "lease keeper"); len(pids) > 0 {
		return pids[0]
	}
	return 0
}

func TestServersLeaseDifferentWorkers(t *testing.T) {
	arbiterNode, conninfo := newArbiter(t)
	config, err := pgx.ParseConfig(conninfo)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{"snowflake.worker_range": "7-8"}
	a, b := lessee(t, "a", conninfo, settings), lessee(t, "b", conninfo, settings)
	onA, onB := a.Connect(t, newDatabase(t, a)), b.Connect(t, newDatabase(t, b))
	worker := makesIDs(t, onA, 10*time.Second, "on a")
	other := makesIDs(t, onB, 10*time.Second, "on b")
	if worker == other || worker+other != 15 {
		t.Errorf("workers %d and %d", worker, other)
	}
	if got := leaseState(t, onA); !strings.HasPrefix(got, fmt.Sprintf("%d | lease | worker %d for ids before 20", worker, worker)) {
		t.Errorf("status: %s", got)
	}

	// All sessions of a server share its worker, and rise together.
	var ids [2][]int64
	database := newDatabase(t, a)
	sessions(t, a, database, 2, func(i int, c *pgx.Conn) (err error) {
		ids[i], err = nextIDs(c, 20000)
		return err
	})
	wantDistinct(t, ids[0], ids[1])
	for _, id := range append(ids[0], ids[1]...) {
		if id>>12&1023 != worker {
			t.Fatalf("id %d has worker %d, not %d", id, id>>12&1023, worker)
		}
	}
	if got := one[int64](t, onA, "SELECT count(*) FROM snowflake_workers WHERE worker_id = $1 AND pid = pg_backend_pid()", worker); got != 1 {
		t.Errorf("snowflake_workers has %d rows of this session", got)
	}

	// A third finds the range used up; when one stops, it has that worker, and begins above its last id.
	c := lessee(t, "c", conninfo, settings)
	onC := c.Connect(t, newDatabase(t, c))
	refuses(t, onC, 10*time.Second, "all 2 worker ids of 7-8 are held by other servers")
	last := one[int64](t, onA, "SELECT snowflake_next()")
	c.Stop(t, cluster.Fast) // so that nobody takes the worker before it is looked at
	a.Stop(t, cluster.Fast)
	if left := one[string](t, arbiterNode.Connect(t, config.Database), `SELECT held || ' ' || until FROM snowflake_arbiter.leases
		WHERE worker = $1`, worker); left != one[string](t, onB, "SELECT 'false ' || (snowflake_timestamp($1) + interval '1 ms')", last) {
		t.Errorf("the arbiter has %s of worker %d after its last id of %s", left, worker,
			one[string](t, onB, "SELECT snowflake_timestamp($1)::text", last))
	}
	c.Start(t)
	onC = c.Connect(t, onC.Config().Database)
	if got := makesIDs(t, onC, soon, "on c"); got != worker {
		t.Errorf("c has worker %d, a had %d", got, worker)
	}
	wantRising(t, "from a to c", []int64{last, one[int64](t, onC, "SELECT snowflake_next()")})
}

// What sessions set themselves must fit the server's lease.
func TestFixedWorkerMustBeTheLease(t *testing.T) {
	_, conninfo := newArbiter(t)
	node := lessee(t, "fixed", conninfo, map[string]string{"snowflake.worker_id": "5"})
	c := node.Connect(t, newDatabase(t, node))
	if worker := makesIDs(t, c, 10*time.Second, "with a fixed worker"); worker != 5 {
		t.Errorf("worker %d", worker)
	}
	exec(t, c, "SET snowflake.worker_id = 6")
	refuses(t, c, 0, "snowflake.worker_id is 6 here, and the lease of this server is of worker 5")
	exec(t, c, "RESET snowflake.worker_id")
	exec(t, c, "SELECT snowflake_next()")

	node.Set(t, map[string]string{"snowflake.worker_id": "9"})
	node.Reload(t)
	c = node.Connect(t, c.Config().Database)
	if worker := makesIDs(t, c, 10*time.Second, "after a reload"); worker != 9 {
		t.Errorf("worker %d after the setting became 9", worker)
	}
	node.Restart(t, cluster.Fast)
	c = node.Connect(t, c.Config().Database)
	if worker := makesIDs(t, c, soon, "after a restart"); worker != 9 {
		t.Errorf("worker %d after a restart", worker)
	}
}

// A copy of the data directory is another holder: with the same fixed worker it is refused, by name.
func TestCopyOfAServerIsRefused(t *testing.T) {
	_, conninfo := newArbiter(t)
	node := lessee(t, "original", conninfo, map[string]string{"snowflake.worker_id": "5"})
	database := newDatabase(t, node)
	onNode := node.Connect(t, database)
	makesIDs(t, onNode, 10*time.Second, "on the original")
	clone := backend.Start(t, cluster.Config{Name: "copy", StandbyOf: node})
	within(t, 30*time.Second, "the copy follows", func() bool {
		return one[bool](t, onNode, "SELECT count(*) > 0 FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()")
	}, func() string { return "" })
	clone.Promote(t)
	onClone := clone.Connect(t, database)
	refuses(t, onClone, 10*time.Second, "worker 5 is held by ")
	refuses(t, onClone, 0, "(original), which is connected to the arbiter")
	exec(t, onNode, "SELECT snowflake_next()")
	// It is taken over when the original ends without a word.
	node.Crash(t)
	if worker := makesIDs(t, onClone, soon, "on the copy, the original being dead"); worker != 5 {
		t.Errorf("worker %d", worker)
	}
}

// Each thing that may be wrong is said once in the log, in SF002 and in the status; the password nowhere.
func TestWhatIsWrongWithTheArbiterIsSaid(t *testing.T) {
	const secret = "s3cret/pass"
	const ttl = 5 * leaseTTL // an answer is waited for for a sixth of it, which a busy machine may need
	arbiterNode := backend.Start(t, cluster.Config{Name: "arbiter"})
	conninfo := arbiterNode.PeerConninfo(arbiterDatabase(t, arbiterNode, ttl))
	admin := arbiterNode.Connect(t, "postgres")
	exec(t, admin, "SET password_encryption = 'scram-sha-256'") // md5 was the default of 13
	exec(t, admin, "CREATE ROLE lessee LOGIN PASSWORD '"+secret+"' IN ROLE snowflake_keeper; CREATE ROLE stranger LOGIN")
	exec(t, admin, "CREATE DATABASE nothing")
	run(t, arbiterNode, "sh", "-c", "echo 'host all lessee all scram-sha-256' | cat - pgdata/pg_hba.conf >hba && cat hba >pgdata/pg_hba.conf")
	arbiterNode.Reload(t)
	asLessee := strings.Replace(conninfo, "user=postgres", "user=lessee", 1)
	node := lessee(t, "lessee", "host=127.0.0.1 port=1 sslmode=disable password="+secret,
		map[string]string{"snowflake.lease_ttl": fmt.Sprintf("%dms", ttl.Milliseconds())})
	database := newDatabase(t, node)
	c := node.Connect(t, database)
	refuses(t, c, 10*time.Second, "the arbiter cannot be reached at 127.0.0.1:1: connect: connection refused")
	for _, test := range []struct{ conninfo, want string }{
		{"host=x password=" + secret + " " + secret, "snowflake.lease_conninfo cannot be read as a connection string"},
		{asLessee + " password=not" + secret, "password authentication failed for user \"lessee\""},
		{conninfo + " dbname=nothing password=" + secret, "the arbiter's database has no lease table: run snowflake_arbiter_setup.sql there"},
		{strings.Replace(conninfo, "user=postgres", "user=stranger", 1), "grant it the role snowflake_keeper there"},
	} {
		node.Set(t, map[string]string{"snowflake.lease_conninfo": test.conninfo})
		node.Reload(t)
		c = node.Connect(t, database)
		refuses(t, c, 10*time.Second, test.want)
		time.Sleep(3 * ttl / 10) // it has tried some more times
		if got := leaseState(t, c); !strings.HasPrefix(got, "none | ") || !strings.Contains(got, test.want) {
			t.Errorf("status: %s", got)
		}
		if n := strings.Count(node.Log(t), "snowflake holds no lease of a worker id: "); n == 0 {
			t.Error("nothing in the log")
		}
		var lines int
		for line := range strings.Lines(node.Log(t)) {
			if strings.Contains(line, "snowflake holds no lease") && strings.Contains(line, test.want) {
				lines++
			}
		}
		if lines != 1 {
			t.Errorf("%d lines of %q in the log", lines, test.want)
		}
	}
	// Right at last, and with a password.
	node.Set(t, map[string]string{"snowflake.lease_conninfo": asLessee + " password=" + secret})
	node.Reload(t)
	c = node.Connect(t, database)
	makesIDs(t, c, 10*time.Second, "with the right password")
	for _, place := range []string{node.Log(t), arbiterNode.Log(t), leaseState(t, c)} {
		for line := range strings.Lines(place) {
			if strings.Contains(line, secret) && !strings.Contains(line, "CREATE ROLE") {
				t.Errorf("the password is in: %s", line)
			}
		}
	}
	exec(t, c, "CREATE ROLE somebody")
	exec(t, c, "SET ROLE somebody")
	wantError(t, tryExec(t, c, "SHOW snowflake.lease_conninfo"), "42501")
	if n := one[int64](t, c, "SELECT count(*) FROM pg_settings WHERE name = 'snowflake.lease_conninfo' AND setting <> ''"); n != 0 {
		t.Error("anybody sees the connection string in pg_settings")
	}
}

// endKeeper has the server start another lease keeper. Its first one, up to PostgreSQL 15, is started while the postmaster
// waits, and what is started then libfaketime does not mislead.
func endKeeper(t testing.TB, node *cluster.Node) {
	t.Helper()
	first := keeperPID(t, node)
	run(t, node, "kill", "-TERM", fmt.Sprint(first))
	within(t, 10*time.Second, "a new keeper", func() bool { pid := keeperPID(t, node); return pid != 0 && pid != first },
		func() string { return "" })
}

// A clock far ahead of the arbiter's makes no ids, nor one that is behind the last id of the worker's former holder.
func TestClocksOfServersDiffer(t *testing.T) {
	_, conninfo := newArbiter(t)
	start := func(name string) (*cluster.Node, *pgx.Conn) {
		node := backend.Start(t, cluster.Config{Name: name, FakeClock: true, Settings: map[string]string{
			"shared_preload_libraries": "snowflake_keeper", "snowflake.worker_id": "4",
			"snowflake.lease_ttl": fmt.Sprintf("%dms", leaseTTL.Milliseconds()), "snowflake.clock_tolerance": "0",
		}})
		endKeeper(t, node)
		return node, node.Connect(t, newDatabase(t, node))
	}
	lease := func(node *cluster.Node) {
		node.Set(t, map[string]string{"snowflake.lease_conninfo": conninfo})
		node.Reload(t)
	}
	a, onA := start("a")
	b, onB := start("b")
	lease(a)
	onA = a.Connect(t, onA.Config().Database)
	makesIDs(t, onA, 10*time.Second, "on a")
	a.SetClock(t, time.Minute)
	refuses(t, onA, 0, "") // at once, whatever the keeper has seen of it
	refuses(t, onA, soon, "the clock of this server is ahead of the arbiter's by more than snowflake.lease_ttl allows")
	a.SetClock(t, 0)
	makesIDs(t, onA, soon, "when the clock is right again")

	last := one[int64](t, onA, "SELECT snowflake_next()")
	a.Stop(t, cluster.Fast)
	b.SetClock(t, -10*time.Second)
	lease(b)
	onB = b.Connect(t, onB.Config().Database)
	refuses(t, onB, 10*time.Second, "up to which another server could make ids as worker 4")
	b.SetClock(t, 0)
	within(t, soon, "a lease on b", func() bool { return strings.HasPrefix(leaseState(t, onB), "4 | lease") },
		func() string { return leaseState(t, onB) })
	b.SetClock(t, -5*time.Second) // and back, before the first id
	if code := sqlError(tryExec(t, onB, "SELECT snowflake_next()")).Code; code != "SF001" && code != "SF002" {
		t.Errorf("SQLSTATE %q with a clock before the former holder's last id", code)
	}
	b.SetClock(t, 0)
	makesIDs(t, onB, soon, "when the clock has passed it")
	wantRising(t, "from a to b", []int64{last, one[int64](t, onB, "SELECT snowflake_next()")})
}

// Without the keeper there are no ids, and the reason is said.
func TestLeaseWithoutTheKeeper(t *testing.T) {
	node := backend.Start(t, cluster.Config{Settings: map[string]string{"snowflake.lease_conninfo": "host=x"}})
	c := node.Connect(t, newDatabase(t, node))
	refuses(t, c, 0, "snowflake_keeper is not in shared_preload_libraries")
	wantError(t, tryExec(t, c, "LOAD 'snowflake_keeper'"), "55000", "shared_preload_libraries")
	exec(t, c, "SELECT uuidv7(), snowflake_parse(1), snowflake_status()")
}

// The process: what Go must leave alone, and what becomes of ids when it ends or stands still.
func TestKeeperProcess(t *testing.T) {
	_, conninfo := newArbiter(t)
	node := lessee(t, "process", conninfo, map[string]string{"snowflake.worker_id": "3"})
	database := newDatabase(t, node)
	c := node.Connect(t, database)
	makesIDs(t, c, 10*time.Second, "at first")
	if n := len(threadsOf(t, node, node.PostmasterPID(t))); n != 1 {
		t.Errorf("the postmaster has %d threads", n)
	}
	process := keeperPID(t, node)
	threads := threadsOf(t, node, process)
	if len(threads) < 2 || len(threads) > 12 {
		t.Errorf("the keeper has %d threads", len(threads))
	}
	for _, thread := range threads[1:] {
		blocked := signalSet(t, thread["SigBlk"])
		for name, number := range postgresSignals {
			if blocked>>(number-1)&1 == 0 {
				t.Errorf("a thread of Go does not block SIG%s", name)
			}
		}
	}

	id := one[int64](t, c, "SELECT snowflake_next()")
	endKeeper(t, node)
	makesIDs(t, c, soon, "after the keeper was terminated")
	wantRising(t, "over the end of the keeper", []int64{id, one[int64](t, c, "SELECT snowflake_next()")})

	// Stopped for longer than the lease: ids stop while it is still held, and come again.
	process = keeperPID(t, node)
	run(t, node, "kill", "-STOP", fmt.Sprint(process))
	stopped, last := time.Now(), time.Time{}
	for tryID := "SELECT snowflake_timestamp(snowflake_next())"; c.QueryRow(background(t), tryID).Scan(&last) == nil; {
		time.Sleep(time.Millisecond)
	}
	refuses(t, c, 0, "the lease of worker 3 has ended, and the lease keeper has not renewed it")
	if after := last.Sub(stopped); after > leaseTTL {
		t.Errorf("an id was made %v after the keeper stood still", after)
	}
	time.Sleep(leaseTTL)
	run(t, node, "kill", "-CONT", fmt.Sprint(process))
	makesIDs(t, c, soon, "after the keeper stood still")

	// Killed: the server starts its processes anew, and has its worker back.
	if !node.Kill(t, process) {
		t.Fatal("the keeper was gone before it was killed")
	}
	c = node.Connect(t, database)
	makesIDs(t, c, soon, "after the keeper was killed")
	wantRising(t, "over the crash", []int64{id, one[int64](t, c, "SELECT snowflake_next()")})
}

// eitherOf is a conninfo string for a database of several servers.
func eitherOf(t testing.TB, database string, nodes ...*cluster.Node) string {
	t.Helper()
	var hosts, ports []string
	for _, node := range nodes {
		config, err := pgx.ParseConfig(node.PeerConninfo("x"))
		if err != nil {
			t.Fatal(err)
		}
		hosts, ports = append(hosts, config.Host), append(ports, fmt.Sprint(config.Port))
	}
	return fmt.Sprintf("host=%s port=%s user=postgres dbname=%s sslmode=disable", strings.Join(hosts, ","), strings.Join(ports, ","), database)
}

// Of several hosts the first takes connections and says nothing, as one does whose machine hangs or is cut off.
func TestSilentHostIsPassedOver(t *testing.T) {
	const ttl = 5 * leaseTTL // a third of it is for both
	arbiterNode := backend.Start(t, cluster.Config{Name: "arbiter"})
	database := arbiterDatabase(t, arbiterNode, ttl)
	silent := backend.Start(t, cluster.Config{Name: "silent"})
	postmaster := fmt.Sprint(silent.PostmasterPID(t))
	run(t, silent, "kill", "-STOP", postmaster)
	defer run(t, silent, "kill", "-CONT", postmaster)
	for _, timeout := range []string{"", " connect_timeout=60"} {
		node := lessee(t, "lessee", eitherOf(t, database, silent, arbiterNode)+timeout,
			map[string]string{"snowflake.lease_ttl": fmt.Sprintf("%dms", ttl.Milliseconds())})
		makesIDs(t, node.Connect(t, newDatabase(t, node)), soon, "past a silent host")
	}
}

// The arbiter restarts, is gone for longer than a lease, and fails over to its standby.
func TestArbiterComesAndGoes(t *testing.T) {
	const ttl = 3 * leaseTTL // long enough for the standby to be promoted in
	arbiterNode := backend.Start(t, cluster.Config{Name: "arbiter"})
	database := arbiterDatabase(t, arbiterNode, ttl)
	standby := backend.Start(t, cluster.Config{Name: "standby", StandbyOf: arbiterNode})
	node := lessee(t, "lessee", eitherOf(t, database, standby, arbiterNode),
		map[string]string{"snowflake.worker_id": "3", "snowflake.lease_ttl": fmt.Sprintf("%dms", ttl.Milliseconds())})
	c := node.Connect(t, newDatabase(t, node))
	makesIDs(t, c, 10*time.Second, "at first")

	arbiterNode.Stop(t, cluster.Fast)
	refuses(t, c, soon, "the arbiter")
	arbiterNode.Start(t)
	makesIDs(t, c, soon, "after the arbiter was gone")

	within(t, 30*time.Second, "the standby follows", func() bool {
		return one[bool](t, arbiterNode.Connect(t, "postgres"), "SELECT count(*) > 0 FROM pg_stat_replication")
	}, func() string { return "" })
	arbiterNode.Crash(t)
	standby.Promote(t)
	for range 20 { // the lease goes on
		exec(t, c, "SELECT snowflake_next()")
		time.Sleep(ttl / 10)
	}
	// A newcomer waits until leases that the standby may not know of have ended.
	newcomer := lessee(t, "newcomer", node.PeerConninfo("postgres"), nil)
	newcomer.Set(t, map[string]string{"snowflake.lease_conninfo": standby.PeerConninfo(database)})
	newcomer.Reload(t)
	makesIDs(t, newcomer.Connect(t, newDatabase(t, newcomer)), soon, "on a newcomer")
}

// Another arbiter is named while a request to the first has no answer yet. The answer comes later, and is nobody's any more.
func TestArbiterIsChangedDuringARequest(t *testing.T) {
	const ttl = 30 * time.Second // an answer is waited for for five
	first := backend.Start(t, cluster.Config{Name: "first"})
	firstDatabase := arbiterDatabase(t, first, ttl)
	_, second := newArbiter(t)
	blocker := first.Connect(t, firstDatabase)
	exec(t, blocker, "BEGIN; LOCK TABLE snowflake_arbiter.lease")

	node := lessee(t, "lessee", first.PeerConninfo(firstDatabase), map[string]string{"snowflake.lease_ttl": "30s"})
	c := node.Connect(t, newDatabase(t, node))
	watcher := first.Connect(t, "postgres")
	within(t, soon, "a request that waits", func() bool {
		return one[bool](t, watcher, `SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'snowflake_keeper'
			AND wait_event_type = 'Lock' AND clock_timestamp() - query_start < interval '1 second'`)
	}, func() string { return leaseState(t, c) })
	process := keeperPID(t, node)
	node.Set(t, map[string]string{"snowflake.lease_conninfo": second, "snowflake.lease_ttl": "2s"})
	node.Reload(t)
	time.Sleep(2 * time.Second) // the keeper waits for one before it goes on without the answer
	exec(t, blocker, "COMMIT")

	c = node.Connect(t, c.Config().Database)
	makesIDs(t, c, soon, "under the second arbiter")
	within(t, soon, "the end of the session at the first", func() bool {
		return one[bool](t, watcher, "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'snowflake_keeper'")
	}, func() string { return "it is there still" })
	if keeperPID(t, node) != process || strings.Contains(node.Log(t), "internal error") {
		t.Error("the keeper failed")
	}
}
