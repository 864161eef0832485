package test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"pgsnowflake/test/cluster"
)

// batch is what one statement made: when it began and ended, in steps of a counter that all sessions share.
type batch struct {
	began, ended int64
	ids          []int64
}

// Many sessions on one fixed worker (yitter/IdGenerator#72, kra8/laravel-snowflake#37): the slot keeps them apart,
// and a statement that began after another had ended makes larger ids, whichever session ran it.
func TestOneWorkerManySessions(t *testing.T) {
	const count, perSession, perStatement = 16, 100_000, 5_000
	database := newDatabase(t, shared)
	exec(t, shared.Connect(t, "postgres"), "ALTER DATABASE "+database+" SET snowflake.worker_id = 8")

	before := one[string](t, shared.Connect(t, database), clockTroubles)

	var steps atomic.Int64
	var mu sync.Mutex
	var batches []batch
	all := make([][]int64, count)
	sessions(t, shared, database, count, func(i int, c *pgx.Conn) error {
		for len(all[i]) < perSession {
			b := batch{began: steps.Add(1)}
			var err error
			if b.ids, err = nextIDs(c, perStatement); err != nil {
				return err
			}
			b.ended = steps.Add(1)
			all[i] = append(all[i], b.ids...)
			mu.Lock()
			batches = append(batches, b)
			mu.Unlock()
		}
		return nil
	})
	wantDistinct(t, all...)
	for i, ids := range all {
		wantRising(t, fmt.Sprintf("session %d", i), ids)
		for _, id := range ids {
			if worker := id >> 12 & 1023; worker != 8 {
				t.Fatalf("id %d has worker %d", id, worker)
			}
		}
	}
	wantOrderOfStatements(t, batches)
	// A session that loses its processor after it read the clock must not take the others' ids for a clock gone back.
	if after := one[string](t, shared.Connect(t, database), clockTroubles); after != before {
		t.Errorf("clock waits and refusals went from %s to %s with a good clock", before, after)
	}
	if strings.Contains(shared.Log(t), "the clock moved backwards") {
		t.Error("the log tells of a step of the clock that there was not")
	}
}

const clockTroubles = "SELECT clock_waits || ', ' || clock_refusals FROM snowflake_stats()"

// wantOrderOfStatements fails when a statement that began after another had ended made a smaller id.
func wantOrderOfStatements(t *testing.T, batches []batch) {
	t.Helper()
	endedBy := make(map[int64]int64) // step at which a statement ended → its largest id
	last := int64(0)
	beganAt := make(map[int64]int64)
	for _, b := range batches {
		endedBy[b.ended] = b.ids[len(b.ids)-1]
		beganAt[b.began] = b.ids[0]
		last = max(last, b.ended)
	}
	largest := int64(0)
	for step := int64(1); step <= last; step++ {
		if first, ok := beganAt[step]; ok && first <= largest {
			t.Fatalf("a statement that began at step %d made %d, but %d had been made before", step, first, largest)
		}
		largest = max(largest, endedBy[step])
	}
}

// Two hundred sessions lease at once (LemonNoCry/SnowflakeId.AutoRegister#2): each gets a worker of its own.
func TestLeasesOfManySessions(t *testing.T) {
	const count = 200
	database := newDatabase(t, shared)
	all := make([][]int64, count)
	sessions(t, shared, database, count, func(i int, c *pgx.Conn) (err error) {
		all[i], err = nextIDs(c, 1000)
		return err
	})
	wantDistinct(t, all...)
	workers := make(map[int64]int)
	for i, ids := range all {
		wantRising(t, fmt.Sprintf("session %d", i), ids)
		worker := ids[0] >> 12 & 1023
		if other, taken := workers[worker]; taken {
			t.Fatalf("sessions %d and %d share worker %d", other, i, worker)
		}
		workers[worker] = i
	}
}

func TestTwoDatabasesShareNoWorker(t *testing.T) {
	a, b := connect(t), connect(t)
	idsA, _ := nextIDs(a, 1000)
	idsB, _ := nextIDs(b, 1000)
	wantDistinct(t, idsA, idsB)
	if idsA[0]>>12&1023 == idsB[0]>>12&1023 {
		t.Fatal("sessions of two databases lease the same worker")
	}
}

func TestDefaultOfAMillionRows(t *testing.T) {
	c := connect(t)
	exec(t, c, `CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_next(), n integer);
		INSERT INTO t (n) SELECT generate_series(1, 1000000)`)
	if n := one[int64](t, c, "SELECT count(DISTINCT id) FROM t"); n != 1_000_000 {
		t.Fatalf("%d distinct ids", n)
	}
	if n := one[int64](t, c, "SELECT count(*) FROM (SELECT id, lag(id) OVER (ORDER BY n) AS before FROM t) x WHERE id <= before"); n != 0 {
		t.Fatalf("%d ids do not rise with the rows", n)
	}
}

// A default that is not volatile would give every row the same id (Jakeii/nanoid-postgres PR#3).
func TestAddColumnToAFullTable(t *testing.T) {
	c := connect(t)
	exec(t, c, `CREATE TABLE t AS SELECT generate_series(1, 1000) AS n;
		ALTER TABLE t ADD COLUMN id bigint DEFAULT snowflake_next(), ADD COLUMN u uuid DEFAULT uuidv7()`)
	if n := one[int64](t, c, "SELECT count(DISTINCT id) + count(DISTINCT u) FROM t"); n != 2000 {
		t.Fatalf("%d distinct ids and uuids in 1000 rows", n)
	}
}

func TestManyIDsOfOneCall(t *testing.T) {
	c := connect(t)
	before := one[int64](t, c, "SELECT snowflake_next()")
	ids := column[int64](t, c, "SELECT * FROM snowflake_next(20000)")
	if len(ids) != 20000 {
		t.Fatalf("%d ids", len(ids))
	}
	after := one[int64](t, c, "SELECT snowflake_next()")
	wantRising(t, "one call", append(append([]int64{before}, ids...), after))
	if ids := column[int64](t, c, "SELECT * FROM snowflake_next(0)"); len(ids) != 0 {
		t.Fatalf("%d ids for a count of 0", len(ids))
	}
	if n := one[int64](t, c, "SELECT count(*) FROM snowflake_next(NULL)"); n != 0 {
		t.Fatalf("%d ids for a count of NULL", n)
	}
	ids = column[int64](t, c, "SELECT snowflake_next(3) FROM generate_series(1, 3)")
	wantRising(t, "several calls in one statement", ids)
	wantError(t, tryExec(t, c, "SELECT snowflake_next(-1)"), "22023", "count must not be negative", "-1")

	private := func() int64 {
		return kilobytes(t, shared, pid(t, c), "RssAnon")
	}
	exec(t, c, "DO $$ BEGIN PERFORM count(*) FROM (SELECT snowflake_next(10000)) x; END $$")
	small := private()
	exec(t, c, "DO $$ BEGIN PERFORM count(*) FROM (SELECT snowflake_next(3000000)) x; END $$")
	if grown := private() - small; grown > 4*1024 {
		t.Errorf("three million ids of one call cost %d kB", grown)
	}
}

// Ids carry the time at which they were made: not before the statement, never ahead of the clock.
func TestTimeOfIDs(t *testing.T) {
	c := connect(t)
	for range 100 {
		var early, late bool
		err := c.QueryRow(background(t), `WITH a AS MATERIALIZED (SELECT clock_timestamp() AS t),
			b AS MATERIALIZED (SELECT snowflake_timestamp(snowflake_next()) AS t, uuidv7_timestamp(uuidv7()) AS u FROM a)
			SELECT least(b.t, b.u) < date_trunc('milliseconds', a.t), greatest(b.t, b.u) > clock_timestamp() FROM a, b`).Scan(&early, &late)
		if err != nil || early || late {
			t.Fatalf("early %t, late %t, %v", early, late, err)
		}
	}
}

// goParallel has the planner go parallel wherever it may.
func goParallel() string {
	if backend.Major() < 16 {
		return "SET force_parallel_mode = on"
	}
	return "SET debug_parallel_query = on"
}

// Generators must not run in parallel workers (viascom/nanoid-postgres#16, neondatabase/pg_session_jwt#17).
func TestParallelQueriesMakeDistinctIDs(t *testing.T) {
	c := connect(t)
	exec(t, c, `CREATE TABLE t AS SELECT generate_series(1, 1000000) AS n; ANALYZE t;
		SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; `+goParallel())
	if n := one[int64](t, c, "SELECT count(DISTINCT id) FROM (SELECT snowflake_next() AS id FROM t) x"); n != 1_000_000 {
		t.Fatalf("%d distinct ids", n)
	}
	if n := one[int64](t, c, "SELECT count(DISTINCT u) FROM (SELECT uuidv7() AS u FROM t) x"); n != 1_000_000 {
		t.Fatalf("%d distinct uuids", n)
	}
	// Even where somebody marks the generator safe, a worker refuses rather than share its leader's lease.
	exec(t, c, "SELECT snowflake_next(); ALTER FUNCTION snowflake_next() PARALLEL SAFE")
	err := tryExec(t, c, "SELECT count(snowflake_next()) FROM t")
	wantError(t, err, "25000", "parallel")
}

// With the planner told to go parallel wherever it may, statements that write make distinct ids as well, and the UUIDs
// of parallel workers are distinct from those of their leader.
func TestParallelStatementsThatWrite(t *testing.T) {
	c := connect(t)
	exec(t, c, `CREATE TABLE n AS SELECT n FROM generate_series(1, 50000) n; ANALYZE n;
		SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; `+goParallel()+`;
		CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_next(), u uuid UNIQUE DEFAULT public.uuidv7(), g uuid UNIQUE DEFAULT sequential_uuid(), n integer)`)
	for i, statement := range []string{
		"INSERT INTO t (n) SELECT n FROM n",
		"INSERT INTO t SELECT snowflake_next(), public.uuidv7(), sequential_uuid(), n FROM n",
		"INSERT INTO t (id, n) SELECT id, n FROM (SELECT snowflake_next() AS id, a.n FROM n a JOIN n b USING (n)) x",
		"CREATE TABLE made AS SELECT snowflake_next() AS id, public.uuidv7() AS u, sequential_uuid() AS g, n FROM n; INSERT INTO t SELECT * FROM made",
		"CREATE TABLE safe AS SELECT public.uuidv7() AS u, sequential_uuid() AS g, n FROM n; INSERT INTO t (u, g, n) SELECT * FROM safe",
		"CREATE MATERIALIZED VIEW m AS SELECT snowflake_next() AS id, n FROM n; INSERT INTO t (id, n) SELECT * FROM m",
	} {
		exec(t, c, statement) // the keys refuse repeats
		wantEqual(t, c, "(SELECT count(*) FROM t)", fmt.Sprint((i+1)*50_000))
	}
	for query, node := range map[string]string{
		"CREATE TABLE x AS SELECT public.uuidv7(), sequential_uuid() FROM n": "Gather",
		"SELECT public.uuidv7(), sequential_uuid() FROM n":                   "Gather",
		"CREATE TABLE x AS SELECT snowflake_next() FROM n":                   "no Gather",
		"SELECT snowflake_next(), public.uuidv7() FROM n":                    "no Gather",
	} {
		wantPlan(t, c, query, node)
	}
}

func TestReadOnlyTransaction(t *testing.T) {
	c := connect(t)
	exec(t, c, "SET default_transaction_read_only = on")
	wantError(t, tryExec(t, c, "SELECT snowflake_next()"), "25006", "cannot execute snowflake_next() in a read-only transaction")
	wantError(t, tryExec(t, c, "SELECT * FROM snowflake_next(3)"), "25006")
	exec(t, c, "SELECT uuidv7(), snowflake_parse(1), snowflake_timestamp(1), snowflake_status()")
}

// The endings of a session inside an endless statement, each within half a second.
func TestEndingAStatementThatMakesIDs(t *testing.T) {
	for _, statement := range []string{
		"SELECT snowflake_next() FROM generate_series(1, 1000000000)",
		"SELECT count(snowflake_next()) FROM generate_series(1, 1000000000)",
		"SELECT count(*) FROM snowflake_next(1000000000)",
		"SELECT count(uuidv7()) FROM generate_series(1, 1000000000)",
	} {
		wantEndings(t, shared, newDatabase(t, shared), statement)
	}
}

// wantEndings fails unless cancel, statement_timeout and terminate end a statement within half a second. A busy
// machine may be late once or twice, so each has three tries; what does not work is late every time.
func wantEndings(t *testing.T, node *cluster.Node, database, statement string) {
	t.Helper()
	control := node.Connect(t, database)
	promptly := func(what string, end func(c *pgx.Conn) time.Duration) {
		t.Helper()
		var took time.Duration
		for range 3 {
			c := node.Connect(t, database)
			took = end(c)
			c.Close(background(t))
			if took <= 500*time.Millisecond {
				return
			}
		}
		t.Errorf("%s ended %q after %v", what, statement, took)
	}
	start := func(c *pgx.Conn) chan error {
		done := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_, err := c.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol)
			done <- err
		}()
		for one[bool](t, control, "SELECT state <> 'active' FROM pg_stat_activity WHERE pid = $1", c.PgConn().PID()) {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond) // be inside, not at the door
		return done
	}

	promptly("pg_cancel_backend", func(c *pgx.Conn) time.Duration {
		done := start(c)
		began := time.Now()
		exec(t, control, fmt.Sprintf("SELECT pg_cancel_backend(%d)", c.PgConn().PID()))
		wantError(t, <-done, "57014", "due to user request")
		return time.Since(began)
	})
	promptly("statement_timeout", func(c *pgx.Conn) time.Duration {
		exec(t, c, "SET statement_timeout = 200")
		began := time.Now()
		wantError(t, tryExec(t, c, statement), "57014", "statement timeout")
		return time.Since(began) - 200*time.Millisecond
	})
	promptly("pg_terminate_backend", func(c *pgx.Conn) time.Duration {
		done := start(c)
		began := time.Now()
		exec(t, control, fmt.Sprintf("SELECT pg_terminate_backend(%d)", c.PgConn().PID()))
		wantError(t, <-done, "57P01")
		return time.Since(began)
	})
}
