package test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"pgsnowflake/test/cluster"
)

// snowflake_between becomes a range of the id, so that it uses indexes and prunes partitions; and what is stored or
// indexed with the immutable forms stays right whatever is set.

// The months of 2026, each with an id an hour, in one table and in a partition for each month.
const months = `CREATE TABLE plain (id %[1]s PRIMARY KEY, n integer);
	CREATE TABLE parted (id %[1]s PRIMARY KEY, n integer) PARTITION BY RANGE (id);
	DO $$ BEGIN
		FOR m IN 1 .. 12 LOOP
			EXECUTE format('CREATE TABLE parted_%%s PARTITION OF parted FOR VALUES FROM (%%s) TO (%%s)', m,
				snowflake_min_id(make_timestamptz(2026, m, 1, 0, 0, 0, 'UTC')),
				snowflake_min_id(make_timestamptz(2026, m, 1, 0, 0, 0, 'UTC') + interval '1 month'));
		END LOOP;
		EXECUTE format('CREATE TABLE parted_now PARTITION OF parted FOR VALUES FROM (%%s) TO (MAXVALUE)',
			snowflake_min_id('2027-01-01Z'));
	END $$;
	INSERT INTO plain SELECT snowflake_min_id('2026-01-01Z'::timestamptz + n * interval '1 hour'), n FROM generate_series(0, 8759) n;
	INSERT INTO parted TABLE plain; ANALYZE plain, parted`

// wantPruned fails unless a plan reads only the partition named, and removes the others when the query is planned or
// when it starts.
func wantPruned(t *testing.T, c *pgx.Conn, query, only string, whenPlanned bool) {
	t.Helper()
	plan := planOf(t, c, query)
	for _, other := range []string{"parted_2 ", "parted_3 ", "parted_4 ", "parted_12 ", "parted_now "} {
		if strings.Contains(plan+" ", "on "+other) != (other == only+" ") {
			t.Errorf("%s is to read %s alone:\n%s", query, only, plan)
			return
		}
	}
	if removed := strings.Contains(plan, "Subplans Removed: 12"); removed == whenPlanned {
		t.Errorf("%s is to prune when planned (%t):\n%s", query, whenPlanned, plan)
	}
	if strings.Contains(plan, "snowflake_between") {
		t.Errorf("%s is not inlined:\n%s", query, plan)
	}
}

func TestBetweenUsesIndexAndPrunes(t *testing.T) {
	for _, key := range []string{"bigint", "snowflake"} {
		t.Run(key, func(t *testing.T) {
			c := connect(t)
			exec(t, c, "SET TimeZone = 'UTC'; "+fmt.Sprintf(months, key))
			const march, april = "'2026-03-01Z'", "'2026-04-01Z'"
			for _, epoch := range []string{"", ", '2026-01-01Z'"} {
				immutable := epoch != ""
				between := func(from, until string) string { return "snowflake_between(id, " + from + ", " + until + epoch + ")" }
				// The index range scan needs no help, the planner knows how many rows there are.
				for what, condition := range map[string]string{
					"constants": between("'2026-03-05Z'", "'2026-03-07Z'"),
					"now":       between("now() - interval '2 days'", "now()"),
				} {
					plan := planOf(t, c, "SELECT * FROM plain WHERE "+condition)
					if !strings.Contains(plan, "plain_pkey") || !strings.Contains(plan, "Index Cond: ((") || strings.Contains(plan, "Filter") ||
						strings.Contains(plan, "snowflake_between") {
						t.Errorf("%s, %s: no range of the index:\n%s", what, condition, plan)
					}
				}
				wantEqual(t, c, "(SELECT ROW(count(*), min(n), max(n)) FROM plain WHERE "+between("'2026-03-05Z'", "'2026-03-07Z'")+")", "ROW(48, 1512, 1559)")

				wantPruned(t, c, "SELECT * FROM parted WHERE "+between(march, april), "parted_3", immutable)
				wantPruned(t, c, "SELECT * FROM parted WHERE "+between("'2026-03-31 23:59:59.999Z'", "'2026-04-01 00:00:00.000999Z'"), "parted_3", immutable)
				wantPruned(t, c, "SELECT * FROM parted WHERE "+between("now() + interval '1 year'", "now() + interval '2 years'"), "parted_now", false)
				wantPruned(t, c, "SELECT n FROM parted WHERE n > 5 AND "+between(march, april)+" ORDER BY id", "parted_3", immutable)
				wantEqual(t, c, "(SELECT count(*) FROM parted WHERE "+between(march, april)+")", "744")

				name := "p" + fmt.Sprint(len(epoch))
				exec(t, c, "PREPARE "+name+" (timestamptz, timestamptz) AS SELECT * FROM parted WHERE "+between("$1", "$2")+
					"; PREPARE i"+name+" (timestamptz, timestamptz) AS SELECT n FROM plain WHERE "+between("$1", "$2"))
				for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
					exec(t, c, "SET plan_cache_mode = "+mode)
					wantPruned(t, c, "EXECUTE "+name+" ("+march+", "+april+")", "parted_3", immutable && mode == "force_custom_plan")
					wantPruned(t, c, "EXECUTE "+name+" (now() + interval '1 year', 'infinity')", "parted_now", immutable && mode == "force_custom_plan")
					wantPlan(t, c, "EXECUTE i"+name+" ('2026-03-05Z', '2026-03-07Z')", "plain_pkey", "Index Cond: ((", "no Filter")
					if got := column[int](t, c, "EXECUTE i"+name+" ('2026-03-05Z', '2026-03-05 01:00:00.001Z')", pgx.QueryExecModeSimpleProtocol); len(got) != 2 {
						t.Errorf("%s: rows %v", mode, got)
					}
				}
				exec(t, c, "RESET plan_cache_mode")

				// As clients send it: unnamed parameters of the protocol.
				if got := one[int](t, c, "SELECT count(*) FROM parted WHERE "+between("$1::timestamptz - interval '1 hour'", "$1"), "2026-03-01T05:00:00Z"); got != 1 {
					t.Errorf("%d rows in an hour", got)
				}
				// Changes touch nothing else either.
				wantPruned(t, c, "SELECT count(*) FROM parted WHERE "+between("'2026-12-01Z'", "'2026-12-31Z'"), "parted_12", immutable)
				wantPlan(t, c, "UPDATE plain SET n = n WHERE "+between("'2026-03-05Z'", "'2026-03-07Z'"), "plain_pkey", "Index Cond: ((", "no Filter")
				wantPlan(t, c, "DELETE FROM plain WHERE "+between("'-infinity'", "'2026-01-03Z'"), "plain_pkey", "Index Cond: ((", "no Filter")
				// Joined, negated, and in the select list it is the same condition.
				wantEqual(t, c, "(SELECT count(*) FROM plain WHERE NOT "+between("'2026-03-05Z'", "'2026-03-07Z'")+")", "8712")
				wantEqual(t, c, "(SELECT count(*) FILTER (WHERE "+between("'2026-03-05Z'", "'2026-03-07Z'")+") FROM plain)", "48")
			}

			// With the epoch the bounds are numbers when the query is planned.
			plan := planOf(t, c, "SELECT * FROM plain WHERE snowflake_between(id, '2026-03-05Z', '2026-03-07Z', '2026-01-01Z')")
			if want := one[string](t, c, "SELECT snowflake_min_id('2026-03-05Z')::text"); !strings.Contains(plan, want) {
				t.Errorf("the plan does not hold %s:\n%s", want, plan)
			}
			// Row security does not keep the index from being used: nothing in the range can leak a row.
			role := one[string](t, c, "SELECT 'reader_' || current_database()")
			exec(t, c, "CREATE ROLE "+role+"; GRANT SELECT ON plain TO "+role+"; ALTER TABLE plain ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON plain USING (n % 2 = 0); SET ROLE "+role)
			wantPlan(t, c, "SELECT * FROM plain WHERE snowflake_between(id, '2026-03-05Z', '2026-03-07Z')", "plain_pkey", "Index Cond: ((")
			wantEqual(t, c, "(SELECT count(*) FROM plain WHERE snowflake_between(id, '2026-03-05Z', '2026-03-07Z'))", "24")
			exec(t, c, "RESET ROLE; DROP OWNED BY "+role+"; DROP ROLE "+role)
		})
	}
}

// No id falls between two adjoining ranges or into both, at any microsecond around the boundary.
func TestRangesAdjoin(t *testing.T) {
	c := connect(t)
	for _, epoch := range []string{"", ", '2026-01-01Z'", ", '2025-12-31 23:59:59.9995Z'"} {
		wantNone(t, c, "one of two adjoining ranges"+epoch, fmt.Sprintf(`generate_series(-2000, 2000) boundary, generate_series(-3, 3) ms, unnest('{0,4194303}'::int[]) rest,
			LATERAL (SELECT timestamptz '2026-06-01Z' + boundary * interval '1 us' AS b) x,
			LATERAL (SELECT snowflake_min_id('2026-06-01Z'::timestamptz + ms * interval '1 ms'%[1]s) + rest AS id) y
			WHERE snowflake_between(id, '-infinity', b%[1]s) = snowflake_between(id, b, 'infinity'%[1]s)`, epoch))
	}
}

// Only the forms with an epoch may be stored or indexed; the others obey a setting.
func TestStableFormsAreRefused(t *testing.T) {
	c := connect(t)
	exec(t, c, "CREATE TABLE t (id bigint)")
	for _, call := range []string{"snowflake_timestamp(id)", "snowflake_max_id(snowflake_timestamp(id, '2026-01-01Z'))",
		"snowflake_min_id(snowflake_timestamp(id, '2026-01-01Z'))", "snowflake_between(id, '2026-01-01Z', '2027-01-01Z')",
		"snowflake_compose(snowflake_timestamp(id, '2026-01-01Z'), 1, 1)", "(snowflake_parse(id)).created_at"} {
		wantError(t, tryExec(t, c, "CREATE INDEX ON t (("+call+"))"), "42P17", "IMMUTABLE")
		wantError(t, tryExec(t, c, "ALTER TABLE t ADD x text GENERATED ALWAYS AS (("+call+")::text) STORED"), "42P17", "not immutable")
	}
}

// What is stored, indexed or constrained by the immutable forms is the same after every setting has changed, and after
// dump and restore under other settings.
func TestImmutableFormsOutliveSettings(t *testing.T) {
	node := backend.Start(t, cluster.Config{Name: "immutable"})
	source, target := newDatabase(t, node), newDatabase(t, node)
	c := node.Connect(t, source)
	exec(t, c, `CREATE TABLE t (
			id bigint PRIMARY KEY DEFAULT snowflake_next(),
			u uuid NOT NULL DEFAULT public.uuidv7(), g uuid NOT NULL DEFAULT sequential_uuid('end'),
			at timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, '2026-01-01Z')) STORED,
			worker integer GENERATED ALWAYS AS (snowflake_worker_id(id)) STORED,
			seq integer GENERATED ALWAYS AS ((snowflake_parse(id, '2026-01-01Z')).sequence) STORED,
			code text GENERATED ALWAYS AS (snowflake_encode(id)) STORED,
			u_at timestamptz GENERATED ALWAYS AS (uuidv7_timestamp(u)) STORED,
			low bigint GENERATED ALWAYS AS (snowflake_min_id(snowflake_timestamp(id, '2026-01-01Z'), '2026-01-01Z')) STORED,
			recent boolean GENERATED ALWAYS AS (snowflake_between(id, '2026-06-01Z', 'infinity', '2026-01-01Z')) STORED,
			CHECK (snowflake_decode(code) = id), CHECK (snowflake_timestamp(id, '2026-01-01Z') >= '2026-01-01Z'));
		CREATE INDEX by_at ON t (snowflake_timestamp(id, '2026-01-01Z'));
		CREATE UNIQUE INDEX by_code ON t (snowflake_encode(id) COLLATE "C");
		CREATE INDEX by_u ON t (uuidv7_timestamp(u));
		CREATE INDEX by_g ON t (sequential_uuid_timestamp(g, 'end'), uuid_to_sqlserver(g));
		CREATE INDEX recently ON t (id) WHERE snowflake_between(id, '2026-06-01Z', 'infinity', '2026-01-01Z');
		INSERT INTO t (id) SELECT snowflake_compose('2026-01-01Z'::timestamptz + n * interval '7 hours', n % 1024, n % 4096) FROM generate_series(0, 999) n;
		INSERT INTO t SELECT FROM generate_series(1, 1000)`)
	const digest = "SELECT md5(string_agg(encode(record_send(t), 'hex'), ',' ORDER BY id)) FROM t"
	want := one[string](t, c, digest)

	check := func(t *testing.T, database string) {
		t.Helper()
		c := node.Connect(t, database)
		exec(t, c, "LOAD 'snowflake'; SET extra_float_digits = 0")
		if got := one[string](t, c, digest); got != want {
			t.Error("the rows are no longer what they were")
		}
		wantNone(t, c, "stored columns computed anew", `t WHERE (at, worker, seq, code, u_at, low, recent) IS DISTINCT FROM (snowflake_timestamp(id, '2026-01-01Z'),
			snowflake_worker_id(id), snowflake_sequence(id), snowflake_encode(id), uuidv7_timestamp(u), id & ~4194303::bigint, at >= '2026-06-01Z')`)
		// Each row is found through each index, by what the function says now.
		exec(t, c, onlyIndexes)
		for index, condition := range map[string]string{
			"by_at":    "snowflake_timestamp(id, '2026-01-01Z') = snowflake_timestamp(x, '2026-01-01Z')",
			"by_code":  `snowflake_encode(id) COLLATE "C" = snowflake_encode(x)`,
			"by_u":     "uuidv7_timestamp(u) = uuidv7_timestamp(v)",
			"by_g":     "sequential_uuid_timestamp(g, 'end') = sequential_uuid_timestamp(w, 'end') AND uuid_to_sqlserver(g) = uuid_to_sqlserver(w)",
			"recently": "snowflake_between(id, '2026-06-01Z', 'infinity', '2026-01-01Z') AND id = x",
		} {
			query := "SELECT count(*) FROM (SELECT id AS x, u AS v, g AS w FROM t OFFSET 0) o WHERE EXISTS (SELECT FROM t WHERE " + condition + " OFFSET 0)"
			wantPlan(t, c, query, " using "+index)
			all := one[int](t, c, "SELECT count(*) FROM t WHERE $1 <> 'recently' OR at >= '2026-06-01Z'", index)
			if got := one[int](t, c, query); got != all || all < 1000 {
				t.Errorf("%d of %d rows are found through %s", got, all, index)
			}
		}
	}
	check(t, source)

	settings := []string{"snowflake.epoch = '2020-02-29T12:34:56.789+01:00'", "snowflake.worker_id = 1023", "snowflake.clock_tolerance = 0",
		"TimeZone = 'Asia/Kathmandu'", "DateStyle = 'German, YMD'", "IntervalStyle = 'iso_8601'", "lc_messages = 'C'", "bytea_output = 'escape'"}
	exec(t, c, "LOAD 'snowflake'")
	for _, setting := range settings {
		for _, database := range []string{source, target} {
			exec(t, c, "ALTER DATABASE "+database+" SET "+setting)
		}
	}
	node.Set(t, map[string]string{"snowflake.worker_range": "7-8"})
	node.Reload(t)
	t.Run("after every setting changed", func(t *testing.T) { check(t, source) })
	exec(t, c, "REINDEX TABLE t; CLUSTER t USING by_u; ANALYZE t")
	t.Run("after indexes and table were built anew", func(t *testing.T) { check(t, source) })

	exec(t, node.Connect(t, target), "DROP EXTENSION snowflake")
	run(t, node, "sh", "-c", fmt.Sprintf("pg_dump -d %s >dump.sql && psql -q -v ON_ERROR_STOP=1 -d %s -f dump.sql", source, target))
	t.Run("after dump and restore", func(t *testing.T) { check(t, target) })
}
