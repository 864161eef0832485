package test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"pgsnowflake/test/cluster"
)

// Servers that send each other rows, and a standby that is read and then takes over.

// Two servers with ranges of their own write at the same time and send each other their rows: none collides, and what
// each remembers of its clock stays its own.
func TestTwoServersSendEachOtherTheirRows(t *testing.T) {
	const writers, rows = 4, 1000 // on each server
	// From 16 on a server tells its own rows from those that it was sent, so both can write one table.
	written, options := [2]string{"a", "b"}, "copy_data = false"
	if backend.Major() >= 16 {
		written, options = [2]string{"a", "a"}, "copy_data = false, origin = none"
	}
	var nodes [2]*cluster.Node
	var names [2]string
	var c [2]*pgx.Conn
	for i := range nodes {
		nodes[i] = backend.Start(t, cluster.Config{Name: fmt.Sprint("server", i), Settings: map[string]string{
			"wal_level": "logical", "snowflake.worker_range": fmt.Sprintf("%d-%d", 100*i, 100*i+99)}})
		names[i] = newDatabase(t, nodes[i])
		c[i] = nodes[i].Connect(t, names[i])
		exec(t, c[i], `CREATE TABLE a (id snowflake PRIMARY KEY DEFAULT snowflake_next(), n integer); CREATE TABLE b (LIKE a INCLUDING ALL);
			CREATE TABLE one_way (n integer); CREATE PUBLICATION p FOR TABLE `+written[i])
	}
	// Columns that only the receiver has: the process that applies the rows makes their ids.
	exec(t, c[0], "ALTER PUBLICATION p ADD TABLE one_way")
	exec(t, c[1], "ALTER TABLE one_way ADD id bigint PRIMARY KEY DEFAULT snowflake_next(), ADD u uuid UNIQUE DEFAULT public.uuidv7()")
	for i := range nodes {
		exec(t, c[i], fmt.Sprintf("CREATE SUBSCRIPTION s CONNECTION '%s' PUBLICATION p WITH (%s)",
			strings.ReplaceAll(nodes[1-i].PeerConninfo(names[1-i]), "'", "''"), options))
	}

	// Rows that the first server made leave no trace of its clock or epoch on the second.
	exec(t, c[0], "INSERT INTO a (n) SELECT -n FROM generate_series(1, 100) n")
	waitFor(t, c[1], "SELECT count(*) = 100 FROM a")
	for _, sequence := range []string{"snowflake_mark", "snowflake_epoch", "snowflake_uptime"} {
		if one[bool](t, c[1], "SELECT is_called FROM "+sequence) {
			t.Errorf("%s came along", sequence)
		}
	}

	var both sync.WaitGroup
	for i := range nodes {
		both.Add(1)
		go func() {
			defer both.Done()
			sessions(t, nodes[i], names[i], writers, func(_ int, c *pgx.Conn) error {
				for range rows / 10 {
					if _, err := c.Exec(background(t), fmt.Sprintf("INSERT INTO %s (n) SELECT %d FROM generate_series(1, 10)", written[i], i)); err != nil {
						return err
					}
				}
				return nil
			})
		}()
	}
	exec(t, c[0], "INSERT INTO one_way SELECT generate_series(1, 1000)")
	both.Wait()
	const all = "(SELECT * FROM a UNION ALL SELECT * FROM b) x"
	for i := range nodes {
		waitFor(t, c[i], fmt.Sprintf("SELECT count(*) = %d FROM %s", 2*writers*rows+100, all))
		wantEqual(t, c[i], "(SELECT count(DISTINCT id) FROM "+all+")", fmt.Sprint(2*writers*rows+100))
		wantNone(t, c[i], "rows of one server with a worker of the other", all+" WHERE n >= 0 AND snowflake_worker_id(id) / 100 <> n")
	}
	waitFor(t, c[1], "SELECT count(*) = 1000 FROM one_way")
	wantEqual(t, c[1], "(SELECT ROW(count(DISTINCT id), count(DISTINCT u), min(snowflake_worker_id(id) / 100)) FROM one_way)", "ROW(1000, 1000, 1)")
	wantNone(t, c[1], "ids on both tables", "one_way JOIN "+all+" USING (id)")

	// The applying process holds a lease like any session, and ends when it is told to.
	if n := one[int](t, c[1], "SELECT count(*) FROM snowflake_workers JOIN pg_stat_subscription USING (pid)"); n != 1 {
		t.Errorf("%d of the applying processes lease a worker", n)
	}
	exec(t, c[0], "DROP SUBSCRIPTION s")
	nodes[1].Stop(t, cluster.Fast)
}

// A database moves to another server by logical replication, with its sequences: the mark and the epoch are among them,
// and the same worker goes on above the old ids.
func TestMoveByLogicalReplication(t *testing.T) {
	if backend.Major() < 19 {
		t.Skip("logical replication carries sequences from PostgreSQL 19 on")
	}
	settings := map[string]string{"wal_level": "logical", "snowflake.worker_id": "3", "snowflake.epoch": "2025-01-01"}
	old := backend.Start(t, cluster.Config{Name: "old", Settings: settings})
	new := backend.Start(t, cluster.Config{Name: "new", Settings: settings, FakeClock: true})
	new.SetClock(t, -80*time.Millisecond)
	source, target := newDatabase(t, old), newDatabase(t, new)
	from, to := old.Connect(t, source), new.Connect(t, target)
	const table = "CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_next(), n integer)"
	exec(t, from, table+"; CREATE PUBLICATION p FOR ALL TABLES, ALL SEQUENCES; INSERT INTO t (n) SELECT generate_series(1, 1000)")
	exec(t, to, table)
	exec(t, to, fmt.Sprintf("CREATE SUBSCRIPTION s CONNECTION '%s' PUBLICATION p", strings.ReplaceAll(old.PeerConninfo(source), "'", "''")))
	waitFor(t, to, "SELECT count(*) = 1000 FROM t")
	waitFor(t, from, fmt.Sprintf("SELECT snowflake_next() > 0 AND last_value > %d FROM snowflake_mark",
		one[int64](t, from, "SELECT last_value FROM snowflake_mark"))) // the mark moves on
	exec(t, from, "INSERT INTO t (n) SELECT generate_series(1001, 2000)")
	waitFor(t, to, "SELECT count(*) = 2000 FROM t")
	const remembered = "SELECT format('%s %s', (SELECT last_value FROM snowflake_mark), (SELECT last_value FROM snowflake_epoch))"
	want := one[string](t, from, remembered)
	exec(t, to, "ALTER SUBSCRIPTION s REFRESH SEQUENCES")
	waitFor(t, to, fmt.Sprintf("SELECT (%s) = '%s'", remembered, want))
	exec(t, to, "DROP SUBSCRIPTION s")
	exec(t, to, "INSERT INTO t (n) SELECT generate_series(2001, 3000)")
	wantRising(t, "over the move", column[int64](t, to, "SELECT id FROM t ORDER BY n"))
}

// A standby answers all that makes no snowflake id, as its primary does; once it is promoted it makes ids above those
// of before.
func TestStandby(t *testing.T) {
	primary := backend.Start(t, cluster.Config{Name: "primary"})
	database := newDatabase(t, primary)
	c := primary.Connect(t, database)
	exec(t, c, "CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_next(), n integer); INSERT INTO t (n) SELECT generate_series(1, 1000)")
	standby := backend.Start(t, cluster.Config{Name: "standby", StandbyOf: primary})
	s := standby.Connect(t, database)
	waitFor(t, s, "SELECT count(*) = 1000 FROM t")
	for _, f := range allFunctions() {
		if !f.callable() {
			continue
		}
		query := "SELECT (" + f.call("public", nil) + ")::text"
		switch f.name {
		case "snowflake_next", "snowflake_reset_mark":
			wantError(t, tryExec(t, s, query), "25006", "cannot execute "+f.name+"()")
			continue
		}
		got := column[*string](t, s, query)
		if strings.Contains(f.marks, "volatile") || f.name == "snowflake_fingerprint" { // another server has another one
			continue
		}
		if want := one[string](t, c, query); len(got) != 1 || got[0] == nil || *got[0] != want {
			t.Errorf("%s gives %v on the standby, %s on the primary", query, got, want)
		}
	}
	wantError(t, tryExec(t, s, "INSERT INTO t DEFAULT VALUES"), "25006")
	exec(t, s, "TABLE snowflake_workers")
	if n := one[int](t, s, "SELECT count(*) FROM snowflake_workers"); n != 0 {
		t.Errorf("%d workers are in use on a standby", n)
	}

	primary.Stop(t, cluster.Fast)
	standby.Promote(t)
	before := column[int64](t, s, "SELECT id FROM t ORDER BY n")
	after, err := nextIDs(s, 1000) // in the session that had been refused
	if err != nil {
		t.Fatal(err)
	}
	wantRising(t, "over the promotion", append(before, after...))
	exec(t, s, "INSERT INTO t (n) SELECT generate_series(1, 1000)")
}
