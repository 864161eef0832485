package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// ALTER EXTENSION UPDATE from an earlier version leaves what CREATE EXTENSION makes, and all that users built on it.

// earlier is the version of test/variants/snowflake--0.1.sql: the first ids, before the durable mark.
const earlier = "0.1"

// catalogOf describes all that the catalog knows of the extension, line by line and without numbers of objects.
func catalogOf(t *testing.T, c *pgx.Conn) []string {
	t.Helper()
	exec(t, c, "SET search_path = pg_catalog")
	return column[string](t, c, `WITH m AS (SELECT d.classid, d.objid, i.type, i.identity, i.type || ' ' || i.identity AS name
			FROM pg_depend d, pg_identify_object(d.classid, d.objid, d.objsubid) i
			WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
			AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake'))
		SELECT 'extension: ' || (to_jsonb(e) - '{oid,extowner,extnamespace,extconfig}'::text[])::text || extnamespace::regnamespace || extconfig::regclass[]::text
			FROM pg_extension e WHERE extname = 'snowflake'
		UNION ALL SELECT 'member: ' || name FROM m
		UNION ALL SELECT format('comment on %s: %s', name, obj_description(objid, relname)) FROM m JOIN pg_class c ON c.oid = classid
		UNION ALL SELECT format('first rights on %s: %s', name, initprivs::text) FROM m JOIN pg_init_privs i ON (i.classoid, i.objoid) = (classid, objid)
		UNION ALL SELECT format('%s needs %s (%s)', name, pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid), d.deptype)
			FROM m JOIN pg_depend d USING (classid, objid)
		UNION ALL SELECT format('%s: %s source %s in %s, cost %s, rows %s, rights %s, support %s', name, pg_get_functiondef(p.oid), prosrc, probin, procost, prorows, proacl::text, prosupport)
			FROM m JOIN pg_proc p ON classid = 'pg_proc'::regclass AND p.oid = objid
		UNION ALL SELECT format('%s: %s element %s', name, (to_jsonb(t) - '{oid,typnamespace,typowner,typarray,typelem,typrelid}'::text[])::text, typelem::regtype)
			FROM m JOIN pg_type t ON classid = 'pg_type'::regclass AND t.oid = objid
		UNION ALL SELECT format('%s: %s by %s', name, (to_jsonb(k) - '{oid,castsource,casttarget,castfunc}'::text[])::text, castfunc::regprocedure)
			FROM m JOIN pg_cast k ON classid = 'pg_cast'::regclass AND k.oid = objid
		UNION ALL SELECT format('%s: kind %s, persistence %s, options %s, rights %s, columns %s, %s', name, relkind, relpersistence, reloptions::text, relacl::text,
				(SELECT string_agg(format('%s %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = r.oid AND attnum > 0),
				coalesce((SELECT (to_jsonb(s) - 'seqrelid')::text FROM pg_sequence s WHERE seqrelid = r.oid), pg_get_viewdef(r.oid)))
			FROM m JOIN pg_class r ON classid = 'pg_class'::regclass AND r.oid = objid`)
}

func TestUpdateOfTheExtension(t *testing.T) {
	for _, schema := range []string{"public", `"My ids"`} {
		t.Run(schema, func(t *testing.T) {
			fresh, updated := shared.Connect(t, emptyDatabase(t, shared)), shared.Connect(t, emptyDatabase(t, shared))
			exec(t, fresh, "CREATE SCHEMA IF NOT EXISTS "+schema+"; CREATE EXTENSION snowflake SCHEMA "+schema)
			exec(t, updated, "CREATE SCHEMA IF NOT EXISTS "+schema+"; CREATE EXTENSION snowflake VERSION '"+earlier+"' SCHEMA "+schema)
			other := shared.Connect(t, one[string](t, updated, "SELECT current_database()::text"))

			// What users build on the earlier version, with an id of this moment as it made them.
			id := (time.Now().UnixMilli()-time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())<<22 | 5<<12
			exec(t, updated, fmt.Sprintf(`SET search_path = %[1]s, public;
				CREATE TABLE public.t (id bigint PRIMARY KEY DEFAULT snowflake_next(), u uuid DEFAULT %[1]s.uuidv7(), n integer,
					at timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, '2026-01-01Z')) STORED);
				CREATE INDEX ON public.t (snowflake_worker_id(id)); INSERT INTO public.t VALUES (%[2]d);
				CREATE VIEW public.v AS SELECT (snowflake_parse(id)).* FROM public.t;
				CREATE FUNCTION public.f() RETURNS bigint LANGUAGE sql AS 'SELECT %[1]s.snowflake_next()'`, schema, id))
			// A newer library under the earlier script: each function works, or says what is to be done.
			exec(t, other, "SET search_path = "+schema+", public")
			for _, call := range []string{"snowflake_next()", "snowflake_next(2)", "f()", "snowflake_release()", "snowflake_parse(5)",
				"snowflake_parse(5, '2026-01-01Z')", "snowflake_timestamp(5)", "snowflake_timestamp(5, '2026-01-01Z')", "snowflake_worker_id(5)",
				"snowflake_sequence(5)", schema + ".uuidv7()", schema + ".uuidv7('1 day')", "uuidv7_timestamp(uuidv7())"} {
				err := tryExec(t, other, "SELECT "+call)
				if strings.Contains(call, "next()") || strings.Contains(call, "next(2)") || call == "f()" {
					wantError(t, err, "55000", `sequence "snowflake_mark" of extension snowflake is missing`, "ALTER EXTENSION snowflake UPDATE")
				} else if err != nil {
					t.Errorf("%s: %v", call, err)
				}
			}
			wantError(t, tryExec(t, other, "INSERT INTO t DEFAULT VALUES"), "55000", "ALTER EXTENSION snowflake UPDATE")

			exec(t, updated, "ALTER EXTENSION snowflake UPDATE")
			want, got := catalogOf(t, fresh), catalogOf(t, updated)
			wantSame(t, want, got)
			if len(want) < 200 {
				t.Errorf("only %d lines about the extension", len(want))
			}

			// The session that was refused goes on, above the ids of before; also after a restart, by the mark.
			if !one[bool](t, other, "SELECT reserved_until > snowflake_timestamp($1) FROM snowflake_status()", id) {
				t.Error("the mark lies behind the ids of before")
			}
			exec(t, other, "INSERT INTO t (n) SELECT generate_series(1, 100)")
			ids := column[int64](t, other, "SELECT id FROM t ORDER BY n NULLS FIRST")
			wantRising(t, "over the update", append(ids, one[int64](t, other, "SELECT f()")))
			wantEqual(t, other, "(SELECT ROW(count(*), count(DISTINCT u), min(at)) FROM t)", fmt.Sprintf("ROW(101, 101, snowflake_timestamp(%d))", id))
			wantEqual(t, other, "(SELECT max(worker_id) FROM v WHERE sequence = 0)", "5")
			exec(t, other, "DROP TABLE t CASCADE; DROP FUNCTION f; DROP EXTENSION snowflake")
		})
	}
}

// There is a way to this version from each earlier one, and only this one and those are known.
func TestUpdatePaths(t *testing.T) {
	c := connect(t)
	got := column[string](t, c, `SELECT concat_ws(' ', source, path) FROM pg_extension_update_paths('snowflake') WHERE target =
		(SELECT default_version FROM pg_available_extensions WHERE name = 'snowflake')`)
	version := one[string](t, c, "SELECT extversion FROM pg_extension WHERE extname = 'snowflake'")
	wantSame(t, []string{earlier + " " + earlier + "--" + version}, got)
}
