package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"pgsnowflake/test/cluster"
	"pgsnowflake/test/recipes"
)

// What each page promises, beyond the results that it prints.
var pageChecks = map[string]pageCheck{
	"arbiter.md": {
		before: map[string]func(*pageRun){"arbiter": lendOne},
	},
	"backfill.md": {
		before: map[string]func(*pageRun){"fill": disturbBackfill},
		after:  checkBackfill,
	},
	"clock-and-mark.md": {
		before: map[string]func(*pageRun){"ran-ahead": runAhead},
		after:  checkMark,
	},
	"json.md": {
		before: map[string]func(*pageRun){"convert": noteFile},
		after:  checkFile,
	},
	"new-table.md": {after: checkNewTable},
	"partitions.md": {
		before: map[string]func(*pageRun){"explain": checkPartitions},
	},
	"pg-partman.md": {
		before: map[string]func(*pageRun){"maintenance": addOldPartitions},
		after:  checkPartman,
	},
	"queries.md": {
		before: map[string]func(*pageRun){"bound": checkBound, "tuesday": checkLastTuesday},
	},
	"retention.md": {
		before: map[string]func(*pageRun){"more": addReadings, "costs": checkRetention},
	},
}

// lendOne makes the page's database an arbiter that has lent one worker.
func lendOne(r *pageRun) {
	setUpArbiter(r, r.node, recipesDatabase)
	r.maintainIn(recipesDatabase, `SELECT * FROM snowflake_arbiter.ask(0, 'an id', 'db1:5432', 1, 30000, 0, 5, 5, 0, 0)`)
}

// inBackground runs a statement in a session of its own; the channel gives its error.
func (r *pageRun) inBackground(sql string) (*recipeSession, <-chan error) {
	session, done := r.connect(recipesDatabase), make(chan error, 1)
	go func() {
		_, err := session.PgConn().Exec(r.ctx, sql).ReadAll()
		done <- err
	}()
	return session, done
}

// untilBlocked waits until one session waits for a lock of another.
func (r *pageRun) untilBlocked(session, blocker *recipeSession) {
	for !valueOf[bool](r.session(""), r, "SELECT $1::int4 = ANY(pg_blocking_pids($2::int4))", blocker.PgConn().PID(), session.PgConn().PID()) {
		if r.ctx.Err() != nil {
			r.Fatal("the session never waited for the lock")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// cancel ends the statement of a session.
func (r *pageRun) cancel(session *recipeSession, done <-chan error) {
	r.session("").must(r, "SELECT pg_cancel_backend($1::int4)", session.PgConn().PID())
	var failure *pgconn.PgError
	if err := <-done; !errors.As(err, &failure) || failure.Code != "57014" {
		r.Fatalf("the statement was not cancelled: %v", err)
	}
	session.Close(r.ctx)
}

// disturbBackfill cancels a call of the procedure in the middle of a batch; changes a row under the eyes of a second
// call while new rows come in, and cancels that one further on. The page's own call ends the work.
func disturbBackfill(r *pageRun) {
	watch, first, second := r.session(""), r.connect(recipesDatabase), r.connect(recipesDatabase)
	defer first.Close(r.ctx)
	defer second.Close(r.ctx)
	const nth = "(SELECT id FROM events WHERE new_id IS NULL ORDER BY created_at OFFSET $1 LIMIT 1)"
	changed, further := watch.int64(r, "SELECT "+nth, 7500), watch.int64(r, "SELECT "+nth, 20500)

	first.must(r, "BEGIN")
	first.must(r, "SELECT FROM events WHERE id = $1 FOR UPDATE", changed)
	call, done := r.inBackground("CALL fill_events(1000)")
	r.untilBlocked(call, first)
	r.cancel(call, done)
	checkFilled(r, 7000)

	first.must(r, "UPDATE events SET payload = 'changed' WHERE id = $1", changed)
	first.must(r, "INSERT INTO events (payload) SELECT 'live' FROM generate_series(1, 5000)")
	second.must(r, "BEGIN")
	second.must(r, "SELECT FROM events WHERE id = $1 FOR UPDATE", further)
	call, done = r.inBackground("CALL fill_events(1000)")
	r.untilBlocked(call, first)
	first.must(r, "COMMIT")
	r.untilBlocked(call, second)
	r.cancel(call, done)
	checkFilled(r, 20000)
	second.must(r, "ROLLBACK")
}

// checkFilled holds the number of filled rows to what the procedure noted, and to what it must be.
func checkFilled(r *pageRun, rows int64) {
	r.Helper()
	filled := r.session("").int64(r, "SELECT count(new_id) FROM events WHERE payload <> 'live'")
	if noted := r.session("").int64(r, "SELECT rows_done FROM events_backfill"); filled != rows || noted != rows {
		r.Errorf("after the cancel %d rows are filled and %d noted, not %d", filled, noted, rows)
	}
}

func checkBackfill(r *pageRun) {
	session := r.session("")
	if wrong := session.int64(r, `SELECT count(*) FROM (
			SELECT id, lag(id) OVER (ORDER BY created_at, id) AS before FROM events WHERE payload NOT IN ('live', 'new')) e
		WHERE before >= id`); wrong != 0 {
		r.Errorf("%d ids do not rise with created_at", wrong)
	}
	if wrong := session.int64(r, `SELECT count(*) FROM events
		WHERE (snowflake_worker_id(id) = 1023) = (payload IN ('live', 'new'))`); wrong != 0 {
		r.Errorf("%d ids are of the wrong worker", wrong)
	}
	if kind := session.text(r, `SELECT string_agg(pg_get_constraintdef(oid), ', ') FROM pg_constraint
		WHERE conrelid = 'events'::regclass AND contype <> 'n'`); kind != "PRIMARY KEY (id)" {
		r.Errorf("the constraints are: %s", kind)
	}

	// Rows older than the epoch: ids from its first millisecond on, in their order.
	session.must(r, "CREATE SCHEMA ancient")
	session.must(r, "SET search_path = ancient, public")
	session.must(r, "CREATE TABLE events AS SELECT timestamptz '2001-01-01' + n * interval '1 day' AS created_at, NULL::bigint AS new_id FROM generate_series(1, 9000) n")
	for _, start := range []string{"CREATE TABLE events_backfill", "CREATE PROCEDURE fill_events"} {
		for _, statement := range r.statements(start) {
			session.must(r, statement)
		}
	}
	session.must(r, "CALL fill_events(1000)")
	if wrong := session.int64(r, `SELECT count(*) FROM (
			SELECT created_at, new_id, row_number() OVER (ORDER BY created_at) - 1 AS n, count(*) OVER (ORDER BY created_at) AS rows FROM events) e
		WHERE created_at < '2019-01-01' AND new_id <> snowflake_compose(timestamptz '2019-01-01' + n / 4096 * interval '1 ms', 1023, n::int % 4096)
		   OR created_at >= '2019-01-02' AND snowflake_timestamp(new_id) <> created_at`); wrong != 0 {
		r.Errorf("%d rows from before the epoch got a wrong id", wrong)
	}
}

// statements are those of the block that has one with this beginning.
func (r *pageRun) statements(beginning string) []string {
	for _, block := range r.page.Blocks {
		for _, statement := range recipes.Split(block.SQL) {
			if strings.HasPrefix(statement, beginning) {
				return recipes.Split(block.SQL)
			}
		}
	}
	r.Fatalf("%s has no statement that begins with %q", r.page.Name, beginning)
	return nil
}

// checkPartitions takes every microsecond around every bound of the partitions: the ids of its millisecond lie in
// exactly one of them, and the insert puts them there.
func checkPartitions(r *pageRun) {
	session := r.session("")
	session.must(r, "BEGIN")
	session.must(r, `CREATE TEMP TABLE bounds AS
		SELECT m, to_char(m AT TIME ZONE 'UTC', '"events_"YYYY_MM') AS month,
		       to_char((m - interval '1 us') AT TIME ZONE 'UTC', '"events_"YYYY_MM') AS month_before,
		       m = date_trunc('month', now(), 'UTC') AS first, m > now() + interval '3 months' AS last
		FROM generate_series(date_trunc('month', now(), 'UTC'), now() + interval '4 months', interval '1 month') m`)
	session.must(r, `CREATE TEMP TABLE tried AS
		SELECT snowflake_compose(m + us * interval '1 us', w, s) AS id, CASE WHEN us < 0 THEN month_before ELSE month END AS month
		FROM bounds, generate_series(-2500, 2500) us, (VALUES (0, 0), (1023, 4095)) parts(w, s)
		WHERE (us >= 0 OR NOT first) AND (us < 0 OR NOT last)`)
	if few := session.int64(r, "SELECT count(*) FROM tried"); few < 3*10000 {
		r.Fatalf("only %d ids are tried", few)
	}
	session.must(r, "INSERT INTO events SELECT DISTINCT id, 'bound' FROM tried")
	if wrong := session.int64(r, `SELECT count(*) FROM tried t LEFT JOIN events e USING (id)
		WHERE e.tableoid::regclass::text IS DISTINCT FROM t.month`); wrong != 0 {
		r.Errorf("%d ids around the bounds are not in the partition of their microsecond", wrong)
	}
	session.must(r, "ROLLBACK")
}

// addReadings makes the table of the page one of SNOWFLAKE_TEST_ROWS rows, of the same 100 days and in order of time.
func addReadings(r *pageRun) {
	rows := int64(300_000)
	if text := os.Getenv("SNOWFLAKE_TEST_ROWS"); text != "" {
		var err error
		if rows, err = strconv.ParseInt(text, 10, 64); err != nil {
			r.Fatalf("SNOWFLAKE_TEST_ROWS: %v", err)
		}
	}
	session := r.session("")
	session.must(r, "TRUNCATE readings")
	session.must(r, `INSERT INTO readings
		SELECT snowflake_compose(now() - interval '100 days' + n * ((interval '100 days' - interval '1 minute') / $1::int8), 1023, (n % 4096)::int), n
		FROM generate_series(1::int8, $1::int8) n`, rows)
}

// plan is what EXPLAIN says of one node, as far as it matters here.
type plan struct {
	Kind      string  `json:"Node Type"`
	Condition string  `json:"Index Cond"`
	Rows      float64 `json:"Actual Rows"`
	Hit       int64   `json:"Shared Hit Blocks"`
	Read      int64   `json:"Shared Read Blocks"`
	Plans     []plan
}

func (p plan) pages() int64 { return p.Hit + p.Read }

// explain runs a statement, undoes it and gives its plan.
func (r *pageRun) explain(sql string) plan {
	session := r.session("")
	session.must(r, "BEGIN")
	text := session.text(r, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+sql)
	session.must(r, "ROLLBACK")
	var plans []struct{ Plan plan }
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		r.Fatal(err)
	}
	return plans[0].Plan
}

// indexRange finds the one index condition in a plan.
func (p plan) indexRange() string {
	found := p.Condition
	for _, child := range p.Plans {
		found += child.indexRange()
	}
	return found
}

// checkRetention holds the pages that a batch touches to its share of the table.
func checkRetention(r *pageRun) {
	session := r.session("")
	total := session.int64(r, "SELECT count(*) FROM readings")
	size := session.int64(r, "SELECT (pg_relation_size('readings') + pg_relation_size('readings_pkey')) / current_setting('block_size')::int8")
	for _, batch := range []int64{1000, 10_000} {
		until := session.int64(r, "SELECT id FROM readings ORDER BY id OFFSET $1 LIMIT 1", batch)
		remove := r.explain(fmt.Sprintf("DELETE FROM readings WHERE id >= 0 AND id < %d", until))
		find := remove.Plans[0]
		r.Logf("%d of %d rows: %d pages accessed to find them, %d with the deletion of each; table and index have %d",
			batch, total, find.pages(), remove.pages(), size)
		if remove.indexRange() == "" || int64(find.Rows) != batch {
			r.Errorf("%d rows are not found by an index range: %+v", batch, find)
		}
		// The rows lie side by side: their share of both, a leaf of the index for each page of the table at worst.
		if share := size * batch / total; find.pages() > 3*share+20 {
			r.Errorf("%d pages were accessed to find %d rows, their share is %d", find.pages(), batch, share)
		}
		if remove.pages() > 2*batch {
			r.Errorf("%d pages were accessed to delete %d rows", remove.pages(), batch)
		}
	}
}

// checkBound holds a transaction open with an id that it has made: the page's bound is not above it.
func checkBound(r *pageRun) {
	writer := r.connect(recipesDatabase)
	defer writer.Close(r.ctx)
	writer.must(r, "BEGIN")
	id := writer.int64(r, "INSERT INTO orders (customer) VALUES (1) RETURNING id")
	query := r.statements("SELECT snowflake_min_id(min(xact_start))")[0]
	old := writer.int64(r, "SELECT max(id) FROM orders WHERE id < $1", id)
	if bound := r.session("").int64(r, query); bound > id || bound <= old {
		r.Errorf("the bound is %d, an open transaction has made %d, others before it %d", bound, id, old)
	}
	writer.must(r, "COMMIT")
	if bound := r.session("").int64(r, query); bound < id {
		r.Errorf("the bound is still %d, below %d, which is committed", bound, id)
	}
}

// checkLastTuesday asks the page's query on each day of two weeks, just after and just before midnight in Berlin.
func checkLastTuesday(r *pageRun) {
	_, query, _ := strings.Cut(r.statements("PREPARE last_tuesday AS")[0], "AS")
	for day := 18; day <= 31; day++ {
		tuesday := 24
		if day <= tuesday {
			tuesday = 17
		}
		for _, hour := range []string{"00:00", "12:00", "23:59"} {
			now := fmt.Sprintf("timestamptz '2026-03-%d %s Europe/Berlin'", day, hour)
			got := r.session("").text(r, `SELECT format('%s rows from %s to %s', count(*), min(snowflake_timestamp(id)) AT TIME ZONE 'Europe/Berlin',
				max(snowflake_timestamp(id)) AT TIME ZONE 'Europe/Berlin') FROM (`+strings.ReplaceAll(query, "now()", now)+") o")
			if want := fmt.Sprintf("144 rows from 2026-03-%d 00:00:00 to 2026-03-%d 23:50:00", tuesday, tuesday); got != want {
				r.Errorf("on %s: %s, not %s", now, got, want)
			}
		}
	}
}

// noteFile and checkFile: the conversion to type snowflake leaves the table's file alone, and its index.
func noteFile(r *pageRun) {
	r.session("").must(r, "CREATE TEMP TABLE noted AS SELECT name, pg_relation_filenode(name::regclass) AS file FROM unnest(ARRAY['likes', 'likes_pkey']) name")
}

func checkFile(r *pageRun) {
	if kept := r.session("").int64(r, "SELECT count(*) FROM noted WHERE file = pg_relation_filenode(name::regclass)"); kept != 2 {
		r.Error("the conversion has written the table or its index anew")
	}
}

// What retention must take away.
const (
	oldLogs   = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'logs_p%' AND relname < to_char(now() - interval '7 months', '\"logs_p\"YYYYMMDD')"
	oldEvents = `SELECT count(*) FROM pg_class, LATERAL substring(relname, '^events_p(\d+)$') low
		WHERE relkind = 'r' AND low::int8 < snowflake_min_id(now() - interval '100 days')`
)

// addOldPartitions gives both tables a partition that retention must take, one that it must leave, and a row in each
// of these.
func addOldPartitions(r *pageRun) {
	session := r.session("")
	session.must(r, `SELECT partman.create_partition_id('public.events', ARRAY[snowflake_min_id(t) / length * length])
		FROM (SELECT partition_interval::int8 AS length FROM partman.part_config WHERE parent_table = 'public.events') part,
		     (VALUES (now() - interval '110 days'), (now() - interval '80 days')) times(t)`)
	session.must(r, `SELECT partman.create_partition_time('public.logs', ARRAY[date_trunc('month', now() - interval '8 months'), date_trunc('month', now() - interval '4 months')])`)
	for _, days := range []int{110, 80} {
		session.must(r, "INSERT INTO events (id) SELECT snowflake_compose(now() - $1 * interval '1 day', 0, 0)", days)
	}
	for _, months := range []int{8, 4} {
		session.must(r, "INSERT INTO logs (id) SELECT uuidv7_min(date_trunc('month', now() - $1 * interval '1 month'))", months)
	}
	session.must(r, "INSERT INTO events (payload) VALUES ('now')")
	for _, query := range []string{oldLogs, oldEvents} {
		if session.int64(r, query) == 0 {
			r.Errorf("nothing is old: %s", query)
		}
	}
}

// checkPartman: retention took what it should, the partitions reach far enough ahead, no microsecond of a bound is
// without a partition.
func checkPartman(r *pageRun) {
	session := r.session("")
	for query, want := range map[string]int64{
		"SELECT count(*) FROM events WHERE payload IS NULL": 1,
		"SELECT count(*) FROM logs WHERE payload IS NULL":   1,
		oldLogs:   0,
		oldEvents: 0,
	} {
		if got := session.int64(r, query); got != want {
			r.Errorf("%d, not %d: %s", got, want, query)
		}
	}
	session.must(r, `INSERT INTO events (id) SELECT DISTINCT snowflake_compose(snowflake_timestamp(low::int8) + us * interval '1 us', w, s)
		FROM pg_class, LATERAL substring(relname, '^events_p(\d+)$') low, generate_series(-1500, 1500) us, (VALUES (0, 0), (1023, 4095)) parts(w, s)
		WHERE relkind = 'r' AND low::int8 > snowflake_min_id(now()) AND us >= -1500`)
	session.must(r, `INSERT INTO logs (id) SELECT DISTINCT bound FROM pg_class c,
			LATERAL substring(pg_get_expr(relpartbound, c.oid), $$FROM \('([^']*)'\)$$) low, generate_series(-1500, 1500) us,
			LATERAL (VALUES (uuidv7_min(uuidv7_timestamp(low::uuid) + us * interval '1 us')), (uuidv7_max(uuidv7_timestamp(low::uuid) + us * interval '1 us'))) bounds(bound)
		WHERE relname LIKE 'logs_p%' AND relkind = 'r' AND uuidv7_timestamp(low::uuid) > now() AND bound <> uuidv7_min(uuidv7_timestamp(low::uuid))`)
	session.must(r, "INSERT INTO events (id) SELECT snowflake_min_id(now() + interval '60 days')")
}

// runAhead makes ids of two workers by a clock that is an hour ahead, sets it right and restarts the server.
func runAhead(r *pageRun) {
	r.node.SetClock(r, time.Hour)
	r.session("").must(r, "INSERT INTO orders (note) SELECT 'ahead' FROM generate_series(1, 3)")
	other := r.connect(recipesDatabase)
	other.must(r, "INSERT INTO orders (note) VALUES ('ahead')")
	other.Close(r.ctx)
	r.node.SetClock(r, 0)
	r.node.Restart(r, cluster.Fast)
}

// checkMark: what was made after the repair is unique, of the present, and of neither worker that ran ahead.
func checkMark(r *pageRun) {
	session := r.session("")
	session.must(r, "INSERT INTO orders (note) SELECT 'later' FROM generate_series(1, 10000)")
	if !strings.Contains(r.node.Log(r), `the durable mark of database "shop" was lowered`) {
		r.Error("the server's log does not say that the mark was lowered")
	}
	if wrong := session.int64(r, "SELECT count(*) FROM orders WHERE note <> 'first' AND (snowflake_worker_id(id) < 2 OR abs(extract(epoch FROM snowflake_timestamp(id) - now())) > 600)"); wrong != 0 {
		r.Errorf("%d ids are not of the present or of a worker that was left out", wrong)
	}
}

// checkNewTable: a role needs no right on a sequence, and with INSERT on the other columns only it cannot bring ids
// along; both converted tables go on above their old ids.
func checkNewTable(r *pageRun) {
	session := r.session("")
	session.must(r, "INSERT INTO visits (page) SELECT '/new' FROM generate_series(1, 10)")
	for query, want := range map[string]int64{
		"SELECT count(*) FROM visits WHERE page = '/' AND id > 1000":                                           0,
		"SELECT count(*) FROM visits WHERE page = '/new' AND id > snowflake_min_id(now() - interval '1 hour')": 10,
		"SELECT count(*) FROM pg_class WHERE relkind = 'S' AND relname NOT LIKE 'snowflake%'":                  0,
		"SELECT count(*) FROM payments p JOIN members m ON m.id = p.member_id":                                 1001,
	} {
		if got := session.int64(r, query); got != want {
			r.Errorf("%d, not %d: %s", got, want, query)
		}
	}
	session.must(r, "BEGIN")
	session.must(r, "CREATE ROLE recipes_clerk")
	session.must(r, "GRANT INSERT (customer), SELECT ON orders TO recipes_clerk")
	session.must(r, "SET LOCAL ROLE recipes_clerk")
	session.must(r, "INSERT INTO orders (customer) VALUES ('eve')")
	_, err := session.Exec(r.ctx, "INSERT INTO orders (id, customer) VALUES (1, 'eve')")
	var failure *pgconn.PgError
	if !errors.As(err, &failure) || failure.Code != "42501" {
		r.Errorf("the role brought an id along: %v", err)
	}
	session.must(r, "ROLLBACK")
}
