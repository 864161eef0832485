package test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"pgsnowflake/test/cluster"
)

// What outlives an uptime: the mark, the epoch, and what a clock does meanwhile.

// fixed starts a server whose clock the test moves and on which every session makes ids as worker 3.
func fixed(t *testing.T, name string) *cluster.Node {
	return backend.Start(t, cluster.Config{Name: name, FakeClock: true, Settings: map[string]string{
		"snowflake.worker_id": "3",
	}})
}

// makeIDs makes ids in a new session and returns them in order.
func makeIDs(t *testing.T, node *cluster.Node, database string, n int) []int64 {
	t.Helper()
	ids, err := nextIDs(node.Connect(t, database), n)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// A crash, and a clock that comes back behind (cockroach#13441): within the step ids wait and then rise; further
// behind they are refused with the gap, and made again by themselves when the clock has passed it.
func TestCrashWithTheClockBehind(t *testing.T) {
	for _, stop := range []string{"immediate", "crash", "fast"} {
		t.Run(stop, func(t *testing.T) {
			node := fixed(t, "crash")
			database := newDatabase(t, node)
			before := makeIDs(t, node, database, 5000)
			stopAs(t, node, stop)
			node.SetClock(t, -200*time.Millisecond)
			node.Start(t)
			after := makeIDs(t, node, database, 5000)
			wantRising(t, "over the crash", append(before, after...))

			stopAs(t, node, stop)
			node.SetClock(t, -time.Hour)
			node.Start(t)
			c := node.Connect(t, database)
			for range 3 {
				err := tryExec(t, c, "SELECT snowflake_next()")
				wantError(t, err, "SF001", "clock moved backwards", "ms behind the durable mark", "snowflake_reset_mark()")
				gap := one[float64](t, c, "SELECT extract(epoch FROM clock_behind)::float8 FROM snowflake_status()")
				if gap < 3500 || gap > 3601 {
					t.Errorf("the clock is behind by %v s", gap)
				}
			}
			node.SetClock(t, 0)
			wantRising(t, "after the clock is right again", append(after, one[int64](t, c, "SELECT snowflake_next()")))
			if one[int64](t, c, "SELECT count(*) FROM snowflake_status() WHERE clock_behind IS NULL") != 1 {
				t.Error("the clock still counts as behind")
			}
		})
	}
}

func stopAs(t *testing.T, node *cluster.Node, how string) {
	if how == "crash" {
		node.Crash(t)
	} else {
		node.Stop(t, cluster.Mode(how))
	}
}

// Within an uptime: a small step back is waited for, a large one refused with the gap, once reported in the log.
func TestClockStepsBackWhileRunning(t *testing.T) {
	node := fixed(t, "steps")
	database := newDatabase(t, node)
	c := node.Connect(t, database)
	before := one[int64](t, c, "SELECT snowflake_next()")
	node.SetClock(t, -80*time.Millisecond)
	after := one[int64](t, c, "SELECT snowflake_next()")
	wantRising(t, "over a small step", []int64{before, after})

	exec(t, c, "SELECT snowflake_next()")
	node.SetClock(t, -30*time.Second)
	for range 5 {
		wantError(t, tryExec(t, c, "SELECT snowflake_next()"), "SF001", "clock moved backwards", "ms behind the last id of worker 3",
			"snowflake.clock_tolerance = 100 ms")
	}
	other := node.Connect(t, database)
	wantError(t, tryExec(t, other, "SELECT snowflake_next()"), "SF001")
	if n := len(regexp.MustCompile(`LOG:  the clock moved backwards by 29\d{3} ms`).FindAllString(node.Log(t), -1)); n != 1 {
		t.Errorf("the step of 30 s stands %d times in the log", n)
	}
	stats := one[int64](t, c, "SELECT clock_refusals FROM snowflake_stats()")
	if stats != 6 {
		t.Errorf("%d refusals counted", stats)
	}
	node.SetClock(t, 0)
	wantRising(t, "after the clock came forward", []int64{after, one[int64](t, c, "SELECT snowflake_next()")})
}

// A wait for the clock ends at once when the session is told to end.
func TestEndingAWaitForTheClock(t *testing.T) {
	node := backend.Start(t, cluster.Config{Name: "wait", FakeClock: true, Settings: map[string]string{
		"snowflake.worker_id": "3", "snowflake.clock_tolerance": "60s",
	}})
	database := newDatabase(t, node)
	makeIDs(t, node, database, 10)
	node.SetClock(t, -50*time.Second)
	wantEndings(t, node, database, "SELECT snowflake_next()")

	// Shutdown as well, and no lock is held meanwhile.
	c := node.Connect(t, database)
	go c.Exec(context.Background(), "SELECT snowflake_next()")
	control := node.Connect(t, database)
	for one[int64](t, control, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'Extension'") == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	if n := one[int64](t, control, `SELECT count(*) FROM pg_locks WHERE pid = $1 AND locktype <> 'virtualxid'
		AND NOT (locktype = 'advisory' AND mode = 'ShareLock')`, pid(t, c)); n != 0 {
		t.Errorf("a waiting session holds %d locks", n)
	}
	began := time.Now()
	node.Stop(t, "fast")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("shutdown took %v", took)
	}
	node.Start(t)
}

// The clock runs two days ahead for a moment, ids are made, then it is right again.
func TestClockThatRanAhead(t *testing.T) {
	node := backend.Start(t, cluster.Config{Name: "ahead", FakeClock: true})
	leased, fixed := newDatabase(t, node), newDatabase(t, node)
	exec(t, node.Connect(t, "postgres"), "ALTER DATABASE "+fixed+" SET snowflake.worker_id = 900")
	a, idle, f := node.Connect(t, leased), node.Connect(t, leased), node.Connect(t, fixed)
	var all []int64
	next := func(c *pgx.Conn) int64 {
		t.Helper()
		id := one[int64](t, c, "SELECT snowflake_next()")
		all = append(all, id)
		return id
	}
	next(a)
	next(idle)
	next(f)
	node.SetClock(t, 48*time.Hour)
	ahead := next(a)
	next(f)
	node.SetClock(t, 0)

	// Sessions on a lease go on at once: on a worker that made nothing ahead of time.
	for range 3 {
		if id := next(a); id > ahead || id>>12&1023 == ahead>>12&1023 {
			t.Errorf("%d was made as worker %d after %d", id, id>>12&1023, ahead)
		}
	}
	next(idle)
	// A fixed worker is refused, with the time of its last id and the gap.
	err := tryExec(t, f, "SELECT snowflake_next()")
	wantError(t, err, "SF001", "behind the last id of worker 900", one[string](t, f, `SELECT to_char(last_id_at AT TIME ZONE 'UTC',
		'YYYY-MM-DD HH24:MI:SS.MS"Z"') FROM snowflake_status()`), "172")
	wantDistinct(t, all)

	// After a restart the mark holds everybody back, until it is lowered.
	node.Restart(t, "fast")
	a = node.Connect(t, leased)
	wantError(t, tryExec(t, a, "SELECT snowflake_next()"), "SF001", "behind the durable mark", "snowflake_reset_mark()")
	exec(t, a, "SET snowflake.worker_id = 901") // and keeps clear of the workers that ran ahead
	wantError(t, tryExec(t, a, "SELECT snowflake_next()"), "SF001", "behind the durable mark")
	wantError(t, tryExec(t, a, "SELECT snowflake_reset_mark(now() + interval '30 days')"), "22023", "can only be lowered")
	if !one[bool](t, a, "SELECT snowflake_reset_mark(now()) > now() + interval '47 hours'") {
		t.Error("the old mark is not two days ahead")
	}
	if !strings.Contains(node.Log(t), `the durable mark of database "`+leased+`" was lowered`) {
		t.Error("no line in the log tells of the lowered mark")
	}
	next(a)
	wantDistinct(t, all)
}

// A standby takes over with its clock behind: nothing repeats (Citus#8638, cockroach#90459).
func TestPromotedStandbyWithItsClockBehind(t *testing.T) {
	primary := fixed(t, "primary")
	database := newDatabase(t, primary)
	makeIDs(t, primary, database, 10)
	standby := backend.Start(t, cluster.Config{Name: "standby", StandbyOf: primary, FakeClock: true})
	standby.SetClock(t, -500*time.Millisecond)

	onStandby := standby.Connect(t, database)
	wantError(t, tryExec(t, onStandby, "SELECT snowflake_next()"), "25006", "cannot execute snowflake_next()")
	exec(t, onStandby, `SELECT uuidv7(), snowflake_parse(1), snowflake_timestamp(1), snowflake_status(), snowflake_stats(),
		snowflake_min_id(now()), snowflake_encode(1), sequential_uuid(); SELECT * FROM snowflake_workers`)

	c := primary.Connect(t, database)
	exec(t, c, "CREATE TABLE t (id bigint PRIMARY KEY)")
	var before []int64
	for range 20 {
		ids, err := nextIDs(c, 2000)
		if err != nil {
			t.Fatal(err)
		}
		before = append(before, ids...)
	}
	exec(t, c, fmt.Sprintf("INSERT INTO t VALUES (%d)", before[len(before)-1]))
	waitFor(t, onStandby, fmt.Sprintf("SELECT EXISTS (SELECT FROM t WHERE id = %d)", before[len(before)-1]))
	primary.Crash(t)
	standby.Promote(t)
	// The mark may be up to a second and a half ahead of this clock: more than is waited for. It recovers by itself.
	promoted := standby.Connect(t, database)
	after, err := nextIDs(promoted, 20000)
	for ended := time.Now().Add(time.Minute); sqlError(err).Code == "SF001" && time.Now().Before(ended); {
		time.Sleep(100 * time.Millisecond)
		after, err = nextIDs(promoted, 20000)
	}
	if err != nil {
		t.Fatal(err)
	}
	wantRising(t, "over the failover", append(before, after...))
}

// waitFor asks a question until the answer is yes.
func waitFor(t *testing.T, c *pgx.Conn, question string) {
	t.Helper()
	for range 1000 {
		var yes bool
		if c.QueryRow(background(t), question, pgx.QueryExecModeSimpleProtocol).Scan(&yes) == nil && yes {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("still no: %s", question)
}

// A dump restored into a new server with its clock behind and the same worker: the mark came along.
func TestDumpRestoredWithTheClockBehind(t *testing.T) {
	old, new := fixed(t, "old"), fixed(t, "new")
	database := newDatabase(t, old)
	c := old.Connect(t, database)
	exec(t, c, "CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_next(), n integer)")
	exec(t, c, "INSERT INTO t (n) SELECT generate_series(1, 10000)")
	before := column[int64](t, c, "SELECT id FROM t ORDER BY id")
	dump := run(t, old, "pg_dump", database)
	new.SetClock(t, -300*time.Millisecond)
	exec(t, new.Connect(t, "postgres"), "CREATE DATABASE "+database)
	if out, err := new.ExecIn(background(t), dump, "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	after := makeIDs(t, new, database, 10000)
	wantDistinct(t, before, after)
	wantRising(t, "over the move", append(before, after...))
}

// The epoch is recorded with the first id and travels with dumps; another one later is refused, with the way back.
func TestRecordedEpoch(t *testing.T) {
	database := newDatabase(t, shared)
	c := shared.Connect(t, database)
	exec(t, c, "SET snowflake.epoch = '2025-05-01T00:00:00Z'")
	exec(t, c, "BEGIN; SELECT snowflake_next(); ROLLBACK") // the id may have left: the record is not rolled back
	exec(t, c, "RESET snowflake.epoch")
	for range 2 {
		wantError(t, tryExec(t, c, "SELECT snowflake_next()"), "55000", "2026-01-01 00:00:00.000Z", "2025-05-01 00:00:00.000Z",
			"ALTER DATABASE "+database+" SET snowflake.epoch = '2025-05-01 00:00:00.000Z'")
	}
	exec(t, c, "ALTER DATABASE "+database+" SET snowflake.epoch = '2025-05-01 00:00:00.000Z'")
	c = shared.Connect(t, database)
	exec(t, c, "SELECT snowflake_next()")
	exec(t, c, "SET snowflake.epoch = '2025-05-02'")
	wantError(t, tryExec(t, c, "SELECT snowflake_next()"), "55000")
	exec(t, c, "SET snowflake.epoch = '2025-05-01'")
	exec(t, c, "SELECT snowflake_next()")

	copied := newDatabase(t, shared)
	target := shared.Connect(t, copied)
	exec(t, target, "DROP EXTENSION snowflake")
	dump := run(t, shared, "pg_dump", database)
	if out, err := shared.ExecIn(background(t), dump, "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", copied); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wantError(t, tryExec(t, shared.Connect(t, copied), "SELECT snowflake_next()"), "55000", "2025-05-01 00:00:00.000Z")
}

// Databases with epochs of their own share a server and a worker; nothing is refused.
func TestTwoEpochsOnOneServer(t *testing.T) {
	a, b := connect(t), connect(t)
	exec(t, a, "SET snowflake.worker_id = 700; SET snowflake.epoch = '2020-01-01'")
	exec(t, b, "SET snowflake.worker_id = 700; SET snowflake.epoch = '2024-01-01'")
	for range 20 {
		exec(t, a, "SELECT count(snowflake_next()) FROM generate_series(1, 1000)")
		exec(t, b, "SELECT count(snowflake_next()) FROM generate_series(1, 1000)")
	}
}

// A session that forgets the extension and gets it anew has nothing left of the old mark and epoch.
func TestExtensionMadeAnew(t *testing.T) {
	c := connect(t)
	exec(t, c, "SET snowflake.epoch = '2025-01-01'")
	first := one[int64](t, c, "SELECT snowflake_next()")
	exec(t, c, "DROP EXTENSION snowflake; CREATE EXTENSION snowflake; SET snowflake.epoch = '2024-01-01'")
	second := one[int64](t, c, "SELECT snowflake_next()")
	wantRising(t, "over a new extension", []int64{first, second})
	if one[int64](t, c, "SELECT last_value FROM snowflake_epoch") != time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() {
		t.Error("the new epoch was not recorded")
	}
	if one[int64](t, c, "SELECT last_value FROM snowflake_mark") < time.Now().UnixMilli() {
		t.Error("the new mark does not stand ahead")
	}
}

// Whoever makes ids moves the mark, without a right on it, and it never moves back.
func TestMarkMovesForAnyone(t *testing.T) {
	c := connect(t)
	role := one[string](t, c, "SELECT 'r_' || current_database()")
	exec(t, c, "CREATE ROLE "+role+"; SET ROLE "+role)
	var last time.Time
	for range 5 {
		exec(t, c, "SELECT snowflake_next()")
		mark := one[time.Time](t, c, "SELECT reserved_until FROM snowflake_status()")
		if ahead := time.Until(mark); mark.Before(last) || ahead > time.Second || ahead < 400*time.Millisecond {
			t.Errorf("the mark stands %v ahead, before it stood at %v", ahead, last)
		}
		last = mark
		time.Sleep(200 * time.Millisecond)
	}
	if got := one[string](t, c, "SELECT current_user::text"); got != role {
		t.Errorf("the session's user is %s", got)
	}
}

// Aborts, subtransactions and prepared transactions neither lose nor leak a lease, and commit.
func TestLeasesOverTransactions(t *testing.T) {
	node := backend.Start(t, cluster.Config{Name: "xact", Settings: map[string]string{"max_prepared_transactions": "5"}})
	database := newDatabase(t, node)
	c := node.Connect(t, database)
	worker := func() int { return one[int](t, c, "SELECT snowflake_worker_id(snowflake_next())") }
	held := func() int64 {
		return one[int64](t, c, "SELECT count(*) FROM snowflake_workers WHERE pid = pg_backend_pid()")
	}
	exec(t, c, "BEGIN; SELECT snowflake_next(); ROLLBACK")
	if held() != 1 || worker() != 0 {
		t.Error("an abort dropped the lease")
	}
	exec(t, c, "SELECT snowflake_release(); BEGIN; SAVEPOINT s; SELECT snowflake_next(); ROLLBACK TO s; SELECT snowflake_next(); COMMIT")
	if held() != 1 || worker() != 0 {
		t.Error("a subtransaction dropped the lease")
	}
	exec(t, c, "SELECT snowflake_release(); CREATE TABLE t (id bigint DEFAULT snowflake_next())")
	exec(t, c, "BEGIN; INSERT INTO t DEFAULT VALUES; PREPARE TRANSACTION 'p'")
	other := node.Connect(t, database)
	if got := one[int](t, other, "SELECT snowflake_worker_id(snowflake_next())"); got != 1 {
		t.Errorf("beside a prepared transaction another session leases %d", got)
	}
	if held() != 1 || worker() != 0 {
		t.Error("PREPARE TRANSACTION dropped the lease")
	}
	node.Restart(t, "fast")
	c = node.Connect(t, database)
	exec(t, c, "SELECT snowflake_next()")
	exec(t, c, "COMMIT PREPARED 'p'")
	if one[int64](t, c, "SELECT count(*) FROM t") != 1 || held() != 1 {
		t.Error("the prepared transaction did not commit")
	}
}

// A session that is killed leaves no lease behind; the server's crash restart frees them all.
func TestKilledSessionLeavesNoLease(t *testing.T) {
	node := backend.Start(t, cluster.Config{Name: "kill"})
	database := newDatabase(t, node)
	c := node.Connect(t, database)
	before := one[int64](t, c, "SELECT snowflake_next()")
	if !node.Kill(t, pid(t, c)) {
		t.Fatal("the session was gone before it was killed")
	}
	after := node.Connect(t, database)
	ids := append([]int64{before}, column[int64](t, after, "SELECT * FROM snowflake_next(1000)")...)
	wantRising(t, "over a killed session", ids)
	if n := one[int64](t, after, "SELECT count(*) FROM snowflake_workers"); n != 1 {
		t.Errorf("%d workers in use by one session", n)
	}
}

func TestStatusAndWorkers(t *testing.T) {
	node := backend.Start(t, cluster.Config{Name: "status"})
	database := newDatabase(t, node)
	c := node.Connect(t, database)
	if one[string](t, c, "SELECT concat_ws(',', worker_id, worker_source, last_id_at, reserved_until, clock_behind) FROM snowflake_status()") != "none" {
		t.Error("a session without ids has a worker")
	}
	exec(t, c, "SET application_name = 'app'")
	before := time.Now()
	id := one[int64](t, c, "SELECT snowflake_next()")
	if !one[bool](t, c, `SELECT worker_id = 0 AND worker_source = 'lease' AND last_id_at = snowflake_timestamp($1)
		AND epoch = '2026-01-01Z' AND reserved_until > clock_timestamp() AND clock_behind IS NULL
		AND exhausted_at = '2095-09-07 15:47:35.551Z' AND version = (SELECT extversion FROM pg_extension WHERE extname = 'snowflake')
		FROM snowflake_status()`, id) {
		t.Errorf("status: %s", one[string](t, c, "SELECT snowflake_status()::text"))
	}
	f := node.Connect(t, database)
	exec(t, f, "SET snowflake.worker_id = 44; SELECT snowflake_next()")
	if one[string](t, f, "SELECT worker_id || worker_source FROM snowflake_status()") != "44setting" {
		t.Error("a fixed worker is not the setting's")
	}
	exec(t, c, "CREATE ROLE nobody")
	exec(t, c, "SET ROLE nobody") // what pg_stat_activity shows to anyone, the view shows to anyone
	rows, err := c.Query(background(t), `SELECT worker_id, pid, database, "user", since, last_id_at FROM snowflake_workers ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Worker, PID    int
		Database, User *string
		Since, LastID  *time.Time
	}
	workers, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil || len(workers) != 2 || workers[0].Worker != 0 || workers[0].PID != pid(t, c) || *workers[0].Database != database ||
		workers[0].Since.Before(before.Add(-time.Second)) || workers[1].Worker != 44 || workers[1].PID != pid(t, f) || workers[1].LastID == nil {
		t.Errorf("workers: %+v, %v", workers, err)
	}
	exec(t, c, "RESET ROLE")
	if got := one[string](t, c, "SELECT application FROM snowflake_workers WHERE worker_id = 0"); got != "app" {
		t.Errorf("application %q", got)
	}
	exec(t, c, "SELECT count(*) FROM snowflake_next(100000)")
	if !one[bool](t, c, "SELECT sequence_waits > 0 AND leases_taken = 1 AND leases_lost = 0 AND clock_waits = 0 AND clock_refusals = 0 FROM snowflake_stats()") {
		t.Errorf("stats: %s", one[string](t, c, "SELECT snowflake_stats()::text"))
	}
}

// 1,500 sessions share a fixed worker; of 1,100 that lease, 1,024 get one and the rest a clear error.
func TestVeryManySessions(t *testing.T) {
	node := backend.Start(t, cluster.Config{Name: "many", Settings: map[string]string{
		"max_connections": "1600", "shared_buffers": "64MB",
	}})
	fixedDatabase, leasedDatabase := newDatabase(t, node), newDatabase(t, node)
	exec(t, node.Connect(t, "postgres"), "ALTER DATABASE "+fixedDatabase+" SET snowflake.worker_id = 1000")
	ids := func(t *testing.T, database string, n int) (got []int64, refused int) {
		for range n {
			c := node.Connect(t, database)
			id, err := nextIDs(c, 1)
			if err != nil {
				wantError(t, err, "SF002", "All 1024 worker ids", "0-1023", "snowflake.worker_id")
				refused++
				continue
			}
			got = append(got, id...)
		}
		return got, refused
	}
	var all []int64
	t.Run("leases", func(t *testing.T) {
		got, refused := ids(t, leasedDatabase, 1100)
		if len(got) != 1024 || refused != 76 {
			t.Errorf("%d sessions got a worker, %d did not", len(got), refused)
		}
		all = got
	})
	waitFor(t, node.Connect(t, "postgres"), "SELECT count(*) < 100 FROM pg_stat_activity")
	t.Run("fixed", func(t *testing.T) {
		got, refused := ids(t, fixedDatabase, 1500)
		if len(got) != 1500 || refused != 0 {
			t.Errorf("%d sessions made ids, %d did not", len(got), refused)
		}
		wantDistinct(t, all, got)
	})
}
