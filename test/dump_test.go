package test

import (
	"fmt"
	"strings"
	"testing"

	"pgsnowflake/test/cluster"
)

// Dump and restore: what users build on the extension comes back as it was, mark and epoch travel, ids go on rising.

// moves are the ways to bring a database to another server: lines of shell that run beside the target, with $from, a
// conninfo of the source, and $to, the name of an empty database. Results of queries go to /dev/null, so that only
// what is wrong is printed.
var moves = []struct{ name, script string }{
	{"plain", `pg_dump -d "$from" -f plain.sql
		psql -X -q -v ON_ERROR_STOP=1 -d "$to" -f plain.sql >/dev/null`},
	{"custom", `pg_dump -Fc -d "$from" -f custom.dump
		pg_restore -e -d "$to" custom.dump`},
	{"directory, two jobs", `pg_dump -Fd -j 2 -d "$from" -f "folder.$to"
		pg_restore -e -j 2 -d "$to" "folder.$to"`},
	{"schema, then data", `pg_dump -s -d "$from" -f schema.sql
		pg_dump -a -d "$from" -f data.sql
		psql -X -q -v ON_ERROR_STOP=1 -d "$to" -f schema.sql >/dev/null
		psql -X -q -v ON_ERROR_STOP=1 -d "$to" -f data.sql >/dev/null
		psql -X -q -d "$to" -c 'REFRESH MATERIALIZED VIEW hours'`}, // neither dump does that
	{"in sections", `for section in pre-data data post-data; do
			pg_dump --section=$section -d "$from" -f $section.sql
			psql -X -q -v ON_ERROR_STOP=1 -d "$to" -f $section.sql >/dev/null
		done`},
	{"inserts, over what was there", `psql -X -q -d "$to" -c 'CREATE EXTENSION snowflake'
		pg_dump --clean --if-exists --inserts -d "$from" -f inserts.sql
		psql -X -q -v ON_ERROR_STOP=1 -d "$to" -f inserts.sql >/dev/null`},
}

// move brings a database to a new one of another node, which may be of a later major, since the programs are the
// target's, and returns the name of that.
func move(t *testing.T, script string, source *cluster.Node, database string, target *cluster.Node) string {
	t.Helper()
	copied := emptyDatabase(t, target)
	out, err := target.Exec(background(t), "sh", "-ec", `from=$0 to=$1
		`+script, source.PeerConninfo(database), copied)
	if err != nil || strings.TrimSpace(out) != "" {
		t.Fatalf("%v\n%s", err, out)
	}
	return copied
}

// shop is a database with all that may depend on the extension, whose objects lie in the schema given to it.
const shop = `CREATE SCHEMA IF NOT EXISTS %[1]s; CREATE EXTENSION snowflake SCHEMA %[1]s; SET search_path = public, %[1]s;
	CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_next(), u uuid UNIQUE DEFAULT %[1]s.uuidv7(), g uuid UNIQUE DEFAULT sequential_uuid('end'),
		at timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, '2026-01-01Z')) STORED, n integer, CHECK (snowflake_worker_id(id) < 1024));
	CREATE INDEX ON orders (snowflake_encode(id)) WHERE id >= snowflake_min_id('2026-02-01Z', '2026-01-01Z');
	CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_next(), "order" bigint REFERENCES orders, others snowflake[]);
	CREATE TABLE by_id (id snowflake PRIMARY KEY DEFAULT snowflake_next(), n integer) PARTITION BY RANGE (id);
	CREATE TABLE by_id_old PARTITION OF by_id FOR VALUES FROM (0) TO (5);
	CREATE TABLE by_id_new PARTITION OF by_id DEFAULT;
	CREATE TABLE by_time (id bigint DEFAULT snowflake_next(), n integer) PARTITION BY RANGE (snowflake_timestamp(id, '2026-01-01Z'));
	CREATE TABLE by_time_this PARTITION OF by_time FOR VALUES FROM ('2026-01-01Z') TO ('2095-01-01Z');
	CREATE VIEW lately AS SELECT o.*, (snowflake_parse(id)).worker_id FROM orders o WHERE snowflake_between(id, now() - interval '1 hour', now() + interval '1 hour');
	CREATE MATERIALIZED VIEW hours AS SELECT date_trunc('hour', snowflake_timestamp(id)) AS hour, count(*) FROM orders
		WHERE snowflake_between(id, '2026-01-01Z', '2095-01-01Z') GROUP BY 1;
	CREATE UNIQUE INDEX ON hours (hour);
	CREATE DOMAIN ticket AS snowflake DEFAULT snowflake_next() CHECK (VALUE > 0);
	CREATE TABLE tickets (id ticket, n integer);
	CREATE FUNCTION make() RETURNS snowflake LANGUAGE sql AS 'SELECT %[1]s.snowflake_next()::%[1]s.snowflake';
	INSERT INTO orders (n) SELECT generate_series(1, 500);
	INSERT INTO events ("order", others) SELECT id, ARRAY[id, id] FROM orders;
	INSERT INTO by_id (n) SELECT generate_series(1, 100); INSERT INTO by_id VALUES (1), (2);
	INSERT INTO by_time (n) SELECT generate_series(1, 100);
	INSERT INTO tickets (n) SELECT generate_series(1, 100);
	REFRESH MATERIALIZED VIEW hours`

// shopDigest tells whether two such databases hold the same.
const shopDigest = `SELECT string_agg(digest, ' ') FROM (
	SELECT md5(string_agg(o::text, ';' ORDER BY id)) FROM orders o UNION ALL SELECT md5(string_agg(e::text, ';' ORDER BY id)) FROM events e
	UNION ALL SELECT md5(string_agg(tableoid::regclass || b::text, ';' ORDER BY id)) FROM by_id b
	UNION ALL SELECT md5(string_agg(tableoid::regclass || b::text, ';' ORDER BY id)) FROM by_time b
	UNION ALL SELECT md5(string_agg(l::text, ';' ORDER BY id)) FROM lately l UNION ALL SELECT md5(string_agg(h::text, ';' ORDER BY hour)) FROM hours h
	UNION ALL SELECT md5(string_agg(k::text, ';' ORDER BY id)) FROM tickets k) x (digest)`

// testMoves makes a shop on the source, and what more of SQL is given, and brings it to the target in each way.
func testMoves(t *testing.T, source, target *cluster.Node, more string) {
	for _, schema := range []string{"public", `"My ids"`} {
		database := emptyDatabase(t, source)
		c := source.Connect(t, database)
		exec(t, c, fmt.Sprintf(shop, schema)+more)
		digest := one[string](t, c, shopDigest)
		remembered := fmt.Sprintf("SELECT format('mark %%s, epoch %%s', m.last_value, e.last_value) FROM %[1]s.snowflake_mark m, %[1]s.snowflake_epoch e", schema)
		want := one[string](t, c, remembered)
		for _, m := range moves {
			t.Run(schema+", "+m.name, func(t *testing.T) {
				restored := target.Connect(t, move(t, m.script, source, database, target))
				exec(t, restored, "SET search_path = public, "+schema)
				if got := one[string](t, restored, shopDigest); got != digest {
					t.Errorf("the restored database holds %s, not %s", got, digest)
				}
				if got := one[string](t, restored, remembered); got != want {
					t.Errorf("the restored database remembers %s, not %s", got, want)
				}
				last := one[int64](t, restored, "SELECT max(id) FROM tickets")
				exec(t, restored, `INSERT INTO orders (n) SELECT generate_series(1, 100); INSERT INTO events ("order") SELECT id FROM orders WHERE id > `+fmt.Sprint(last)+`;
					INSERT INTO by_id (n) VALUES (0); INSERT INTO by_time (n) VALUES (0); INSERT INTO tickets (n) VALUES (0); REFRESH MATERIALIZED VIEW CONCURRENTLY hours`)
				wantRising(t, "over the restore", column[int64](t, restored, fmt.Sprintf(`SELECT %d UNION ALL (SELECT id::bigint FROM orders WHERE id > %[1]d ORDER BY id)
					UNION ALL (SELECT id::bigint FROM events WHERE id > %[1]d ORDER BY id) UNION ALL SELECT id::bigint FROM by_id WHERE n = 0
					UNION ALL SELECT id::bigint FROM by_time WHERE n = 0 UNION ALL SELECT id::bigint FROM tickets WHERE n = 0 UNION ALL SELECT make()::bigint`, last)))
				wantEqual(t, restored, "(SELECT ROW(count(*), count(DISTINCT u), count(DISTINCT g), count(DISTINCT at IS NULL)) FROM orders)", "ROW(600, 600, 600, 1)")
				wantEqual(t, restored, "(SELECT sum(count) FROM hours)", "600")
			})
		}
	}
}

func TestDumpAndRestore(t *testing.T) {
	testMoves(t, shared, backend.Start(t, cluster.Config{Name: "restored"}), "")
}

// The mark belongs to the data: a dump of the definitions alone leaves it behind, so a copy of the schema makes ids at once.
func TestDumpOfTheSchemaAlone(t *testing.T) {
	database := newDatabase(t, shared)
	exec(t, shared.Connect(t, database), "CREATE TABLE t (id bigint DEFAULT snowflake_next()); INSERT INTO t DEFAULT VALUES")
	copied := shared.Connect(t, move(t, `pg_dump -s -d "$from" -f only.sql
		psql -X -q -v ON_ERROR_STOP=1 -d "$to" -f only.sql >/dev/null`, shared, database, shared))
	if one[bool](t, copied, "SELECT is_called FROM snowflake_mark") || one[bool](t, copied, "SELECT is_called FROM snowflake_epoch") {
		t.Error("the definitions carry the mark or the epoch")
	}
	exec(t, copied, "INSERT INTO t DEFAULT VALUES")
}
