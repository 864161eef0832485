package test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"pgsnowflake/test/cluster"
)

// The type snowflake: a bigint in all but JSON. Each test does what an application does with a bigint key.

// sampleIDs are ids at both ends, and one that JavaScript would round.
var sampleIDs = []int64{0, 1, 4194304, 120843629957758977, 9223372036854775807}

// planOf is the plan of a query, without costs.
func planOf(t testing.TB, c *pgx.Conn, query string) string {
	t.Helper()
	return strings.Join(column[string](t, c, "EXPLAIN (COSTS OFF) "+query), "\n")
}

// wantPlan fails unless a query's plan has every text, but for those that begin with "no ".
func wantPlan(t testing.TB, c *pgx.Conn, query string, texts ...string) {
	t.Helper()
	plan := planOf(t, c, query)
	for _, text := range texts {
		unwanted := strings.HasPrefix(text, "no ")
		if strings.Contains(plan, strings.TrimPrefix(text, "no ")) == unwanted {
			t.Errorf("the plan of %s is to have %q:\n%s", query, text, plan)
		}
	}
}

// onlyIndexes leaves the planner nothing but indexes where they can be used.
const onlyIndexes = "SET enable_seqscan = off; SET enable_bitmapscan = off; "

func TestTypeInJSON(t *testing.T) {
	c := connect(t)
	exec(t, c, `CREATE TABLE t (id snowflake PRIMARY KEY DEFAULT snowflake_next(), parent snowflake, n bigint);
		INSERT INTO t VALUES (120843629957758977, 9223372036854775807, 7), (1, NULL, 2)`)
	const object = `{"id":"120843629957758977","parent":"9223372036854775807","n":7}`
	spaced := strings.NewReplacer(`:`, `: `, `,`, `, `).Replace(object)
	for expression, want := range map[string]string{
		"(SELECT to_json(id) FROM t WHERE n = 7)":                         `"120843629957758977"`,
		"(SELECT to_jsonb(id) FROM t WHERE n = 7)":                        `"120843629957758977"`,
		"(SELECT to_json(t) FROM t WHERE n = 7)":                          object,
		"(SELECT row_to_json(t) FROM t WHERE n = 7)":                      object,
		"(SELECT to_jsonb(t) -> 'id' FROM t WHERE n = 7)":                 `"120843629957758977"`,
		"(SELECT json_agg(id ORDER BY n DESC) FROM t)":                    `["120843629957758977", "1"]`,
		"(SELECT to_json(array_agg(id ORDER BY n DESC)) FROM t)":          `["120843629957758977","1"]`,
		"(SELECT jsonb_agg(parent ORDER BY n) FROM t)":                    `[null, "9223372036854775807"]`,
		"(SELECT json_build_object('id', id, 'n', n) FROM t WHERE n = 7)": `{"id" : "120843629957758977", "n" : 7}`,
		"(SELECT jsonb_build_array(id, n) FROM t WHERE n = 7)":            `["120843629957758977", 7]`,
		"(SELECT json_object_agg(id, n) FROM t WHERE n = 7)":              `{ "120843629957758977" : 7 }`,
		// The other way, from text as JavaScript sends it and from a number.
		"(SELECT to_jsonb(r) - 'n' FROM json_populate_record(NULL::t, '" + object + "') r)":                 `{"id": "120843629957758977", "parent": "9223372036854775807"}`,
		"(SELECT id FROM jsonb_populate_record(NULL::t, '" + spaced + "') r)":                               `120843629957758977`,
		"(SELECT id FROM json_populate_record(NULL::t, '{\"id\": 120843629957758977}') r)":                  `120843629957758977`,
		"(SELECT id FROM jsonb_populate_record(NULL::t, '{\"id\": 120843629957758977}') r)":                 `120843629957758977`,
		"(SELECT id FROM jsonb_to_record('{\"id\": \"120843629957758977\"}') AS r (id snowflake))":          `120843629957758977`,
		"(SELECT ids FROM json_to_record('{\"ids\": [\"120843629957758977\", 1]}') AS r (ids snowflake[]))": `{120843629957758977,1}`,
		"(SELECT max(id) FROM json_populate_recordset(NULL::t, (SELECT json_agg(t) FROM t)))":               `120843629957758977`,
		"(SELECT ('" + object + "'::json ->> 'id')::snowflake)":                                             `120843629957758977`,
	} {
		wantEqual(t, c, expression, "'"+want+"'::text")
	}
	for bad, code := range map[string]string{`"x"`: "22P02", `1.5`: "22P02", `"9223372036854775808"`: "22003", `true`: "22P02"} {
		wantError(t, tryExec(t, c, `SELECT json_populate_record(NULL::t, '{"id": `+bad+`}')`), code)
	}
}

func TestTypeInKeys(t *testing.T) {
	c := connect(t)
	exec(t, c, `CREATE TABLE a (id snowflake PRIMARY KEY DEFAULT snowflake_next(), n integer);
		CREATE TABLE b (id bigint PRIMARY KEY, n integer);
		INSERT INTO a (n) SELECT generate_series(1, 1000); INSERT INTO b SELECT id, n FROM a`)
	for i, link := range []struct{ parent, column string }{{"a", "snowflake"}, {"a", "bigint"}, {"b", "snowflake"}, {"b", "bigint"}} {
		child := fmt.Sprintf("child%d", i)
		exec(t, c, fmt.Sprintf(`CREATE TABLE %s (parent %s REFERENCES %s ON DELETE CASCADE ON UPDATE CASCADE, n integer);
			INSERT INTO %[1]s SELECT id, n FROM a; CREATE INDEX ON %[1]s (parent)`, child, link.column, link.parent))
		wantError(t, tryExec(t, c, "INSERT INTO "+child+" VALUES (5)"), "23503", child)
		wantError(t, tryExec(t, c, "UPDATE "+child+" SET parent = 5 WHERE n = 1"), "23503", child)
	}
	exec(t, c, "UPDATE a SET id = 1 WHERE n = 1; UPDATE b SET id = 1 WHERE n = 1; DELETE FROM a WHERE n > 500; DELETE FROM b WHERE n > 500")
	for i := range 4 {
		wantEqual(t, c, fmt.Sprintf("(SELECT ROW(count(*), min(parent), count(*) FILTER (WHERE n > 500)) FROM child%d)", i), "ROW(500, 1, 0)")
	}
	wantError(t, tryExec(t, c, "INSERT INTO a VALUES (1, 1)"), "23505", "a_pkey")
	exec(t, c, "INSERT INTO a VALUES (1, 9) ON CONFLICT (id) DO UPDATE SET n = excluded.n")
	// A key over several columns, UNIQUE and CHECK.
	exec(t, c, `CREATE TABLE k (id snowflake, n integer, PRIMARY KEY (id, n), UNIQUE (n, id), CHECK (id > 0));
		CREATE TABLE kc (id bigint, n integer, FOREIGN KEY (id, n) REFERENCES k); INSERT INTO k VALUES (5, 1); INSERT INTO kc VALUES (5, 1)`)
	wantError(t, tryExec(t, c, "INSERT INTO kc VALUES (5, 2)"), "23503")
	wantError(t, tryExec(t, c, "INSERT INTO k VALUES (0, 2)"), "23514")
}

func TestTypeUsesIndexes(t *testing.T) {
	c := connect(t)
	exec(t, c, `CREATE TABLE t (id snowflake PRIMARY KEY, n integer); CREATE TABLE b (id bigint PRIMARY KEY, n integer);
		INSERT INTO t SELECT n, n FROM generate_series(1, 10000) n; INSERT INTO b SELECT * FROM t; CREATE TABLE other AS SELECT id FROM t; ANALYZE t, b, other; `+onlyIndexes+
		"SET plan_cache_mode = force_generic_plan")
	for _, condition := range []string{"id = 77", "77 = id", "id = 77::bigint", "id = 77::smallint", "id = '77'", "id = '77'::snowflake",
		"id = 77::bigint::snowflake", "id IN (77::bigint, 78::bigint)", "id = ANY ('{77,78}'::bigint[])", "id = ANY ('{77,78}'::snowflake[])",
		"id = ANY ('{77,78}')", "id = ANY ('{77,78}'::int[])", "id >= 77 AND id < 79", "id BETWEEN 77 AND '78'", "id > 9999::bigint::snowflake",
		"id = snowflake_min_id('2026-01-01Z')", "id >= (SELECT min(id) FROM b)"} {
		wantPlan(t, c, "SELECT n FROM t WHERE "+condition, "Index Scan using t_pkey", "Index Cond: ", "no Filter")
	}
	for _, condition := range []string{"id IN (77, 78)", "id = 77 OR id = 78::bigint"} {
		wantPlan(t, c, "SELECT n FROM t WHERE "+condition, "t_pkey", "Index Cond: ", "no Seq Scan")
	}
	for i, types := range []string{"(bigint)", "(integer)", "(smallint)", "(snowflake)", "(unknown)", ""} {
		for j, condition := range []string{"id = $1", "$1 = id", "id >= $1 ORDER BY id LIMIT 1"} {
			name := fmt.Sprintf("p%d_%d", i, j)
			exec(t, c, fmt.Sprintf("PREPARE %s %s AS SELECT n FROM t WHERE %s", name, types, condition))
			wantPlan(t, c, "EXECUTE "+name+"(77)", "Index Scan using t_pkey", "Index Cond: ", "no Filter")
			if got := one[int](t, c, "EXECUTE "+name+"(77)", pgx.QueryExecModeSimpleProtocol); got != 77 {
				t.Errorf("%s %s gives %d", types, condition, got)
			}
		}
	}
	for _, arrays := range []string{"bigint[]", "snowflake[]", "integer[]"} {
		name := strings.TrimSuffix(arrays, "[]")
		exec(t, c, fmt.Sprintf("PREPARE many_%s (%s) AS SELECT n FROM t WHERE id = ANY ($1)", name, arrays))
		wantPlan(t, c, "EXECUTE many_"+name+"('{77,78}')", "Index Scan using t_pkey", "Index Cond: ")
	}
	for _, join := range []string{"t JOIN b ON t.id = b.id", "t JOIN b ON b.id = t.id", "t JOIN b USING (id)", "t NATURAL JOIN b", "t JOIN other ON t.id = other.id"} {
		for _, method := range []string{"hashjoin", "mergejoin", "nestloop"} {
			exec(t, c, "RESET ALL; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_nestloop = off; SET enable_"+method+" = on")
			node := map[string]string{"hashjoin": "Hash Join", "mergejoin": "Merge Join", "nestloop": "Nested Loop"}[method]
			wantPlan(t, c, "SELECT count(*) FROM "+join, node)
			wantEqual(t, c, "(SELECT count(*) FROM "+join+")", "10000")
		}
	}
	exec(t, c, "RESET ALL; "+onlyIndexes+"SET enable_hashjoin = off; SET enable_mergejoin = off")
	wantPlan(t, c, "SELECT count(*) FROM t JOIN (VALUES (5), (6)) v (id) ON t.id = v.id", "Index Only Scan using t_pkey", "Index Cond: (")
	wantPlan(t, c, "SELECT id FROM t ORDER BY id DESC LIMIT 5", "Index Only Scan Backward using t_pkey", "no Sort")
	wantPlan(t, c, "SELECT max(id), min(id) FROM t", "Index Only Scan Backward using t_pkey", "Index Only Scan using t_pkey")
	wantPlan(t, c, "SELECT id FROM t WHERE (id, n) > (77, 0) ORDER BY id LIMIT 5", "Index Scan using t_pkey", "Index Cond: ")

	// Other index methods, as bigint has them.
	exec(t, c, "CREATE INDEX h ON t USING hash (id); CREATE INDEX br ON t USING brin (id); CREATE INDEX d ON t (n, id DESC); DROP INDEX d; ALTER TABLE t DROP CONSTRAINT t_pkey")
	wantPlan(t, c, "SELECT n FROM t WHERE id = 77", "Index Scan using h")
	exec(t, c, "DROP INDEX h; RESET enable_bitmapscan")
	wantPlan(t, c, "SELECT n FROM t WHERE id BETWEEN 77 AND 99", "Bitmap Index Scan on br")
}

func TestTypeSortsAndGroups(t *testing.T) {
	c := connect(t)
	exec(t, c, `CREATE TABLE t AS SELECT (n * 7919 % 1000)::bigint::snowflake AS id, n FROM generate_series(1, 3000) n`)
	wantNone(t, c, "ORDER BY", "(SELECT id, lag(id) OVER (ORDER BY id) AS before FROM t) x WHERE id < before")
	for expression, want := range map[string]string{
		"(SELECT array_agg(id) FROM (SELECT id FROM t ORDER BY id DESC, n LIMIT 4) x)": "'{999,999,999,998}'::text",
		"(SELECT count(*) FROM (SELECT DISTINCT id FROM t) x)":                         "1000",
		"(SELECT count(DISTINCT id) FROM t)":                                           "1000",
		"(SELECT count(*) FROM (SELECT id FROM t GROUP BY id HAVING count(*) = 3) x)":  "1000",
		"(SELECT count(*) FROM (SELECT id FROM t UNION SELECT id FROM t) x)":           "1000",
		"(SELECT count(*) FROM (SELECT id FROM t EXCEPT SELECT id FROM t) x)":          "0",
		"(SELECT ROW(min(id), max(id), sum(id), count(id)) FROM t)":                    "ROW(0, 999, 1498500, 3000)",
		"(SELECT pg_typeof(max(id)) FROM t)":                                           "'bigint'::text", // bigint's aggregates give bigint
		"(SELECT pg_typeof(array_agg(id)) FROM t)":                                     "'snowflake[]'::text",
		"(SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY id) FROM t)":              "499",
		"(SELECT pg_typeof(id) FROM t ORDER BY id DESC LIMIT 1)":                       "'snowflake'::text",
		"(SELECT first_value(id) OVER (ORDER BY id) FROM t LIMIT 1)":                   "0",
		// With bigint in one column or expression, the result is a bigint.
		"(SELECT ROW(count(*), pg_typeof(min(id))) FROM (SELECT id FROM t UNION SELECT n::bigint FROM t) x)": "ROW(3001, 'bigint'::regtype)",
		"(SELECT count(*) FROM (SELECT n::bigint AS id FROM t INTERSECT SELECT id FROM t) x)":                "999",
		"pg_typeof(coalesce(NULL::snowflake, 5::bigint))":                                                    "'bigint'::text",
		"pg_typeof(CASE WHEN true THEN 5::bigint ELSE '7'::snowflake END)":                                   "'bigint'::text",
		"pg_typeof(coalesce(NULL::snowflake, '5'))":                                                          "'snowflake'::text",
		"greatest('5'::snowflake, 7::bigint)":                                                                "7",
		"ARRAY['5'::snowflake, 7::bigint]":                                                                   "'{5,7}'::bigint[]",
		"greatest('5'::snowflake, '7'::snowflake)":                                                           "7",
		"nullif('5'::snowflake, 5)":                                                                          "NULL",
		"'5'::snowflake + 1":                                                                                 "6",
		"'5'::snowflake % 4":                                                                                 "1",
		"'9223372036854775807'::snowflake >> 22":                                                             "2199023255551",
		"abs('-5'::snowflake)":                                                                               "5",
		"'5'::snowflake::text || 'x'":                                                                        "'5x'::text",
		"format('%s', '5'::snowflake)":                                                                       "'5'::text",
		"'5'::snowflake::bigint::integer":                                                                    "5",
		"hashint8('5'::snowflake)":                                                                           "hashint8(5)",
	} {
		wantEqual(t, c, expression, want)
	}
	for _, method := range []string{"hashagg", "sort"} { // as the planner would, and as it would without
		exec(t, c, "SET enable_"+method+" = off")
		wantEqual(t, c, "(SELECT count(*) FROM (SELECT DISTINCT id FROM t) x)", "1000")
		exec(t, c, "RESET enable_"+method)
	}
}

func TestTypeInPartitions(t *testing.T) {
	c := connect(t)
	for _, key := range []string{"snowflake", "bigint"} {
		exec(t, c, fmt.Sprintf(`CREATE TABLE r_%[1]s (id %[1]s PRIMARY KEY, n integer) PARTITION BY RANGE (id);
			CREATE TABLE r_%[1]s_0 PARTITION OF r_%[1]s FOR VALUES FROM (MINVALUE) TO (1000);
			CREATE TABLE r_%[1]s_1 PARTITION OF r_%[1]s FOR VALUES FROM (1000) TO (2000);
			CREATE TABLE r_%[1]s_2 PARTITION OF r_%[1]s FOR VALUES FROM (2000) TO ('9223372036854775807');
			CREATE TABLE h_%[1]s (id %[1]s PRIMARY KEY, n integer) PARTITION BY HASH (id);
			CREATE TABLE h_%[1]s_0 PARTITION OF h_%[1]s FOR VALUES WITH (MODULUS 3, REMAINDER 0);
			CREATE TABLE h_%[1]s_1 PARTITION OF h_%[1]s FOR VALUES WITH (MODULUS 3, REMAINDER 1);
			CREATE TABLE h_%[1]s_2 PARTITION OF h_%[1]s FOR VALUES WITH (MODULUS 3, REMAINDER 2);
			CREATE TABLE l_%[1]s (id %[1]s PRIMARY KEY, n integer) PARTITION BY LIST (id);
			CREATE TABLE l_%[1]s_1 PARTITION OF l_%[1]s FOR VALUES IN (5, '9223372036854775806');
			CREATE TABLE l_%[1]s_2 PARTITION OF l_%[1]s DEFAULT;
			INSERT INTO r_%[1]s SELECT n, n FROM generate_series(1, 3000) n; INSERT INTO h_%[1]s TABLE r_%[1]s; INSERT INTO l_%[1]s TABLE r_%[1]s`, key))
		for query, only := range map[string]string{
			"r_%s WHERE id = 1500": "r_%s_1", "r_%s WHERE id = 1500::bigint": "r_%s_1", "r_%s WHERE id = '1500'": "r_%s_1",
			"r_%s WHERE id >= 1000 AND id < 2000": "r_%s_1", "r_%s WHERE id = 999::bigint::snowflake": "r_%s_0",
			"r_%s WHERE id = ANY ('{2000,5000}'::bigint[])": "r_%s_2", "l_%s WHERE id = 5": "l_%s_1", "l_%s WHERE id = '7'::snowflake": "l_%s_2",
		} {
			query, only = fmt.Sprintf(query, key), fmt.Sprintf(only, key)
			texts := []string{" on " + only}
			for i := range 3 {
				if other := fmt.Sprintf("%s_%d", only[:len(only)-2], i); other != only {
					texts = append(texts, "no  on "+other)
				}
			}
			wantPlan(t, c, "SELECT * FROM "+query, texts...)
		}
		exec(t, c, "PREPARE one_"+key+" (bigint) AS SELECT n FROM h_"+key+" WHERE id = $1; SET plan_cache_mode = force_generic_plan")
		wantPlan(t, c, "EXECUTE one_"+key+"(77)", "Subplans Removed: 2")
		wantPlan(t, c, "SELECT n FROM h_"+key+" WHERE id = 77", " on h_"+key+"_", "no Append")
		exec(t, c, "RESET plan_cache_mode")
	}
	// The same rows in the same partitions, whichever type the key has.
	for _, kind := range []string{"r", "h", "l"} {
		wantNone(t, c, kind, fmt.Sprintf(`%[1]s_snowflake s JOIN %[1]s_bigint b USING (id)
			WHERE split_part(s.tableoid::regclass::text, '_', 3) <> split_part(b.tableoid::regclass::text, '_', 3)`, kind))
		wantEqual(t, c, fmt.Sprintf("(SELECT count(*) FROM %[1]s_snowflake JOIN %[1]s_bigint USING (id))", kind), "3000")
	}
	// Hash partitions share the ids out although most are even (hash partitioning instead of id % n).
	exec(t, c, `CREATE TABLE made (id snowflake PRIMARY KEY) PARTITION BY HASH (id); CREATE TABLE made_0 PARTITION OF made FOR VALUES WITH (MODULUS 2, REMAINDER 0);
		CREATE TABLE made_1 PARTITION OF made FOR VALUES WITH (MODULUS 2, REMAINDER 1); INSERT INTO made SELECT n * 4194304::bigint FROM generate_series(1, 10000) n`)
	wantEqual(t, c, "(SELECT count(*) BETWEEN 4700 AND 5300 FROM made_0)", "true")
	wantError(t, tryExec(t, c, "INSERT INTO r_snowflake VALUES (9223372036854775807, 1)"), "23514", "no partition")
	exec(t, c, `CREATE TABLE more (id bigint NOT NULL, n integer)`)
	wantError(t, tryExec(t, c, "ALTER TABLE r_snowflake ATTACH PARTITION more DEFAULT"), "42804", "different type")
	exec(t, c, "ALTER TABLE more ALTER id TYPE snowflake; ALTER TABLE r_snowflake ATTACH PARTITION more DEFAULT; INSERT INTO r_snowflake VALUES (9223372036854775807, 1)")
}

func TestTypeInCopy(t *testing.T) {
	c := connect(t)
	exec(t, c, "CREATE TABLE s (id snowflake, many snowflake[]); CREATE TABLE b (id bigint, many bigint[])")
	for _, id := range sampleIDs {
		exec(t, c, fmt.Sprintf("INSERT INTO s VALUES (%d, '{%[1]d,NULL,5}')", id))
	}
	exec(t, c, "INSERT INTO s VALUES (NULL, NULL)")
	for _, format := range []string{"text", "csv", "binary"} {
		for _, way := range [][2]string{{"s", "s"}, {"s", "b"}, {"b", "s"}, {"b", "b"}} {
			exec(t, c, "TRUNCATE b; INSERT INTO b SELECT id, NULL FROM s; UPDATE b SET many = ARRAY[id, NULL, 5] WHERE id IS NOT NULL")
			columns := "id, many"
			if format == "binary" && way[0] != way[1] {
				columns = "id" // an array carries the oid of its type
			}
			var data bytes.Buffer
			if _, err := c.PgConn().CopyTo(background(t), &data, fmt.Sprintf("COPY %s (%s) TO STDOUT (FORMAT %s)", way[0], columns, format)); err != nil {
				t.Fatal(err)
			}
			exec(t, c, "CREATE TEMP TABLE target (LIKE "+way[1]+")")
			if _, err := c.PgConn().CopyFrom(background(t), &data, fmt.Sprintf("COPY target (%s) FROM STDIN (FORMAT %s)", columns, format)); err != nil {
				t.Fatalf("%s from %s to %s: %v", format, way[0], way[1], err)
			}
			wantEqual(t, c, "(SELECT array_agg("+columns[:2]+" ORDER BY id)::text FROM target)", "(SELECT array_agg(id ORDER BY id)::text FROM s)")
			if columns != "id" {
				wantEqual(t, c, "(SELECT string_agg(many::text, ';' ORDER BY id) FROM target)", "(SELECT string_agg(many::text, ';' ORDER BY id) FROM s)")
			}
			exec(t, c, "DROP TABLE target")
		}
	}
	if _, err := c.PgConn().CopyFrom(background(t), strings.NewReader("9223372036854775808\n"), "COPY s (id) FROM STDIN"); sqlError(err).Code != "22003" {
		t.Errorf("a number past bigint: %v", err)
	}
}

func TestTypeInArrays(t *testing.T) {
	c := connect(t)
	exec(t, c, "CREATE TABLE t (ids snowflake[] DEFAULT ARRAY[snowflake_next(), snowflake_next()]); INSERT INTO t DEFAULT VALUES; INSERT INTO t VALUES ('{5,7}'), (ARRAY[5, 8]::bigint[]), (ARRAY['9'::snowflake])")
	for expression, want := range map[string]string{
		"(SELECT count(*) FROM t WHERE 5 = ANY (ids))":                                  "2",
		"(SELECT count(*) FROM t WHERE 5::bigint = ANY (ids))":                          "2",
		"(SELECT count(*) FROM t WHERE ids && '{7,8}')":                                 "2",
		"(SELECT count(*) FROM t WHERE ids @> ARRAY['5'::snowflake])":                   "2",
		"(SELECT sum(id) FROM (SELECT unnest(ids) AS id FROM t WHERE 5 = ANY (ids)) x)": "25",
		"(SELECT pg_typeof(ids[1]) FROM t LIMIT 1)":                                     "'snowflake'::text",
		"(SELECT array_position(ids, '7'::snowflake) FROM t WHERE 7 = ANY (ids))":       "2",
		"'{5,7}'::snowflake[] = '{5,7}'::snowflake[]":                                   "true",
		"'{5,7}'::snowflake[]::bigint[]":                                                "'{5,7}'::bigint[]",
		"'{5,7}'::bigint[]::snowflake[]":                                                "'{5,7}'::bigint[]",
		"(SELECT array_agg(x ORDER BY x DESC) FROM unnest('{5,7}'::snowflake[]) x)":     "'{7,5}'::bigint[]",
		"array_length(ARRAY['5'::snowflake, 7::bigint::snowflake], 1)":                  "2",
	} {
		wantEqual(t, c, expression, want)
	}
	exec(t, c, "CREATE INDEX gin ON t USING gin (ids); "+"SET enable_seqscan = off")
	wantPlan(t, c, "SELECT * FROM t WHERE ids @> '{5}'", "Bitmap Index Scan on gin")
}

// A bigint key becomes a snowflake and back in place: no file of the table or of an index is written anew.
func TestTypeChangesWithoutRewrite(t *testing.T) {
	c := connect(t)
	exec(t, c, `CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_next(), n integer); CREATE INDEX n ON t (n, id); CREATE INDEX h ON t USING hash (id);
		CREATE TABLE child (t_id bigint REFERENCES t); INSERT INTO t SELECT snowflake_next(), n FROM generate_series(1, 1000) n; INSERT INTO child SELECT id FROM t`)
	const files = "(SELECT array_agg(pg_relation_filenode(to_regclass(name)) ORDER BY name) FROM unnest('{t,t_pkey,n,h,child}'::text[]) name)"
	before := one[string](t, c, "SELECT "+files+"::text")
	sum := one[string](t, c, "SELECT sum(id)::text FROM t")
	for _, kind := range []string{"snowflake", "bigint", "snowflake"} {
		exec(t, c, "ALTER TABLE t ALTER id TYPE "+kind+"; ALTER TABLE child ALTER t_id TYPE "+kind)
		wantEqual(t, c, files, "'"+before+"'::text")
		wantEqual(t, c, "(SELECT pg_typeof(id) FROM t LIMIT 1)", "'"+kind+"'::text")
		wantEqual(t, c, "(SELECT sum(id)::text FROM t)", "'"+sum+"'::text")
		exec(t, c, "INSERT INTO t DEFAULT VALUES; DELETE FROM t WHERE n IS NULL")
		wantError(t, tryExec(t, c, "INSERT INTO child VALUES (5)"), "23503")
	}
	exec(t, c, onlyIndexes+"ANALYZE t")
	wantPlan(t, c, "SELECT * FROM t WHERE id = 5", "Index Cond: (")
	exec(t, c, "CREATE TABLE small (id integer PRIMARY KEY, s smallint); INSERT INTO small VALUES (2147483647, 5); ALTER TABLE small ALTER id TYPE snowflake, ALTER s TYPE snowflake")
	wantEqual(t, c, "(SELECT ROW(id, s) FROM small)", "ROW(2147483647, 5)")
}

// Every function that takes an id takes one of this type, with the same result.
func TestFunctionsTakeTheType(t *testing.T) {
	c := connect(t)
	taken := 0
	for _, f := range contract {
		for i, sample := range f.samples {
			if !strings.HasSuffix(sample, "::bigint") {
				continue
			}
			taken++
			wantEqual(t, c, f.call("public", map[int]string{i: sample + "::snowflake"}), f.call("public", nil))
		}
	}
	if taken < 10 {
		t.Errorf("only %d functions take an id", taken)
	}
	exec(t, c, `CREATE TABLE t (id snowflake PRIMARY KEY DEFAULT snowflake_next(), n integer,
			at timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, '2026-01-01Z')) STORED, code text GENERATED ALWAYS AS (snowflake_encode(id)) STORED);
		INSERT INTO t (n) SELECT generate_series(1, 100); INSERT INTO t SELECT * FROM snowflake_next(100);
		INSERT INTO t VALUES (snowflake_compose('2026-01-01Z', 5, 6)), (7), (8::smallint), ('9'), (snowflake_decode('000000000000K'))`)
	wantNone(t, c, "columns from the id", "t WHERE at <> snowflake_timestamp(id) OR snowflake_decode(code) <> id")
	wantEqual(t, c, "(SELECT array_agg(id ORDER BY id) FROM t WHERE id < 100000)", "'{7,8,9,10,20486}'::text")
	wantError(t, tryExec(t, c, "SELECT snowflake_parse('-5'::snowflake)"), "22023")
	wantError(t, tryExec(t, c, "INSERT INTO t VALUES (1.5)"), "42804")
}

func TestTypeInDump(t *testing.T) {
	source, target := newDatabase(t, shared), newDatabase(t, shared)
	c := shared.Connect(t, source)
	// The extension outside public, as stac-utils/pgstac#64 and boardsesh/boardsesh#4699 had it.
	exec(t, c, `DROP EXTENSION snowflake; CREATE SCHEMA "My ids"; CREATE EXTENSION snowflake SCHEMA "My ids"; SET search_path = public, "My ids";
		CREATE TABLE t (id snowflake PRIMARY KEY DEFAULT snowflake_next(), many snowflake[] DEFAULT '{5}', u uuid DEFAULT "My ids".uuidv7(), old bigint,
			at timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, '2026-01-01Z')) STORED, CHECK (snowflake_worker_id(id) >= 0));
		CREATE TABLE p (id snowflake REFERENCES t) PARTITION BY RANGE (id);
		CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO ('9223372036854775807');
		CREATE INDEX ON t (snowflake_encode(id)); CREATE INDEX ON t (snowflake_timestamp(id, '2026-01-01Z'));
		CREATE VIEW v AS SELECT * FROM t WHERE snowflake_between(id, now() - interval '1 day', now() + interval '1 day');
		CREATE FUNCTION f() RETURNS snowflake LANGUAGE sql AS 'SELECT "My ids".snowflake_next()::"My ids".snowflake';
		INSERT INTO t (old) SELECT generate_series(1, 100); INSERT INTO p SELECT id FROM t`)
	other := shared.Connect(t, target)
	exec(t, other, "DROP EXTENSION snowflake")
	run(t, shared, "sh", "-c", fmt.Sprintf("pg_dump -d %s >%[1]s.sql && psql -q -v ON_ERROR_STOP=1 -d %s -f %[1]s.sql", source, target))
	exec(t, other, `SET search_path = public, "My ids"`)
	const all = "SELECT string_agg(t::text, ';' ORDER BY id) FROM t"
	if one[string](t, c, all) != one[string](t, other, all) {
		t.Error("rows differ after dump and restore")
	}
	wantEqual(t, other, "(SELECT ROW(count(*), pg_typeof(max(old)), (SELECT pg_typeof(f()))) FROM v JOIN p USING (id))", "ROW(100, 'bigint'::regtype, 'snowflake'::regtype)")
	exec(t, other, "INSERT INTO t DEFAULT VALUES; "+onlyIndexes)
	wantEqual(t, other, "(SELECT count(*) FROM t WHERE id > (SELECT max(id) FROM p))", "1")
	wantPlan(t, other, `SELECT * FROM v`, "Index Cond: (", "snowflake_min_id(")
	// A second dump is the first, but for the row added and what the two databases remember of their marks.
	dump := func(database string) string {
		return run(t, shared, "sh", "-c", "pg_dump -s -d "+database+" | grep -v '^.restrict\\|^.unrestrict'")
	}
	if a, b := dump(source), dump(target); a != b {
		t.Errorf("the schema of the restored database is dumped differently:\n%s", b)
	}
}

// pgx and others know nothing of the type and see a number in text.
func TestTypeInClients(t *testing.T) {
	c := connect(t)
	ctx := background(t)
	exec(t, c, "CREATE TABLE t (id snowflake PRIMARY KEY, many snowflake[])")
	for _, registered := range []bool{false, true} {
		if registered {
			oid := one[uint32](t, c, "SELECT 'snowflake'::regtype::oid")
			c.TypeMap().RegisterType(&pgtype.Type{Name: "snowflake", OID: oid, Codec: pgtype.Int8Codec{}})
		}
		exec(t, c, "TRUNCATE t")
		for _, id := range sampleIDs {
			if _, err := c.Exec(ctx, "INSERT INTO t (id) VALUES ($1)", id); err != nil {
				t.Fatalf("registered %t: %v", registered, err)
			}
			var n int64
			var text string
			if err := c.QueryRow(ctx, "SELECT id, id::text FROM t WHERE id = $1", id).Scan(&n, &text); err != nil || n != id || text != fmt.Sprint(id) {
				t.Errorf("registered %t: %d comes back as %d and %s: %v", registered, id, n, text, err)
			}
			if err := c.QueryRow(ctx, "SELECT id FROM t WHERE id = $1", id).Scan(&text); err != nil || text != fmt.Sprint(id) {
				t.Errorf("registered %t: %d scans into %q: %v", registered, id, text, err)
			}
		}
		if _, err := c.Exec(ctx, "INSERT INTO t (id) VALUES ($1)", "5"); err != nil && !registered {
			t.Errorf("text as a parameter: %v", err)
		}
		if got := one[int64](t, c, "SELECT count(*) FROM t WHERE id = ANY ($1)", sampleIDs); got != int64(len(sampleIDs)) {
			t.Errorf("%d rows by an array of int64", got)
		}
		ids := column[int64](t, c, "SELECT id FROM t WHERE id <> 5 ORDER BY id")
		wantRising(t, "ids", ids)
		if len(ids) != len(sampleIDs) {
			t.Errorf("%d ids", len(ids))
		}
	}
	// COPY in binary, for a client that knows the type as an int8.
	if n, err := c.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"id"}, pgx.CopyFromSlice(100, func(i int) ([]any, error) { return []any{int64(1000 + i)}, nil })); err != nil || n != 100 {
		t.Errorf("CopyFrom: %d, %v", n, err)
	}
	wantEqual(t, c, "(SELECT sum(id) FROM t WHERE id BETWEEN 1000 AND 1099)", "104950")
}

// Rows travel to another server in text and, from 14 on, in binary; to a bigint column as well, in text.
func TestTypeInLogicalReplication(t *testing.T) {
	settings := map[string]string{"wal_level": "logical"}
	publisher := backend.Start(t, cluster.Config{Name: "publisher", Settings: settings})
	subscriber := backend.Start(t, cluster.Config{Name: "subscriber", Settings: settings})
	source, target := newDatabase(t, publisher), newDatabase(t, subscriber)
	p, s := publisher.Connect(t, source), subscriber.Connect(t, target)
	exec(t, p, `CREATE TABLE t (id snowflake PRIMARY KEY DEFAULT snowflake_next(), n integer); CREATE TABLE b (LIKE t INCLUDING ALL); CREATE TABLE y (LIKE t INCLUDING ALL);
		INSERT INTO t (n) SELECT generate_series(1, 100); INSERT INTO b TABLE t; INSERT INTO y TABLE t; CREATE PUBLICATION texts FOR TABLE t, b; CREATE PUBLICATION binaries FOR TABLE y`)
	exec(t, s, `CREATE TABLE t (id snowflake PRIMARY KEY, n integer); CREATE TABLE b (id bigint PRIMARY KEY, n integer); CREATE TABLE y (LIKE t INCLUDING ALL)`)
	binary := ""
	if backend.Major() >= 14 {
		binary = "WITH (binary = true)"
	}
	exec(t, s, fmt.Sprintf("CREATE SUBSCRIPTION texts CONNECTION '%s' PUBLICATION texts", strings.ReplaceAll(publisher.PeerConninfo(source), "'", "''")))
	exec(t, s, fmt.Sprintf("CREATE SUBSCRIPTION binaries CONNECTION '%s' PUBLICATION binaries %s", strings.ReplaceAll(publisher.PeerConninfo(source), "'", "''"), binary))
	exec(t, p, `INSERT INTO t (n) VALUES (101); INSERT INTO b (n) VALUES (101); INSERT INTO y (n) VALUES (101)`)
	for _, table := range []string{"t", "b", "y"} {
		exec(t, p, fmt.Sprintf("UPDATE %s SET n = -n WHERE n <= 10; DELETE FROM %[1]s WHERE n > 50 AND n <= 100; UPDATE %[1]s SET id = n + 1000 WHERE n = 50", table))
		digest := fmt.Sprintf("SELECT md5(string_agg(format('%%s %%s', id, n), ',' ORDER BY id)) FROM %s", table)
		want := one[string](t, p, digest)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		for ctx.Err() == nil && one[string](t, s, "SELECT coalesce(("+digest+"), '')") != want {
			time.Sleep(50 * time.Millisecond)
		}
		if ctx.Err() != nil {
			t.Errorf("table %s never became what it is at the publisher", table)
		}
		cancel()
	}
	wantEqual(t, s, "(SELECT to_json(id) FROM t WHERE n = 50)", `'"1050"'::text`)
}
