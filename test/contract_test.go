package test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// What users rely on, as the catalog holds it: signatures, marks, comments, rights, settings, versions. The README's
// reference is held to the catalog, and the catalog to it.

// function is one function of the extension. A sample is an argument for a call, one for each argument; a sample that
// is empty cannot be written in SQL.
type function struct {
	name, args, result, marks string
	samples                   []string
}

// What the samples are made of: an id of worker 4, its epoch, two times around it, a UUIDv7 and an ordered GUID.
const (
	sampleID    = "120843629957758976::bigint"
	sampleEpoch = "'2026-01-01Z'::timestamptz"
	sampleFrom  = "'2026-11-30 11:09Z'::timestamptz"
	sampleUntil = "'2026-11-30 11:10:00.0005Z'::timestamptz"
	sampleUUID  = "'01a22c24-d2e8-77de-9a71-75fcdd9b222f'::uuid"
	sampleGUID  = "'08da7241-170b-8c8e-8fd0-d1d2d3d4d5d6'::uuid"
)

const parsed = ", OUT created_at timestamp with time zone, OUT worker_id integer, OUT sequence integer"

var contract = []function{
	{"snowflake_next", "", "bigint", "volatile, parallel unsafe", nil},
	{"snowflake_next", "count integer", "SETOF bigint", "volatile, strict, parallel unsafe", []string{"3"}},
	{"snowflake_release", "", "boolean", "volatile, parallel unsafe", nil},
	{"snowflake_reset_mark", "at timestamp with time zone", "timestamp with time zone", "volatile, strict, parallel unsafe",
		[]string{"'2026-01-01Z'::timestamptz"}},

	{"snowflake_status", "OUT worker_id integer, OUT worker_source text, OUT epoch timestamp with time zone, " +
		"OUT last_id_at timestamp with time zone, OUT reserved_until timestamp with time zone, OUT clock_behind interval, " +
		"OUT exhausted_at timestamp with time zone, OUT version text, OUT lease_state text", "record", "volatile, parallel restricted", nil},
	{"snowflake_stats", "OUT sequence_waits bigint, OUT clock_waits bigint, OUT clock_refusals bigint, " +
		"OUT leases_taken bigint, OUT leases_lost bigint", "record", "volatile, parallel safe", nil},
	{"snowflake_worker_times", "worker_id integer, OUT leased_at timestamp with time zone, OUT last_id_at timestamp with time zone",
		"record", "volatile, strict, parallel safe", []string{"4"}},

	{"snowflake_parse", "id bigint" + parsed, "record", "stable, strict, parallel safe", []string{sampleID}},
	{"snowflake_parse", "id bigint, epoch timestamp with time zone" + parsed, "record", "immutable, strict, parallel safe",
		[]string{sampleID, sampleEpoch}},
	{"snowflake_timestamp", "id bigint", "timestamp with time zone", "stable, strict, parallel safe", []string{sampleID}},
	{"snowflake_timestamp", "id bigint, epoch timestamp with time zone", "timestamp with time zone",
		"immutable, strict, parallel safe", []string{sampleID, sampleEpoch}},
	{"snowflake_worker_id", "id bigint", "integer", "immutable, strict, parallel safe", []string{sampleID}},
	{"snowflake_sequence", "id bigint", "integer", "immutable, strict, parallel safe", []string{sampleID}},
	{"snowflake_compose", "created_at timestamp with time zone, worker_id integer, sequence integer", "bigint",
		"stable, strict, parallel safe", []string{sampleFrom, "4", "7"}},
	{"snowflake_compose", "created_at timestamp with time zone, worker_id integer, sequence integer, epoch timestamp with time zone",
		"bigint", "immutable, strict, parallel safe", []string{sampleFrom, "4", "7", sampleEpoch}},

	{"snowflake_min_id", "ts timestamp with time zone", "bigint", "stable, strict, parallel safe", []string{sampleFrom}},
	{"snowflake_min_id", "ts timestamp with time zone, epoch timestamp with time zone", "bigint",
		"immutable, strict, parallel safe", []string{sampleFrom, sampleEpoch}},
	{"snowflake_max_id", "ts timestamp with time zone", "bigint", "stable, strict, parallel safe", []string{sampleFrom}},
	{"snowflake_max_id", "ts timestamp with time zone, epoch timestamp with time zone", "bigint",
		"immutable, strict, parallel safe", []string{sampleFrom, sampleEpoch}},
	{"snowflake_between", "id bigint, from_ts timestamp with time zone, until_ts timestamp with time zone", "boolean",
		"stable, parallel safe", []string{sampleID, sampleFrom, sampleUntil}},
	{"snowflake_between", "id bigint, from_ts timestamp with time zone, until_ts timestamp with time zone, epoch timestamp with time zone",
		"boolean", "immutable, parallel safe", []string{sampleID, sampleFrom, sampleUntil, sampleEpoch}},

	{"snowflake_parse_as", "layout text, id bigint, OUT created_at timestamp with time zone, OUT node bigint, OUT sequence bigint",
		"record", "immutable, strict, parallel safe", []string{"'twitter'::text", sampleID}},
	{"snowflake_encode", "id bigint", "text", "immutable, strict, parallel safe", []string{sampleID}},
	{"snowflake_decode", "encoded text", "bigint", "immutable, strict, parallel safe", []string{"'06ml591501000'::text"}},
	{"snowflake_fingerprint", "salt text DEFAULT ''::text", "integer", "stable, strict, parallel safe", []string{"'eu'::text"}},

	{"uuidv7", "", "uuid", "volatile, parallel safe", nil},
	{"uuidv7", "shift interval", "uuid", "volatile, strict, parallel safe", []string{"'1 day'::interval"}},
	{"uuidv7_timestamp", "id uuid", "timestamp with time zone", "immutable, strict, parallel safe, leakproof", []string{sampleUUID}},
	{"uuidv7_parse", "id uuid, OUT created_at timestamp with time zone, OUT rand_a integer, OUT rand_b bigint", "record",
		"immutable, strict, parallel safe", []string{sampleUUID}},
	{"uuidv7_min", "ts timestamp with time zone", "uuid", "immutable, strict, parallel safe", []string{sampleFrom}},
	{"uuidv7_max", "ts timestamp with time zone", "uuid", "immutable, strict, parallel safe", []string{sampleFrom}},

	{"sequential_uuid", "ordering text DEFAULT 'string'::text", "uuid", "volatile, strict, parallel safe", []string{"'end'::text"}},
	{"sequential_uuid_timestamp", "id uuid, ordering text DEFAULT 'string'::text", "timestamp with time zone",
		"immutable, strict, parallel safe", []string{sampleGUID, "'string'::text"}},
	{"uuid_to_sqlserver", "id uuid", "uuid", "immutable, strict, parallel safe", []string{sampleUUID}},
	{"uuid_from_sqlserver", "id uuid", "uuid", "immutable, strict, parallel safe", []string{sampleUUID}},
}

// What the type and its casts are made of; nobody calls these by name.
var typeFunctions = []function{
	{"snowflake_in", "cstring", "snowflake", "immutable, strict, parallel safe", []string{"'5'::cstring"}},
	{"snowflake_out", "snowflake", "cstring", "immutable, strict, parallel safe", []string{sampleID}},
	{"snowflake_recv", "internal", "snowflake", "immutable, strict, parallel safe", []string{""}},
	{"snowflake_send", "snowflake", "bytea", "immutable, strict, parallel safe", []string{sampleID}},
	{"snowflake_from_integer", "integer", "snowflake", "immutable, strict, parallel safe", []string{"5"}},
	{"snowflake_from_smallint", "smallint", "snowflake", "immutable, strict, parallel safe", []string{"5::smallint"}},
}

func allFunctions() []function { return slices.Concat(contract, typeFunctions) }

// call is a call of the function in a schema; the arguments are its samples, but for those given by place.
func (f *function) call(schema string, instead map[int]string) string {
	args := slices.Clone(f.samples)
	for i, arg := range instead {
		args[i] = arg
	}
	for i := range args {
		if strings.HasSuffix(args[i], "::bigint") && strings.Contains(f.args, "snowflake") {
			args[i] += "::" + schema + ".snowflake"
		}
	}
	return fmt.Sprintf("%s.%s(%s)", schema, f.name, strings.Join(args, ", "))
}

// callable is false for a function that SQL cannot call.
func (f *function) callable() bool { return !slices.Contains(f.samples, "") }

// members are the objects of the extension, as pg_identify_object names them, without the types of arrays and rows that
// come with others.
const members = `SELECT d.classid, d.objid, i.* FROM pg_depend d, pg_identify_object(d.classid, d.objid, d.objsubid) i
	WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake')
	AND NOT EXISTS (SELECT FROM pg_type t WHERE d.classid = 'pg_type'::regclass AND t.oid = d.objid AND (t.typrelid <> 0 OR t.typcategory = 'A'))`

func TestMarksOfFunctions(t *testing.T) {
	c := connect(t)
	var want []string
	for _, f := range allFunctions() {
		want = append(want, fmt.Sprintf("%s(%s) → %s: %s", f.name, f.args, f.result, f.marks))
	}
	got := column[string](t, c, `SELECT format('%s(%s) → %s: %s', proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
			concat_ws(', ', CASE provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END,
				CASE WHEN proisstrict THEN 'strict' END,
				'parallel ' || CASE proparallel WHEN 's' THEN 'safe' WHEN 'r' THEN 'restricted' ELSE 'unsafe' END,
				CASE WHEN proleakproof THEN 'leakproof' END, CASE WHEN prosecdef THEN 'security definer' END,
				array_to_string(proconfig, ', '), CASE WHEN prokind <> 'f' THEN 'no function' END))
		FROM pg_proc p WHERE oid IN (SELECT objid FROM (`+members+`) m WHERE classid = 'pg_proc'::regclass)`)
	wantSame(t, want, got)
}

// wantSame fails for what is in one list and not in the other.
func wantSame(t *testing.T, want, got []string) {
	t.Helper()
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("missing: %s", w)
		}
	}
	for _, g := range got {
		if !slices.Contains(want, g) {
			t.Errorf("unexpected: %s", g)
		}
	}
}

// Every object of the extension is listed here, has a comment, and lies in the extension's schema.
func TestObjectsOfTheExtension(t *testing.T) {
	c := shared.Connect(t, emptyDatabase(t, shared))
	exec(t, c, "CREATE SCHEMA ids")
	const elsewhere = `SELECT format('%s %s: %s', kind, schema, count(*)) FROM (
			SELECT 'relation', relnamespace FROM pg_class UNION ALL SELECT 'function', pronamespace FROM pg_proc
			UNION ALL SELECT 'type', typnamespace FROM pg_type
		) x (kind, schema) WHERE schema <> 'ids'::regnamespace GROUP BY kind, schema`
	before, rows := column[string](t, c, elsewhere), rowsOfCatalogs(t, c)
	exec(t, c, "CREATE EXTENSION snowflake SCHEMA ids")
	wantSame(t, before, column[string](t, c, elsewhere))
	// No roles, schemas, operators, triggers, policies, default rights, settings of databases, or anything else.
	var touched []string
	for catalog, n := range rowsOfCatalogs(t, c) {
		if n != rows[catalog] {
			touched = append(touched, catalog)
		}
	}
	wantSame(t, []string{"pg_attribute", "pg_cast", "pg_class", "pg_depend", "pg_description", "pg_extension", "pg_init_privs", "pg_proc",
		"pg_rewrite", "pg_sequence", "pg_type"}, touched)

	want := []string{"type ids.snowflake", "view ids.snowflake_workers", "sequence ids.snowflake_mark",
		"sequence ids.snowflake_epoch", "sequence ids.snowflake_uptime", "cast (ids.snowflake AS bigint)",
		"cast (bigint AS ids.snowflake)", "cast (integer AS ids.snowflake)", "cast (smallint AS ids.snowflake)"}
	got := column[string](t, c, "SELECT type || ' ' || identity FROM ("+members+") m WHERE type <> 'function'")
	wantSame(t, want, got)
	if bare := column[string](t, c, "SELECT type || ' ' || identity FROM ("+members+
		") m WHERE length(obj_description(objid, (SELECT relname FROM pg_class c WHERE c.oid = classid))) > 2 IS NOT TRUE"); len(bare) > 0 {
		t.Errorf("without a comment: %q", bare)
	}
	if strayed := column[string](t, c, "SELECT identity FROM ("+members+") m WHERE schema <> 'ids'"); len(strayed) > 0 {
		t.Errorf("outside the extension's schema: %q", strayed)
	}
	wantError(t, tryExec(t, c, "ALTER EXTENSION snowflake SET SCHEMA public"), "0A000")

	exec(t, c, "DROP EXTENSION snowflake")
	for catalog, n := range rowsOfCatalogs(t, c) {
		if n != rows[catalog] {
			t.Errorf("the extension leaves %d rows in %s", n-rows[catalog], catalog)
		}
	}
}

// rowsOfCatalogs counts the rows of every system catalog, but for the statistics, which change by themselves.
func rowsOfCatalogs(t *testing.T, c *pgx.Conn) map[string]int64 {
	t.Helper()
	counts := make(map[string]int64)
	for _, catalog := range column[string](t, c, `SELECT relname::text FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace
		AND relkind = 'r' AND relname NOT IN ('pg_statistic', 'pg_statistic_ext_data')`) {
		counts[catalog] = one[int64](t, c, "SELECT count(*) FROM pg_catalog."+catalog)
	}
	return counts
}

func TestRights(t *testing.T) {
	c := connect(t)
	want := []string{"view snowflake_workers: SELECT", "sequence snowflake_mark: SELECT", "sequence snowflake_epoch: SELECT", "type snowflake: USAGE"}
	for _, f := range allFunctions() {
		if f.name != "snowflake_reset_mark" {
			want = append(want, fmt.Sprintf("function %s: EXECUTE", f.name))
		}
	}
	got := column[string](t, c, `SELECT concat(type, ' ', name, ': ', privilege_type, CASE WHEN grantee <> 0 THEN ' to ' || grantee::regrole END,
			CASE WHEN is_grantable THEN ' with grant option' END) FROM (
			SELECT type, proname AS name, coalesce(proacl, acldefault('f', proowner)) AS acl, proowner AS owner
			FROM (`+members+`) m JOIN pg_proc p ON classid = 'pg_proc'::regclass AND p.oid = objid
			UNION ALL SELECT type, relname, coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", relowner)), relowner
			FROM (`+members+`) m JOIN pg_class r ON classid = 'pg_class'::regclass AND r.oid = objid
			UNION ALL SELECT type, typname, coalesce(typacl, acldefault('T', typowner)), typowner
			FROM (`+members+`) m JOIN pg_type y ON classid = 'pg_type'::regclass AND y.oid = objid
		) o, aclexplode(acl) WHERE grantee <> owner`)
	wantSame(t, want, got)
	wantNone(t, c, "rights on columns", "pg_attribute WHERE attacl IS NOT NULL AND attrelid IN (SELECT objid FROM ("+members+") m)")

	// A role without any rights of its own makes ids and looks at the workers.
	role := one[string](t, c, "SELECT 'nobody_' || current_database()")
	exec(t, c, "CREATE ROLE "+role+"; CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_next()); GRANT INSERT ON t TO "+role)
	exec(t, c, "SET ROLE "+role+"; INSERT INTO t SELECT snowflake_next(3); INSERT INTO t DEFAULT VALUES")
	if n := one[int](t, c, "SELECT count(*) FROM snowflake_workers WHERE pid = pg_backend_pid()"); n != 1 {
		t.Errorf("the session stands %d times in snowflake_workers", n)
	}
	exec(t, c, "SELECT snowflake_status(), snowflake_stats()")
	wantError(t, tryExec(t, c, "SELECT snowflake_reset_mark('2026-01-01Z')"), "42501", "snowflake_reset_mark")
	for _, sequence := range []string{"snowflake_mark", "snowflake_epoch", "snowflake_uptime"} {
		wantError(t, tryExec(t, c, "SELECT setval('"+sequence+"', 1)"), "42501", sequence)
	}
	wantError(t, tryExec(t, c, "SELECT last_value FROM snowflake_uptime"), "42501")
	exec(t, c, "RESET ROLE; GRANT EXECUTE ON FUNCTION snowflake_reset_mark TO "+role+"; SET ROLE "+role)
	wantError(t, tryExec(t, c, "SELECT snowflake_reset_mark('2026-01-01Z')"), "42501", "must be superuser")
	exec(t, c, "RESET ROLE; DROP OWNED BY "+role+"; DROP ROLE "+role)
}

// Whoever may read the tables can dump the database, mark and epoch included.
func TestDumpByTheOwnerOfTheTables(t *testing.T) {
	database := newDatabase(t, shared)
	c := shared.Connect(t, database)
	role := "owner_" + database
	exec(t, c, "CREATE ROLE "+role+" LOGIN; CREATE TABLE t (id bigint DEFAULT snowflake_next()); ALTER TABLE t OWNER TO "+role+
		"; INSERT INTO t DEFAULT VALUES")
	dump := run(t, shared, "pg_dump", "-U", role, database)
	for _, sequence := range []string{"snowflake_mark", "snowflake_epoch"} {
		if !strings.Contains(dump, "setval('public."+sequence+"'") {
			t.Errorf("the dump does not carry %s", sequence)
		}
	}
	exec(t, c, "DROP OWNED BY "+role+"; DROP ROLE "+role)
}

// NULL for NULL in every place of every function; snowflake_next(NULL) gives no rows.
func TestNullForNull(t *testing.T) {
	c := connect(t)
	for _, f := range allFunctions() {
		if !f.callable() || f.name == "snowflake_reset_mark" {
			continue
		}
		if n := notNull(t, c, f.call("public", nil)); n == 0 && f.name != "snowflake_worker_times" {
			t.Errorf("%s is NULL", f.call("public", nil))
		}
		for i, sample := range f.samples {
			null := f.call("public", map[int]string{i: "NULL"})
			if strings.Contains(sample, "::") {
				null = f.call("public", map[int]string{i: "NULL" + sample[strings.LastIndex(sample, "::"):]})
			}
			if n := notNull(t, c, null); n != 0 {
				t.Errorf("%s is not NULL", null)
			}
		}
	}
	if notNull(t, c, "public.snowflake_reset_mark(NULL)") != 0 {
		t.Error("snowflake_reset_mark(NULL) is not NULL")
	}
	// Where one half of snowflake_between is false the other, unknown one does not matter, as with BETWEEN.
	for _, args := range []string{"NULL, '2026-01-02Z', '2026-01-03Z'", "5, NULL, '2026-01-03Z'", "5, '2026-01-01Z', NULL",
		"5, NULL, NULL", "5, '2026-01-01Z', '2026-01-03Z', NULL"} {
		if !one[bool](t, c, "SELECT snowflake_between("+args+") IS NULL") {
			t.Errorf("snowflake_between(%s) is not NULL", args)
		}
	}
}

func notNull(t *testing.T, c *pgx.Conn, call string) int {
	t.Helper()
	return one[int](t, c, "SELECT count(*) FROM (SELECT "+call+" AS v OFFSET 0) x WHERE NOT (v IS NULL)")
}

// Traps wait in front of everything: operators and functions of the same names, temporary objects, another type of
// that name. Nothing of the extension may step into one, neither when it is created nor when it is used.
func TestHostileSearchPath(t *testing.T) {
	database := newDatabase(t, shared)
	c, clean := shared.Connect(t, database), shared.Connect(t, database)
	exec(t, c, `DROP EXTENSION snowflake; CREATE SCHEMA ids; CREATE SCHEMA evil;
		DO $$
		DECLARE o record;
		BEGIN
			FOR o IN SELECT oid, oprname, oprleft::regtype AS l, oprright::regtype AS r, oprresult::regtype AS result FROM pg_operator
				WHERE oprkind = 'b' AND oprleft::regtype = ANY ('{int2,int4,int8,oid,bool,text,name,uuid,timestamptz,interval}'::regtype[])
				AND oprright::regtype = ANY ('{int2,int4,int8,oid,bool,text,name,uuid,timestamptz,interval}'::regtype[])
			LOOP
				EXECUTE format('CREATE FUNCTION evil.trap_%s(%s, %s) RETURNS %s LANGUAGE plpgsql IMMUTABLE AS ''BEGIN RAISE ''''captured''''; END''',
					o.oid, o.l, o.r, o.result);
				EXECUTE format('CREATE OPERATOR evil.%s (leftarg = %s, rightarg = %s, function = evil.trap_%s)', o.oprname, o.l, o.r, o.oid);
			END LOOP;
		END $$;
		CREATE DOMAIN evil.snowflake AS text;
		CREATE TABLE evil.pg_locks (); CREATE TABLE evil.pg_stat_activity ();
		CREATE TEMP TABLE pg_locks (); CREATE TEMP TABLE snowflake_workers ();
		CREATE TEMP SEQUENCE snowflake_mark; CREATE TEMP SEQUENCE snowflake_epoch; CREATE TEMP SEQUENCE snowflake_uptime;
		CREATE SEQUENCE evil.snowflake_mark; CREATE SEQUENCE evil.snowflake_epoch; CREATE SEQUENCE evil.snowflake_uptime`)
	const hostile = "SET search_path = pg_temp, evil, ids, public, pg_catalog"
	exec(t, c, hostile)
	wantError(t, tryExec(t, c, "SELECT 1 = 1"), "P0001", "captured")
	exec(t, c, "CREATE EXTENSION snowflake SCHEMA ids")
	exec(t, c, `SET search_path = pg_catalog;
		DO $$
		DECLARE f record;
		BEGIN
			FOR f IN SELECT proname, pg_get_function_identity_arguments(oid) AS args, proretset, oid FROM pg_proc
				WHERE pronamespace = 'ids'::regnamespace AND prorettype <> 'ids.snowflake'::regtype AND proname <> 'snowflake_out'
			LOOP
				EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s LANGUAGE plpgsql IMMUTABLE AS ''BEGIN RAISE ''''captured''''; END''',
					f.proname, f.args, pg_get_function_result(f.oid));
			END LOOP;
		END $$;
		CREATE TABLE public.orders (id bigint PRIMARY KEY, made timestamptz GENERATED ALWAYS AS (ids.snowflake_timestamp(id, '2026-01-01Z')) STORED);
		CREATE INDEX ON public.orders (ids.snowflake_encode(id));`+hostile)
	wantError(t, tryExec(t, c, "SELECT snowflake_min_id('2026-01-01Z'::timestamptz)"), "P0001", "captured")

	exec(t, clean, "SET search_path = pg_catalog")
	for _, f := range allFunctions() {
		if !f.callable() || f.name == "snowflake_reset_mark" {
			continue
		}
		query := "SELECT " + f.call("ids", nil) + "::text"
		got := column[*string](t, c, query)
		if strings.Contains(f.marks, "volatile") {
			continue // it ran, and that is all that two calls have in common
		}
		if want := one[string](t, clean, query); len(got) != 1 || got[0] == nil || *got[0] != want {
			t.Errorf("%s gives %v under a hostile search_path, else %q", query, got, want)
		}
	}
	exec(t, c, "INSERT INTO public.orders SELECT ids.snowflake_next(100); TABLE ids.snowflake_workers; REINDEX TABLE public.orders; ANALYZE public.orders")
	if one[string](t, c, "SELECT (SELECT id FROM public.orders LIMIT 1)::ids.snowflake::text") == "" {
		t.Error("no id")
	}
	wantError(t, tryExec(t, c, "SELECT ids.snowflake_reset_mark('infinity')"), "22023")
	for _, schema := range []string{"evil", "pg_temp"} {
		for _, sequence := range []string{"snowflake_mark", "snowflake_epoch", "snowflake_uptime"} {
			if one[bool](t, c, "SELECT is_called FROM "+schema+"."+sequence) {
				t.Errorf("%s.%s was written", schema, sequence)
			}
		}
	}

	const query = "EXPLAIN (COSTS OFF) SELECT * FROM public.orders WHERE ids.snowflake_between(id, '2026-11-30Z', '2026-12-01Z', '2026-01-01Z')"
	exec(t, c, "SET enable_seqscan = off; SET enable_bitmapscan = off")
	exec(t, clean, "SET enable_seqscan = off; SET enable_bitmapscan = off")
	plan, want := strings.Join(column[string](t, c, query), "\n"), strings.Join(column[string](t, clean, query), "\n")
	plan = regexp.MustCompile(`OPERATOR\(pg_catalog\.([<>=]+)\)`).ReplaceAllString(plan, "$1")
	if plan != want || !strings.Contains(plan, "Index Cond: ((id ") {
		t.Errorf("the plan under a hostile search_path is\n%s\nelse it is\n%s", plan, want)
	}
}

func TestSettingsInTheCatalog(t *testing.T) {
	c := connect(t)
	exec(t, c, "LOAD 'snowflake'")
	wantSame(t, []string{
		"snowflake.worker_id superuser integer -1 from -1 to 1023",
		"snowflake.worker_range sighup string 0-1023",
		"snowflake.epoch superuser string 2026-01-01T00:00:00Z",
		"snowflake.clock_tolerance superuser integer 100 ms from 0 to 60000",
		"snowflake.lease_conninfo sighup string ",
		"snowflake.lease_ttl sighup integer 30000 ms from 1000 to 3600000",
		"snowflake.lease_conninfo sighup string ",
		"snowflake.lease_ttl sighup integer 30000 ms from 1000 to 3600000",
	}, column[string](t, c, `SELECT concat_ws(' ', name, context, vartype, boot_val, unit, 'from ' || min_val, 'to ' || max_val)
		FROM pg_settings WHERE name LIKE 'snowflake.%' AND length(short_desc) > 10`))
}

// One version: the control file's.
func TestVersionsAgree(t *testing.T) {
	control := file(t, "../ext/snowflake.control")
	match := regexp.MustCompile(`(?m)^default_version = '([0-9.]+)'$`).FindStringSubmatch(control)
	if match == nil {
		t.Fatal("no version in the control file")
	}
	version := match[1]
	var meta struct {
		Version, Abstract string
		Provides          map[string]struct{ Version, File, Docfile string }
	}
	if err := json.Unmarshal([]byte(file(t, "../META.json")), &meta); err != nil {
		t.Fatal(err)
	}
	full := version // semantic versions have three parts
	for strings.Count(full, ".") < 2 {
		full += ".0"
	}
	provides := meta.Provides["snowflake"]
	if meta.Version != full || provides.Version != full {
		t.Errorf("META.json says %s and %s, not %s", meta.Version, provides.Version, full)
	}
	if !strings.Contains(control, "comment = '"+meta.Abstract+"'") {
		t.Error("META.json and the control file describe the extension differently")
	}
	file(t, "../"+provides.Docfile)
	if want := "ext/sql/snowflake--" + version + ".sql"; provides.File != want {
		t.Errorf("META.json names %s, not %s", provides.File, want)
	}
	file(t, "../"+provides.File)
	if first := regexp.MustCompile(`(?m)^## (\S+)`).FindStringSubmatch(file(t, "../CHANGELOG.md")); first == nil || first[1] != version {
		t.Errorf("the changelog begins with %q, not %s", first, version)
	}
	if first, _, _ := strings.Cut(file(t, "../debian/changelog"), ")"); first != "postgresql-snowflake ("+version+"-1" {
		t.Errorf("debian/changelog begins with %q, not with version %s", first, version)
	}
	c := connect(t)
	if got := one[string](t, c, "SELECT version FROM snowflake_status()"); got != version {
		t.Errorf("the library is %s, not %s", got, version)
	}
	if got := one[string](t, c, "SELECT extversion FROM pg_extension WHERE extname = 'snowflake'"); got != version {
		t.Errorf("the extension is %s, not %s", got, version)
	}
}

func file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// tableUnder is the first table under a heading of the README, row by row without the head.
func tableUnder(t *testing.T, heading string) (rows [][]string) {
	t.Helper()
	_, text, found := strings.Cut(file(t, "../README.md"), "\n"+heading+"\n")
	if !found {
		t.Fatalf("the README has no %q", heading)
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch isRow := strings.HasPrefix(line, "|"); {
		case isRow:
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		case len(rows) > 0 || strings.HasPrefix(line, "#"):
			return rows[min(2, len(rows)):]
		}
	}
	return rows[min(2, len(rows)):]
}

var code = regexp.MustCompile("`([^`]+)`")

// signature is a way to call a function: its arguments, each with the words that may name it, and what it returns
// when that is said.
type signature struct {
	name   string
	args   [][]string
	result string
}

func (s signature) String() string {
	args := make([]string, len(s.args))
	for i := range s.args {
		args[i] = s.args[i][0]
	}
	return fmt.Sprintf("%s(%s)", s.name, strings.Join(args, ", "))
}

// matches says whether two signatures are one; where one says what is returned, so must the other.
func (s signature) matches(o signature) bool {
	same := s.name == o.name && len(s.args) == len(o.args) && (s.result == "" || o.result == "" || s.result == o.result)
	for i := 0; same && i < len(s.args); i++ {
		same = slices.ContainsFunc(s.args[i], func(word string) bool { return slices.Contains(o.args[i], word) })
	}
	return same
}

var written = regexp.MustCompile(`^([a-z0-9_]+)\((.*?)\)(?: → (.*))?$`)

// readSignatures reads "f(a [, b]) → type" into the ways to call f, without and with what is in brackets.
func readSignatures(t *testing.T, text string) (all []signature) {
	t.Helper()
	match := written.FindStringSubmatch(text)
	if match == nil {
		t.Errorf("the README writes %q, which is no signature", text)
		return nil
	}
	required, optional, _ := strings.Cut(strings.TrimSuffix(match[2], "]"), "[")
	list := func(text string) (args [][]string) {
		for arg := range strings.SplitSeq(text, ",") {
			if words := strings.Fields(arg); len(words) > 0 {
				args = append(args, words[:1])
			}
		}
		return args
	}
	s := signature{name: match[1], args: list(required), result: match[3]}
	all = append(all, s)
	for _, arg := range list(optional) {
		s.args = append(slices.Clone(s.args), arg)
		all = append(all, s)
	}
	return all
}

// The README's reference and the catalog name the same functions, arguments, results, views and types.
func TestReferenceNamesAllFunctions(t *testing.T) {
	c := connect(t)
	var inReadme, inCatalog []signature
	var relations []string
	for _, row := range tableUnder(t, "### Functions") {
		for _, span := range code.FindAllStringSubmatch(row[0], -1) {
			if !strings.Contains(span[1], "(") {
				relations = append(relations, span[1])
				continue
			}
			inReadme = append(inReadme, readSignatures(t, span[1])...)
		}
	}
	rows, err := c.Query(background(t), `SELECT proname, coalesce(proargnames[:pronargs], '{}'), pronargdefaults::int,
			ARRAY(SELECT format_type(a, NULL) FROM unnest(proargtypes) WITH ORDINALITY x (a, n) ORDER BY n),
			CASE WHEN proallargtypes IS NULL THEN lower(pg_get_function_result(p.oid))
				ELSE format('(%s)', array_to_string(proargnames[pronargs + 1:], ', ')) END
		FROM pg_proc p WHERE oid IN (SELECT objid FROM (`+members+`) m WHERE classid = 'pg_proc'::regclass)
		AND NOT EXISTS (SELECT FROM pg_type y WHERE p.oid IN (typinput, typoutput, typsend, typreceive))
		AND NOT EXISTS (SELECT FROM pg_cast WHERE castfunc = p.oid)`)
	if err != nil {
		t.Fatal(err)
	}
	var s signature
	var names, types []string
	var defaults int
	if _, err := pgx.ForEachRow(rows, []any{&s.name, &names, &defaults, &types, &s.result}, func() error {
		s.args = nil
		for i := range types {
			if i >= len(types)-defaults {
				inCatalog = append(inCatalog, s)
			}
			s.args = append(slices.Clone(s.args), []string{names[i], types[i]})
		}
		inCatalog = append(inCatalog, s)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(inCatalog) < 30 {
		t.Fatalf("only %d signatures in the catalog", len(inCatalog))
	}
	for _, s := range inCatalog {
		if !slices.ContainsFunc(inReadme, s.matches) {
			t.Errorf("the README lacks %s → %s", s, s.result)
		}
	}
	for _, s := range inReadme {
		if !slices.ContainsFunc(inCatalog, s.matches) {
			t.Errorf("the README has %s → %s, the extension has not", s, s.result)
		}
	}
	wantSame(t, column[string](t, c, "SELECT name FROM ("+members+") m WHERE type = 'view'"), relations)
	text := file(t, "../README.md")
	for _, name := range column[string](t, c, "SELECT name FROM (SELECT split_part(identity, '.', 2) AS name FROM ("+members+") m WHERE type = 'type') x") {
		if !strings.Contains(text, "type `"+name+"`") {
			t.Errorf("the README does not speak of the type `%s`", name)
		}
	}
}

// Each row of the reference has an example that the server understands, and where a value is printed, that value.
func TestReferenceExamples(t *testing.T) {
	c := connect(t)
	exec(t, c, "SET TimeZone = 'UTC'")
	for _, row := range tableUnder(t, "### Functions") {
		if len(row) != 3 {
			t.Errorf("%q has %d columns", row[0], len(row))
			continue
		}
		spans := code.FindAllStringSubmatch(row[2], -1)
		if len(spans) == 0 {
			t.Errorf("no example for %s", row[0])
			continue
		}
		example := spans[0][1]
		name := regexp.MustCompile(`[a-z0-9_]+`).FindString(code.FindString(row[0]))
		if other := code.FindAllStringSubmatch(row[0], -1); !strings.Contains(example, name) &&
			!slices.ContainsFunc(other, func(span []string) bool { return strings.Contains(example, strings.SplitN(span[1], "(", 2)[0]) }) {
			t.Errorf("the example for %s is of something else: %s", name, example)
		}
		word, rest, _ := strings.Cut(example, " ")
		switch word {
		case "SELECT", "TABLE":
		case "DEFAULT":
			example = "SELECT " + rest
		case "WHERE":
			example = "SELECT FROM (SELECT 1::bigint AS id) x " + example
		default:
			example = "SELECT " + example
		}
		if err := tryExec(t, c, "PREPARE example AS "+example+"; DEALLOCATE example"); err != nil {
			t.Errorf("the example %s: %v", example, err)
			continue
		}
		if strings.Contains(row[2], "→") && len(spans) == 2 {
			if got := one[string](t, c, "SELECT ("+strings.TrimPrefix(example, "SELECT ")+")::text"); got != spans[1][1] {
				t.Errorf("%s gives %s, the README says %s", example, got, spans[1][1])
			}
		}
	}
}

func TestReferenceNamesAllSettings(t *testing.T) {
	c := connect(t)
	exec(t, c, "LOAD 'snowflake'")
	var inReadme []string
	for _, row := range tableUnder(t, "### Settings") {
		who := "sighup"
		if strings.HasPrefix(row[2], "superuser") {
			who = "superuser"
		}
		inReadme = append(inReadme, fmt.Sprintf("%s = %s (%s)", strings.Trim(row[0], "`"), strings.Trim(row[1], "`"), who))
	}
	wantSame(t, column[string](t, c, `SELECT format('%s = %s (%s)', name, coalesce(nullif(current_setting(name), ''), 'empty'), context)
		FROM pg_settings WHERE name LIKE 'snowflake.%'`), inReadme)
}
