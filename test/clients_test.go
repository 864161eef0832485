package test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// What clients do with ids: psql, pgx in each of its modes, pgbench with each protocol, and COPY.

const clientTable = `CREATE TABLE t (id snowflake PRIMARY KEY DEFAULT snowflake_next(), u uuid UNIQUE DEFAULT public.uuidv7(),
	b bigint UNIQUE DEFAULT snowflake_next(), n integer)`

func TestPsql(t *testing.T) {
	database := newDatabase(t, shared)
	out, err := shared.ExecIn(background(t), clientTable+`;
		INSERT INTO t (n) VALUES (1) RETURNING id AS first, b AS second \gset
		INSERT INTO t (n) VALUES (2), (3);
		PREPARE p (snowflake) AS SELECT n FROM t WHERE id = $1;
		EXECUTE p (:first);
		EXECUTE p (:'first');
		SELECT :first < :second, :'first'::snowflake = id, snowflake_timestamp(:first) = at FROM t, snowflake_timestamp(id) at WHERE n = 1;
		\copy (SELECT n FROM t ORDER BY id) TO STDOUT
		\set FETCH_COUNT 2
		SELECT n FROM t WHERE id >= :first ORDER BY id;
		SELECT format('SELECT snowflake_worker_id(%s) >= 0', id) FROM t ORDER BY id LIMIT 1 \gexec
`, "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", database)
	if want := "1\n1\nt|t|t\n1\n2\n3\n1\n2\n3\nt\n"; err != nil || out != want {
		t.Errorf("psql prints %q, not %q: %v", out, want, err)
	}
}

func TestModesOfPgx(t *testing.T) {
	c := connect(t)
	exec(t, c, clientTable)
	var all []int64
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			for n := range int32(20) { // the server plans a prepared statement anew at first, and not from the sixth time on
				var id, b, found int64
				var u string
				err := c.QueryRow(background(t), "INSERT INTO t (n) VALUES ($1) RETURNING id, b, u::text", mode, n).Scan(&id, &b, &u)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, id, b)
				if err := c.QueryRow(background(t), "SELECT b FROM t WHERE id = $1 AND u = $2", mode, id, u).Scan(&found); err != nil || found != b {
					t.Fatalf("row %d has %d, not %d: %v", id, found, b, err)
				}
				var worker, sequence int32
				if err := c.QueryRow(background(t), "SELECT worker_id, sequence FROM snowflake_parse($1)", mode, id).Scan(&worker, &sequence); err != nil ||
					int64(worker) != id>>12&1023 || int64(sequence) != id&4095 {
					t.Fatalf("%d is of worker %d with sequence %d: %v", id, worker, sequence, err)
				}
				ids := column[int64](t, c, "SELECT * FROM snowflake_next($1)", mode, n)
				if len(ids) != int(n) {
					t.Fatalf("%d ids instead of %d", len(ids), n)
				}
				all = append(all, ids...)
			}
			_, err := c.Exec(background(t), "SELECT snowflake_worker_id($1)", mode, int64(-5))
			wantError(t, err, "22023", "a negative number is not a snowflake id")
		})
	}
	wantRising(t, "over all modes", all)

	batch := &pgx.Batch{}
	for range 100 {
		batch.Queue("INSERT INTO t DEFAULT VALUES")
	}
	if err := c.SendBatch(background(t), batch).Close(); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, c, "(SELECT count(*) FROM t)", "200")
}

func TestPgbench(t *testing.T) {
	database := newDatabase(t, shared)
	c := shared.Connect(t, database)
	exec(t, c, clientTable)
	const script = `\set n random(3, 1000)
		INSERT INTO t (n) VALUES (:n) RETURNING id AS made, u AS unique \gset
		SELECT 1 / count(*) FROM t WHERE id = :made AND n = :n;
		SELECT snowflake_parse(:made), snowflake_encode(:made), snowflake_between(:made, now() - interval '1 hour', now() + interval '1 hour');
		INSERT INTO t (n) SELECT id % 1000 FROM snowflake_next(:n) id LIMIT 3;`
	dir := strings.TrimSpace(run(t, shared, "mktemp", "-d"))
	write(t, shared, dir+"/script.sql", script)
	for i, protocol := range []string{"simple", "extended", "prepared"} {
		out := run(t, shared, "pgbench", "-n", "-M", protocol, "-c", "4", "-j", "2", "-t", "50", "-f", dir+"/script.sql", database)
		if !strings.Contains(out, "number of transactions actually processed: 200/200") {
			t.Error(out)
		}
		wantEqual(t, c, "(SELECT ROW(count(*), count(DISTINCT id), count(DISTINCT u)) FROM t)", fmt.Sprintf("ROW(%d, %[1]d, %[1]d)", (i+1)*800))
	}
}

func TestCopy(t *testing.T) {
	c := connect(t)
	exec(t, c, clientTable+"; CREATE TABLE other (id bigint PRIMARY KEY, u uuid, b snowflake, n integer); SELECT count(*) FROM snowflake_next(1)")
	from := func(text, sql string) {
		t.Helper()
		if _, err := c.PgConn().CopyFrom(background(t), strings.NewReader(text), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	to := func(sql string) string {
		t.Helper()
		var out bytes.Buffer
		if _, err := c.PgConn().CopyTo(background(t), &out, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		return out.String()
	}
	before := one[int64](t, c, "SELECT snowflake_next()")
	var numbers strings.Builder
	for n := range 3000 {
		fmt.Fprintln(&numbers, n)
	}
	from(numbers.String(), "COPY t (n) FROM STDIN")
	from("n\n"+numbers.String(), "COPY t (n) FROM STDIN (FORMAT csv, HEADER)")
	from(to("COPY (SELECT n FROM t) TO STDOUT (FORMAT binary)"), "COPY t (n) FROM STDIN (FORMAT binary)")
	rows := 12000
	if backend.Major() >= 16 {
		from("\\D,5,7\n6,\\D,7\n", `COPY t (id, b, n) FROM STDIN (FORMAT csv, DEFAULT '\D')`)
		exec(t, c, "DELETE FROM t WHERE n = 7 AND (id = 6 OR b = 5)")
	}
	wantEqual(t, c, "(SELECT ROW(count(*), count(DISTINCT u)) FROM t)", fmt.Sprintf("ROW(%d, %[1]d)", rows))
	ids := column[int64](t, c, "SELECT id FROM (SELECT id, ctid FROM t UNION ALL SELECT b, ctid FROM t) x ORDER BY ctid, id")
	wantRising(t, "by COPY", append([]int64{before}, ids...))

	// Out and in again, also into the other of the two types, whose text and binary forms are the same.
	for _, format := range []string{"text", "csv", "binary"} {
		exec(t, c, "TRUNCATE other")
		from(to("COPY t TO STDOUT (FORMAT "+format+")"), "COPY other FROM STDIN (FORMAT "+format+")")
		wantNone(t, c, format, "(TABLE t EXCEPT ALL SELECT id, u, b, n FROM other) x")
		exec(t, c, "TRUNCATE t")
		from(to("COPY other TO STDOUT (FORMAT "+format+")"), "COPY t FROM STDIN (FORMAT "+format+")")
		wantEqual(t, c, "(SELECT count(*) FROM t JOIN other USING (id, u, b, n))", fmt.Sprint(rows))
	}
	made := strings.Fields(to("COPY (SELECT snowflake_next() FROM generate_series(1, 100)) TO STDOUT"))
	if len(made) != 100 || made[0] <= fmt.Sprint(ids[len(ids)-1]) {
		t.Errorf("COPY makes %d ids, the first is %s", len(made), made[0])
	}
	_, err := c.PgConn().CopyFrom(background(t), strings.NewReader("x\n"), "COPY t (id) FROM STDIN")
	wantError(t, err, "22P02", "x")
}
