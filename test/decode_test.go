package test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Taking ids, UUIDs and GUIDs apart and putting them together, through SQL: published values by their source, input
// that cannot be, and properties over random input.

// wantEqual fails unless two expressions have the same text, NULL included.
func wantEqual(t testing.TB, c *pgx.Conn, expression, want string) {
	t.Helper()
	var got, wanted *string
	if err := c.QueryRow(background(t), fmt.Sprintf("SELECT (%s)::text, (%s)::text", expression, want)).Scan(&got, &wanted); err != nil {
		t.Errorf("%s: %v", expression, err)
	} else if show := func(s *string) string {
		if s == nil {
			return "NULL"
		}
		return *s
	}; show(got) != show(wanted) {
		t.Errorf("%s is %s, not %s", expression, show(got), show(wanted))
	}
}

// wantNone fails when a query that looks for counterexamples counts any.
func wantNone(t testing.TB, c *pgx.Conn, what, from string) {
	t.Helper()
	if n := one[int](t, c, "SELECT count(*) FROM "+from); n != 0 {
		t.Errorf("%s: %d exceptions", what, n)
	}
}

// idVectors are published ids of the layout 41/10/12 with their epochs.
var idVectors = []struct {
	source, layout       string
	id                   int64
	epoch, created       string
	workerID, sequenceNo int
}{
	{"Discord documentation", "discord", 175928847299117063, "2015-01-01Z", "2016-04-30T11:18:25.796Z", 32, 7},
	{"discord.js documentation", "discord", 266241948824764416, "2015-01-01Z", "2017-01-04T16:30:27.136Z", 32, 0},
	{"npm discord-snowflake", "discord", 90339695967350784, "2015-01-01Z", "2015-09-07T06:57:41.949Z", 3, 0},
	{"twilight-util", "discord", 105484726235607040, "2015-01-01Z", "2015-10-19T01:58:38.546Z", 11, 0},
	{"pcordjs/snowflake", "discord", 937847820382261308, "2015-01-01Z", "2022-01-31T23:12:24.749Z", 37, 60},
	{"npm snowflake-util", "discord", 756403198394237027, "2015-01-01Z", "2020-09-18T06:36:15.789Z", 32, 99},
	{"Wikipedia Snowflake ID", "twitter", 1541815603606036480, "2010-11-04T01:42:54.657Z", "2022-06-28T16:07:40.105Z", 378, 0},
	{"techconverter, whose printed time is wrong", "twitter", 1382350606417817604, "2010-11-04T01:42:54.657Z", "2021-04-14T15:10:42.059Z", 327, 4},
	{"techconverter", "twitter", 1529877576591609861, "2010-11-04T01:42:54.657Z", "2022-05-26T17:30:12.667Z", 321, 5},
	{"bwmarrin/snowflake test 1", "twitter", 1116766490855473152, "2010-11-04T01:42:54.657Z", "2019-04-12T18:14:14.595Z", 0, 0},
	{"bwmarrin/snowflake test 2", "twitter", 1427970479175499776, "2010-11-04T01:42:54.657Z", "2021-08-18T12:27:47.301Z", 0, 0},
	{"bwmarrin/snowflake test 3", "twitter", 1428076403798048768, "2010-11-04T01:42:54.657Z", "2021-08-18T19:28:41.699Z", 0, 0},
	{"sapphiredev/utilities#521", "twitter", 1593572310593806338, "2010-11-04T01:42:54.657Z", "2022-11-18T11:50:20.644Z", 378, 2},
	{"pgEdge hibernate.md", "pgedge", 170505378935607296, "2023-01-01Z", "2024-04-15T12:07:30.175Z", 1, 0},
	{"pgEdge docs, older layout", "pgedge", 136169504773242881, "2023-01-01Z", "2024-01-11T18:08:59.845Z", 0, 1},
	{"pg_snowflake_id README", "", 576968555229220864, "2021-01-01Z", "2025-05-12T03:07:03.124Z", 33, 0},
	{"zheng-ji/goSnowFlake#11", "", 257530689124044800, "2016-09-25T11:28:08Z", "2018-09-06T03:03:08.976Z", 1, 0},
	{"the first id", "default", 0, "2026-01-01Z", "2026-01-01Z", 0, 0},
	{"lowest bit of the sequence", "default", 1, "2026-01-01Z", "2026-01-01Z", 0, 1},
	{"all bits of the sequence", "default", 4095, "2026-01-01Z", "2026-01-01Z", 0, 4095},
	{"lowest bit of the worker", "default", 4096, "2026-01-01Z", "2026-01-01Z", 1, 0},
	{"all bits of worker and sequence", "default", 4194303, "2026-01-01Z", "2026-01-01Z", 1023, 4095},
	{"lowest bit of the time", "default", 4194304, "2026-01-01Z", "2026-01-01T00:00:00.001Z", 0, 0},
	{"the last id", "default", 9223372036854775807, "2026-01-01Z", "2095-09-07T15:47:35.551Z", 1023, 4095},
	{"the last id from 1970", "", 9223372036854775807, "1970-01-01Z", "2039-09-07T15:47:35.551Z", 1023, 4095},
	{"the last id of Twitter", "twitter", 9223372036854775807, "2010-11-04T01:42:54.657Z", "2080-07-10T17:30:30.208Z", 1023, 4095},
}

func TestPublishedIDs(t *testing.T) {
	c := connect(t)
	for _, v := range idVectors {
		t.Run(v.source, func(t *testing.T) {
			equal := func(want, format string, args ...any) {
				t.Helper()
				wantEqual(t, c, fmt.Sprintf(format, args...), want)
			}
			created := "'" + v.created + "'::timestamptz"
			row := fmt.Sprintf("ROW(%s, %d, %d)", created, v.workerID, v.sequenceNo)
			id := fmt.Sprint(v.id)
			equal(row, "snowflake_parse(%d, '%s')", v.id, v.epoch)
			equal(created, "snowflake_timestamp(%d, '%s')", v.id, v.epoch)
			equal(fmt.Sprint(v.workerID), "snowflake_worker_id(%d)", v.id)
			equal(fmt.Sprint(v.sequenceNo), "snowflake_sequence(%d)", v.id)
			equal(id, "snowflake_compose(%s, %d, %d, '%s')", created, v.workerID, v.sequenceNo, v.epoch)
			equal(fmt.Sprint(v.id&^4194303), "snowflake_min_id(%s, '%s')", created, v.epoch)
			equal(fmt.Sprint(v.id|4194303), "snowflake_max_id(%s, '%s')", created, v.epoch)
			equal(id, "snowflake_decode(snowflake_encode(%d))", v.id)
			switch v.layout {
			case "default":
				equal(row, "snowflake_parse(%d)", v.id)
				equal(created, "snowflake_timestamp(%d)", v.id)
				equal(id, "snowflake_compose(%s, %d, %d)", created, v.workerID, v.sequenceNo)
				equal(fmt.Sprint(v.id&^4194303), "snowflake_min_id(%s)", created)
				equal(fmt.Sprint(v.id|4194303), "snowflake_max_id(%s)", created)
			case "":
			default:
				equal(row, "snowflake_parse_as('%s', %d)", v.layout, v.id)
			}
		})
	}
}

func TestIDsOfOtherLayouts(t *testing.T) {
	c := connect(t)
	for _, v := range []struct{ source, call, want string }{
		{"Instagram engineering blog, worked example", "snowflake_parse_as('instagram', 11637205501278089)",
			"ROW('2011-09-09T22:28:04.721Z'::timestamptz, 1341, 905)"},
		// The report's service starts at 2017-10-11T08:00Z; without a start of one's own it is 2014-09-01.
		{"osamingo/indigo#36", "snowflake_parse_as('sonyflake', 126985290920230913)",
			"ROW('2020-03-05T08:45:31.57Z'::timestamptz - ('2017-10-11T08:00Z'::timestamptz - '2014-09-01Z'), 1, 0)"},
		{"Mastodon snowflake.rb: the time is id >> 16", fmt.Sprintf("snowflake_parse_as('mastodon', %d)", int64(1659195311143)<<16|54321),
			"ROW('2022-07-30T15:35:11.143Z'::timestamptz, 0, 54321)"},
		{"Instagram after 2046: a negative bigint", "snowflake_parse_as('instagram', -9223372036854775808)",
			"ROW('2011-08-24T21:07:01.721Z'::timestamptz + make_interval(secs => 1099511627.776), 0, 0)"},
	} {
		t.Run(v.source, func(t *testing.T) { wantEqual(t, c, v.call, v.want) })
	}
}

// uuidVectors are published UUIDs; created is empty where they hold no time that uuidv7_timestamp reads.
var uuidVectors = []struct {
	source, uuid, created string
	randA                 int
	randB                 int64
}{
	{"RFC 9562 A.6", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "2022-02-22T19:22:22Z", 3267, 1784793296645077391},
	{"RFC 9562 A.1, version 1", "c232ab00-9414-11ec-b3c8-9f6bdeced846", "", 0, 0},
	{"PostgreSQL regression, version 5", "11111111-1111-5111-8111-111111111111", "", 0, 0},
	{"PostgreSQL regression, not the RFC's variant", "11111111-1111-1111-1111-111111111111", "", 0, 0},
	{"PostgreSQL 18 docs", "019535d9-3df7-79fb-b466-fa907fa17f9e", "2025-02-24T02:46:24.503Z", 2555, 3775980836120264606},
	{"pg_uuidv7 tests", "018570bb-4a7d-7000-8000-000000000000", "2023-01-02T04:26:40.637Z", 0, 0},
	{"pg_uuidv7 README", "018570bb-4a7d-7c7e-8df4-6d47afd8c8fc", "2023-01-02T04:26:40.637Z", 3198, 1005548771470788860},
	{"pg_tle example", "018bbaec-db78-7d42-ab07-9b8055faa6cc", "2023-11-10T20:29:26.776Z", 3394, 3100617843968485068},
	{"Tiger docs, boundary", "019913f5-30e0-7000-8000-000000000000", "2025-09-04T09:01:00Z", 0, 0},
	{"Tiger docs", "019913ce-f124-7835-96c7-a2df691caa98", "2025-09-04T08:19:13.316Z", 2101, 1641459669624728216},
	{"timescaledb#8505", "0194244f-d800-7000-8000-000000000000", "2025-01-02Z", 0, 0},
	{"PPM#87", "019d50a3-b800-7000-8000-000000000000", "2026-04-03Z", 0, 0},
	{"PPM#87, wrong variant", "019d50a3-b800-7000-0000-000000000000", "", 0, 0},
	{"pgx_ulid tests, version 8", "0186cb65-25d7-81da-815c-7e25a6bfe7db", "", 0, 0},
	{"pgsql-hackers, uuidv7('-1000 years') before 18.6", "e4ea52a0-bda1-7121-8f1f-3d9bb3d9a76e", "9945-11-25T06:22:26.209Z", 0x121, 0xf1f3d9bb3d9a76e},
	{"gofrs/uuid#195, timescale/timescaledb PR#8497: version 4", "550e8400-e29b-41d4-a716-446655440000", "", 0, 0},
	{"gofrs/uuid#195: nil", "00000000-0000-0000-0000-000000000000", "", 0, 0},
	{"gofrs/uuid#195: the largest was of 2121", "ffffffff-ffff-7fff-bfff-ffffffffffff", "10889-08-02T05:31:50.655Z", 4095, 4611686018427387903},
	{"RFC 9562 5.10, max", "ffffffff-ffff-ffff-ffff-ffffffffffff", "", 0, 0},
	{"the smallest", "00000000-0000-7000-8000-000000000000", "1970-01-01Z", 0, 0},
}

func TestPublishedUUIDs(t *testing.T) {
	c := connect(t)
	for _, v := range uuidVectors {
		t.Run(v.source, func(t *testing.T) {
			uuid := "'" + v.uuid + "'::uuid"
			if v.created == "" {
				wantEqual(t, c, "uuidv7_timestamp("+uuid+")", "NULL")
				wantEqual(t, c, "uuidv7_parse("+uuid+")", "ROW(NULL, NULL, NULL)")
				return
			}
			created := "'" + v.created + "'::timestamptz"
			wantEqual(t, c, "uuidv7_timestamp("+uuid+")", created)
			wantEqual(t, c, "uuidv7_parse("+uuid+")", fmt.Sprintf("ROW(%s, %d, %d)", created, v.randA, v.randB))
			wantEqual(t, c, fmt.Sprintf("%s BETWEEN uuidv7_min(%s) AND uuidv7_max(%s)", uuid, created, created), "true")
			wantEqual(t, c, "uuidv7_min("+created+")", "overlay("+uuid+"::text placing '000-8000-000000000000' from 16)")
			wantEqual(t, c, "uuidv7_max("+created+")", "overlay("+uuid+"::text placing 'fff-bfff-ffffffffffff' from 16)")
			if backend.Major() >= 18 {
				wantEqual(t, c, "uuidv7_timestamp("+uuid+")", "uuid_extract_timestamp("+uuid+")")
			}
		})
	}
}

// Failures that others met, by the report, with the right outcome.
func TestReportedCases(t *testing.T) {
	c := connect(t)
	equal := func(t *testing.T, expression, want string) { t.Helper(); wantEqual(t, c, expression, want) }
	for _, report := range []struct {
		source string
		check  func(t *testing.T)
	}{
		{"apache/shardingsphere PR#38932: the epoch in a local zone", func(t *testing.T) {
			exec(t, c, "SET TimeZone = 'Asia/Shanghai'")
			equal(t, "snowflake_parse(0)", "ROW('2026-01-01T00:00:00Z'::timestamptz, 0, 0)")
			equal(t, "snowflake_timestamp(0)", "'2026-01-01 08:00:00+08'::text")
			exec(t, c, "RESET TimeZone")
		}},
		{"Meituan-Dianping/Leaf#106, baidu/uid-generator#100: time used up, ids negative", func(t *testing.T) {
			equal(t, "snowflake_compose('2095-09-07 15:47:35.551Z', 1023, 4095)", "9223372036854775807")
			equal(t, "snowflake_compose('2095-09-07 15:47:35.551999Z', 0, 0)", "9223372036850581504")
			wantError(t, tryExec(t, c, "SELECT snowflake_compose('2095-09-07 15:47:35.552Z', 0, 0)"), "22008", "created_at")
			equal(t, "snowflake_min_id('2095-09-07 15:47:35.552Z')", "9223372036854775807")
			equal(t, "snowflake_max_id('2095-09-07 15:47:35.552Z')", "9223372036854775807")
		}},
		{"baidu/uid-generator PR#52: a worker that does not fit spills into the time", func(t *testing.T) {
			equal(t, "snowflake_compose('2026-01-01 00:00:01.001Z', 1, 0)", "4198502400")
			wantError(t, tryExec(t, c, "SELECT snowflake_compose('2026-01-01 00:00:01Z', 1025, 0)"), "22023", "worker_id", "0 and 1023")
			wantError(t, tryExec(t, c, "SELECT snowflake_compose('2026-01-01 00:00:01Z', 462146, 0)"), "22023", "worker_id")
		}},
		{"bwmarrin/snowflake#29, apache/shardingsphere#10732: one id a millisecond is even", func(t *testing.T) {
			exec(t, c, `CREATE TABLE slow (id bigint);
				DO $$ BEGIN FOR i IN 1 .. 100 LOOP INSERT INTO slow VALUES (snowflake_next()); PERFORM pg_sleep(0.002); END LOOP; END $$`)
			equal(t, "(SELECT count(*) FROM slow WHERE snowflake_sequence(id) = 0 AND id % 4096 = 0)", "100")
		}},
		{"fboulnois/pg_uuidv7#10, gofrs/uuid#254: a counter that wraps", func(t *testing.T) {
			exec(t, c, "CREATE TABLE u AS SELECT n, public.uuidv7() AS u FROM generate_series(1, 100000) n")
			wantNone(t, c, "rising", "(SELECT u, lag(u) OVER (ORDER BY n) AS before FROM u) x WHERE u <= before")
			wantNone(t, c, "version and variant", "u WHERE u::text !~ '^.{14}7.{4}[89ab]'")
			equal(t, "(SELECT count(DISTINCT right(u::text, 15)) FROM u)", "100000")
		}},
		{"aws/pg_tle PR#242, timescale/timescaledb#8875: milliseconds rounded up", func(t *testing.T) {
			// The work beside each call keeps it slower than 245 ns, the pace at which UUIDs would run ahead of the clock.
			wantNone(t, c, "between the clock before and after", `(SELECT clock_timestamp() AS before, public.uuidv7() AS u,
					clock_timestamp() AS after, md5(repeat('x', 500 + n % 7)) FROM generate_series(1, 100000) n OFFSET 0) x
				WHERE uuidv7_timestamp(u) < date_trunc('milliseconds', before) OR uuidv7_timestamp(u) > after`)
			equal(t, "uuidv7_timestamp(uuidv7_min('2026-01-01 00:00:00.123999Z'))", "'2026-01-01 00:00:00.123Z'::timestamptz")
		}},
		{"vectordotdev/vrl#1955", func(t *testing.T) {
			equal(t, "left(uuidv7_min('2026-01-01T00:00:00.123456789Z')::text, 15)", "'019b76da-a87b-7'::text")
			equal(t, "left(uuidv7_max('2026-01-01T00:00:00.123456789Z')::text, 15)", "'019b76da-a87b-7'::text")
		}},
		{"langgenius/dify#27633, #36907: two functions named uuidv7", func(t *testing.T) {
			exec(t, c, "CREATE TABLE accounts (id uuid DEFAULT public.uuidv7()); SET search_path = ''") // as pg_dump sees it
			equal(t, "(SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'public.accounts'::regclass)", "'public.uuidv7()'::text")
			exec(t, c, "RESET search_path; COMMENT ON FUNCTION public.uuidv7() IS 'mine'; INSERT INTO accounts DEFAULT VALUES")
			want := "'public'::name"
			if backend.Major() >= 18 {
				want = "'pg_catalog'::name"
			}
			equal(t, "(SELECT pronamespace::regnamespace::name FROM pg_proc WHERE oid = 'uuidv7()'::regprocedure)", want)
		}},
		{"mareek/UUIDNext#2, JasperFx/marten#579: version 7 in SQL Server", func(t *testing.T) {
			made := `(VALUES (1, '01855978-effc-758f-8fc1-6b755429799c'::uuid), (2, '01855978-f00f-74c2-a6f0-8e8c5445ec9a'),
				(3, '01855978-f019-7104-bab4-79f068bc8150')) x (n, u)`
			equal(t, "(SELECT array_agg(n ORDER BY "+sqlServerKey("u")+") FROM "+made+")", "'{1,3,2}'::int[]")
			equal(t, "(SELECT array_agg(n ORDER BY "+sqlServerKey("uuid_to_sqlserver(u)")+") FROM "+made+")", "'{1,2,3}'::int[]")
		}},
		{"phatboyg/NewId PR#18, #24: 512 at once, and bytes swapped on the way back", func(t *testing.T) {
			exec(t, c, "CREATE TABLE g AS SELECT n, sequential_uuid('end') AS u FROM generate_series(1, 512) n")
			wantNone(t, c, "rising in SQL Server", "(SELECT k, lag(k) OVER (ORDER BY n) AS before FROM (SELECT n, "+sqlServerKey("u")+
				" AS k FROM g) y) x WHERE k <= before")
			wantNone(t, c, "identical after conversion", `g WHERE uuid_from_sqlserver(uuid_to_sqlserver(u)) <> u OR u::text::uuid <> u
				OR encode(uuid_send(u), 'hex')::uuid <> u`)
			equal(t, "uuid_from_sqlserver(uuid_to_sqlserver('9bfb0100-0001-0203-0405-060708090a0b'))", "'9bfb0100-0001-0203-0405-060708090a0b'::uuid")
			equal(t, "uuid_to_sqlserver('00010203-0405-0607-0809-0a0b0c0d0e0f')", "'0f0e0d0c-0b0a-0908-0607-000102030405'::uuid")
		}},
		{"bwmarrin/snowflake#42: numbers past int64", func(t *testing.T) {
			wantError(t, tryExec(t, c, "SELECT snowflake_parse(-1)"), "22023", "-1")
			for _, text := range []string{"9223372036854775808", "18446744073709551617", "-9223372036854775809"} {
				wantError(t, tryExec(t, c, "SELECT '"+text+"'::snowflake"), "22003")
				wantError(t, tryExec(t, c, "SELECT snowflake_parse('"+text+"')"), "22003")
			}
			equal(t, "snowflake_parse('9223372036854775807')", "ROW('2095-09-07 15:47:35.551Z'::timestamptz, 1023, 4095)")
			equal(t, "snowflake_parse(0)", "ROW('2026-01-01Z'::timestamptz, 0, 0)")
		}},
		{"sapphiredev/utilities#521: the wrong epoch", func(t *testing.T) {
			equal(t, "snowflake_parse(1593572310593806338)", "ROW('2038-01-15 10:07:25.987Z'::timestamptz, 378, 2)")
			equal(t, "snowflake_timestamp(1593572310593806338, to_timestamp(1288834974.657))", "'2022-11-18 11:50:20.644Z'::timestamptz")
		}},
		{"PostgREST/postgrest#498, hyperf/hyperf#6671: digits lost in JSON", func(t *testing.T) {
			equal(t, "to_jsonb(636507967185264641::bigint)", "'636507967185264641'::text")
			equal(t, "to_jsonb(636507967185264641::bigint::snowflake)", `'"636507967185264641"'::text`)
			equal(t, "to_json('636507967185264641'::snowflake)", `'"636507967185264641"'::text`)
			equal(t, "snowflake_timestamp((2 ^ 53)::bigint)", "'2026-01-25 20:31:23.648Z'::timestamptz")
		}},
		{"ClickHouse/ClickHouse#42966: microseconds taken for milliseconds", func(t *testing.T) {
			for _, bound := range []string{"min", "max"} {
				equal(t, "snowflake_timestamp(snowflake_"+bound+"_id('2026-09-24 13:40:06.308513Z'))", "'2026-09-24 13:40:06.308Z'::timestamptz")
			}
			equal(t, "snowflake_timestamp(snowflake_compose('2026-09-24 13:40:06.308999Z', 0, 0))", "'2026-09-24 13:40:06.308Z'::timestamptz")
		}},
	} {
		t.Run(report.source, report.check)
	}
}

// bytesInOrder is an expression for the bytes of a uuid in the order given, as bytea, which compares byte by byte.
func bytesInOrder(uuid string, places ...int) string {
	parts := make([]string, len(places))
	for i, place := range places {
		parts[i] = fmt.Sprintf("substring(b from %d for 1)", place+1)
	}
	return fmt.Sprintf("(SELECT %s FROM uuid_send(%s) b)", strings.Join(parts, " || "), uuid)
}

// sqlServerKey orders uuids as SQL Server does: text bytes 10-15, 8-9, 7 down to 0.
func sqlServerKey(uuid string) string {
	return bytesInOrder(uuid, 10, 11, 12, 13, 14, 15, 8, 9, 7, 6, 5, 4, 3, 2, 1, 0)
}

// netKey orders uuids as the bytes of .NET's Guid.ToByteArray(): the first three groups little-endian.
func netKey(uuid string) string {
	return bytesInOrder(uuid, 3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15)
}

// Bounds saturate, so that a range is always right; the rest says what is out of range, with the limits.
func TestEndsOfTime(t *testing.T) {
	c := connect(t)
	const first, last = "0", "9223372036854775807"
	for ts, bounds := range map[string][2]string{
		"-infinity":                     {first, "-1"},
		"4713-01-01 BC":                 {first, "-1"},
		"0001-01-01Z":                   {first, "-1"},
		"1969-12-31 23:59:59.999999Z":   {first, "-1"},
		"2025-12-31 23:59:59.999999Z":   {first, "-1"},
		"2026-01-01Z":                   {first, "4194303"},
		"2026-01-01 00:00:00.000999Z":   {first, "4194303"},
		"2026-01-01 00:00:00.001Z":      {"4194304", "8388607"},
		"2095-09-07 15:47:35.551Z":      {"9223372036850581504", last},
		"2095-09-07 15:47:35.551999Z":   {"9223372036850581504", last},
		"2095-09-07 15:47:35.552Z":      {last, last},
		"10890-01-01Z":                  {last, last},
		"294276-12-31 23:59:59.999999Z": {last, last},
		"infinity":                      {last, last},
	} {
		for _, epoch := range []string{"", ", '2026-01-01Z'"} {
			wantEqual(t, c, fmt.Sprintf("snowflake_min_id('%s'%s)", ts, epoch), bounds[0])
			wantEqual(t, c, fmt.Sprintf("snowflake_max_id('%s'%s)", ts, epoch), bounds[1])
		}
	}
	for _, ts := range []string{"-infinity", "0001-01-01Z", "1969-12-31 23:59:59.999999Z", "2025-12-31 23:59:59.999999Z",
		"2095-09-07 15:47:35.552Z", "10890-01-01Z", "294276-12-31 23:59:59.999999Z", "infinity"} {
		for _, epoch := range []string{"", ", '2026-01-01Z'"} {
			err := tryExec(t, c, fmt.Sprintf("SELECT snowflake_compose('%s', 0, 0%s)", ts, epoch))
			wantError(t, err, "22008", "created_at is out of range", "2199023255552 milliseconds", "2026-01-01")
		}
	}
	for _, ts := range []string{"-infinity", "0001-01-01Z", "1969-12-31 23:59:59.999999Z", "10889-08-02 05:31:50.656Z", "10890-01-01Z",
		"294276-12-31 23:59:59.999999Z", "infinity"} {
		for _, bound := range []string{"min", "max"} {
			err := tryExec(t, c, fmt.Sprintf("SELECT uuidv7_%s('%s')", bound, ts))
			wantError(t, err, "22008", "timestamp out of range for UUID version 7")
		}
	}
	for ts, bounds := range map[string][2]string{
		"1970-01-01Z":                  {"00000000-0000-7000-8000-000000000000", "00000000-0000-7fff-bfff-ffffffffffff"},
		"1970-01-01 00:00:00.001999Z":  {"00000000-0001-7000-8000-000000000000", "00000000-0001-7fff-bfff-ffffffffffff"},
		"10889-08-02 05:31:50.655999Z": {"ffffffff-ffff-7000-8000-000000000000", "ffffffff-ffff-7fff-bfff-ffffffffffff"},
	} {
		wantEqual(t, c, "uuidv7_min('"+ts+"')", "'"+bounds[0]+"'::uuid")
		wantEqual(t, c, "uuidv7_max('"+ts+"')", "'"+bounds[1]+"'::uuid")
	}
	// An epoch that is no point in time, and times that timestamptz cannot hold.
	for _, call := range []string{"snowflake_parse(5, 'infinity')", "snowflake_timestamp(5, '-infinity')",
		"snowflake_parse(9223372036854775807, '294246-12-31Z')", "snowflake_min_id('2026-01-01Z', 'infinity')",
		"snowflake_max_id('2026-01-01Z', '-infinity')", "snowflake_compose('2026-01-01Z', 0, 0, 'infinity')",
		"snowflake_compose('2026-01-01Z', 0, 0, '-infinity')", "snowflake_between(5, now(), now(), 'infinity')"} {
		wantError(t, tryExec(t, c, "SELECT "+call), "22008", "timestamp out of range", "The epoch")
	}
	// Other epochs, before 1970 and in the far past and future.
	for _, epoch := range []string{"4714-11-24 00:00:00+00 BC", "0001-01-01Z", "1969-12-31 23:59:59.999Z", "10890-01-01Z", "294000-01-01Z"} {
		wantEqual(t, c, fmt.Sprintf("snowflake_parse(17179910151, '%s')", epoch), fmt.Sprintf("ROW('%s'::timestamptz + '4.096 s', 10, 7)", epoch))
		wantEqual(t, c, fmt.Sprintf("snowflake_compose('%s'::timestamptz + '4.096 s', 10, 7, '%[1]s')", epoch), "17179910151")
		wantEqual(t, c, fmt.Sprintf("snowflake_min_id('%s'::timestamptz + '4.096 s', '%[1]s')", epoch), "17179869184")
	}
}

func TestBadInput(t *testing.T) {
	c := connect(t)
	for _, call := range []string{"parse(%d)", "parse(%d, '2026-01-01Z')", "timestamp(%d)", "timestamp(%d, '2026-01-01Z')",
		"worker_id(%d)", "sequence(%d)", "encode(%d)", "parse_as('discord', %d)", "parse_as('mastodon', %d)",
		"parse_as('sonyflake', %d)", "parse_as('twitter', %d)", "parse_as('pgedge', %d)"} {
		for _, id := range []int64{-1, -4194304, -9223372036854775808} {
			err := tryExec(t, c, "SELECT snowflake_"+fmt.Sprintf(strings.ReplaceAll(call, "%d", "'%d'"), id))
			wantError(t, err, "22023", "a negative number is not a snowflake id", fmt.Sprint(id))
		}
	}
	wantEqual(t, c, "snowflake_between(-1, '-infinity', 'infinity')", "false") // a comparison, no decoding
	wantEqual(t, c, "snowflake_between(-1, '-infinity', 'infinity', '2026-01-01Z')", "false")

	for _, bad := range []struct {
		worker, sequence int64
		name, limits     string
	}{
		{-1, 0, "worker_id", "-1 is not between 0 and 1023"}, {1024, 0, "worker_id", "1024 is not between 0 and 1023"},
		{-2147483648, 0, "worker_id", "-2147483648 is not"}, {2147483647, 0, "worker_id", "2147483647 is not"},
		{0, -1, "sequence", "-1 is not between 0 and 4095"}, {0, 4096, "sequence", "4096 is not between 0 and 4095"},
		{1023, 2147483647, "sequence", "2147483647 is not"},
	} {
		for _, epoch := range []string{"", ", '2026-01-01Z'"} {
			err := tryExec(t, c, fmt.Sprintf("SELECT snowflake_compose('2026-06-01Z', %d, %d%s)", bad.worker, bad.sequence, epoch))
			wantError(t, err, "22023", bad.name+" is out of range", bad.limits)
		}
	}

	for _, name := range []string{"", "Twitter", "twitter ", "unknown", "twitter\u00a0", strings.Repeat("x", 10000)} {
		err := tryExec(t, c, "SELECT snowflake_parse_as('"+name+"', 5)")
		wantError(t, err, "22023", "unknown layout", "discord, instagram, mastodon, pgedge, sonyflake, twitter")
	}
	for _, name := range []string{"", "String", "end ", "sqlserver", strings.Repeat("x", 10000)} {
		for _, call := range []string{"sequential_uuid('%s')", "sequential_uuid_timestamp('08da7241-170b-8c8e-8f00-000000000000', '%s')"} {
			wantError(t, tryExec(t, c, "SELECT "+fmt.Sprintf(call, name)), "22023", "unknown ordering", "string, binary, end")
		}
	}

	for _, text := range []string{"", "0", "000000000000", "00000000000000", "000000000000W", "00000000000Ü", "w000000000000", "Z000000000000",
		"0000000000000=", "0000000000000==", "0000000000000====", "000000000000====", " 0000000000000", "0000000000000 ", "-000000000000",
		"+000000000000", "000000000000\t", "0000000000001", "000000000000V", "FVVVVVVVVVVVV", "000000O00000０", "120843629957758976"} {
		wantError(t, tryExec(t, c, "SELECT snowflake_decode('"+text+"')"), "22P02", "invalid text form of a snowflake id", "13 characters", text)
	}
	for _, text := range []string{"G000000000000", "VVVVVVVVVVVVU", "g000000000000===", "VVVVVVVVVVVVU==="} {
		wantError(t, tryExec(t, c, "SELECT snowflake_decode('"+text+"')"), "22003", "FVVVVVVVVVVVU", text)
	}
	for text, id := range map[string]string{"0000000000000": "0", "0000000000002": "1", "FVVVVVVVVVVVU": "9223372036854775807",
		"fvvvvvvvvvvvu": "9223372036854775807", "FvVvVvVvVvVvU===": "9223372036854775807"} {
		wantEqual(t, c, "snowflake_decode('"+text+"')", id)
	}

	for _, worker := range []string{"-1", "1024"} {
		wantError(t, tryExec(t, c, "SELECT snowflake_worker_times("+worker+")"), "22023", "0 to 1023")
	}
}

// Of all versions and variants, each function reads its own.
func TestVersionsAndVariants(t *testing.T) {
	c := connect(t)
	all := func(sample string, versionAt int) string {
		return fmt.Sprintf(`(SELECT v, w, overlay(overlay('%s' placing to_hex(v) from %d) placing to_hex(w) from 20)::uuid AS u
			FROM generate_series(0, 15) v, generate_series(0, 15) w) x WHERE `, sample, versionAt)
	}
	v7 := all("019535d9-3df7-79fb-b466-fa907fa17f9e", 15)
	wantNone(t, c, "uuidv7_timestamp", v7+"(uuidv7_timestamp(u) IS NOT NULL) <> (v = 7 AND w BETWEEN 8 AND 11)")
	wantNone(t, c, "uuidv7_parse", v7+"(uuidv7_parse(u) IS NOT NULL) <> (v = 7 AND w BETWEEN 8 AND 11)")
	for ordering, sample := range map[string]struct {
		uuid, old string
		versionAt int
	}{
		"string": {"08da7241-170b-8c8e-8fd0-d1d2d3d4d5d6", "08da7241-170b-4c8e-8f00-000000000000", 15},
		"binary": {"4172da08-0b17-8e8c-8fd0-d1d2d3d4d5d6", "4172da08-0b17-8e4c-8f00-000000000000", 17},
		"end":    {"d1d2d3d4-d5d6-80f0-8c8e-08da7241170b", "00000000-0000-40f0-8c8e-08da7241170b", 15},
	} {
		wantNone(t, c, ordering, all(sample.uuid, sample.versionAt)+
			"(sequential_uuid_timestamp(u, '"+ordering+"') IS NOT NULL) <> (v IN (4, 8) AND w = 8)")
		for _, uuid := range []string{sample.uuid, sample.old} {
			wantEqual(t, c, "sequential_uuid_timestamp('"+uuid+"', '"+ordering+"')", "'2022-07-30 15:35:11.14355Z'::timestamptz")
		}
	}
	wantEqual(t, c, "sequential_uuid_timestamp('08da7241-170b-8c8e-8fd0-d1d2d3d4d5d6')", "'2022-07-30 15:35:11.14355Z'::timestamptz")
	for _, uuid := range []string{"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
		"550e8400-e29b-41d4-a716-446655440000", "c232ab00-9414-11ec-b3c8-9f6bdeced846", "ffffffff-ffff-4fff-8f00-000000000000"} {
		wantEqual(t, c, "sequential_uuid_timestamp('"+uuid+"')", "NULL")
	}
}

// randomIDs are n ids over all of their range, also near its ends.
func randomIDs(n int) string {
	return fmt.Sprintf(`(SELECT CASE n %% 8 WHEN 0 THEN n / 8 WHEN 1 THEN 9223372036854775807 - n / 8
			WHEN 2 THEN (random() * 4194304 * 4)::bigint ELSE (random() * 2199023255551)::bigint << 22 | (random() * 4194303)::bigint END AS id, n
		FROM generate_series(1, %d) n OFFSET 0) r`, n)
}

func TestPropertiesOfIDs(t *testing.T) {
	c := connect(t)
	exec(t, c, "SELECT setseed(0.25)")
	random := randomIDs(100_000)
	wantNone(t, c, "compose(parse(id)) = id", random+`, snowflake_parse(id) p, snowflake_parse(id, '1966-07-30Z') q
		WHERE snowflake_compose(p.created_at, p.worker_id, p.sequence) <> id
		OR snowflake_compose(q.created_at, q.worker_id, q.sequence, '1966-07-30Z') <> id
		OR p.created_at <> snowflake_timestamp(id) OR q.created_at <> snowflake_timestamp(id, '1966-07-30Z')
		OR p.worker_id <> snowflake_worker_id(id) OR p.sequence <> snowflake_sequence(id)`)
	wantNone(t, c, "parse(compose(x)) = x", `(SELECT n, '2026-01-01Z'::timestamptz + (random() * 2199023255551)::bigint * '1 ms'::interval AS at,
			(random() * 1023)::int AS w, (random() * 4095)::int AS s FROM generate_series(1, 100000) n OFFSET 0) r,
			snowflake_parse(snowflake_compose(at, w, s)) p, snowflake_parse(snowflake_compose(at, w, s, '2026-01-01Z'), '2026-01-01Z') q
		WHERE ROW(p.*) IS DISTINCT FROM ROW(at, w, s) OR ROW(q.*) IS DISTINCT FROM ROW(at, w, s)`)
	for _, epoch := range []string{"", ", '1966-07-30Z'"} {
		// Times within two milliseconds of the id's, so that both answers occur.
		in := fmt.Sprintf("(id >= snowflake_min_id(ts%[1]s) AND id <= snowflake_max_id(ts%[1]s))", epoch)
		own := fmt.Sprintf("(date_trunc('milliseconds', ts) = snowflake_timestamp(id%s))", epoch)
		near := fmt.Sprintf(`(SELECT id, snowflake_timestamp(id%s) + (random() * 4000 - 2000)::int * '1 us'::interval AS ts FROM %s OFFSET 0) x`,
			epoch, random)
		wantNone(t, c, "min_id(t) <= id <= max_id(t) when and only when id carries t's millisecond"+epoch, near+" WHERE "+in+" <> "+own)
		for _, answer := range []string{"", "NOT "} {
			if n := one[int](t, c, "SELECT count(*) FROM "+near+" WHERE "+answer+own); n < 20_000 {
				t.Errorf("only %d of 100000 times are what this test wants: %s%s", n, answer, own)
			}
		}
		wantNone(t, c, "between is from min_id to min_id"+epoch, near+fmt.Sprintf(` WHERE snowflake_between(id, ts, ts + '1 ms'%[1]s)
			<> (id BETWEEN snowflake_min_id(ts%[1]s) AND snowflake_max_id(ts%[1]s)) AND ts + '1 ms' < '2095-09-07Z'`, epoch))
	}
}

func TestPropertiesOfText(t *testing.T) {
	c := connect(t)
	exec(t, c, "SELECT setseed(0.5)")
	random := randomIDs(100_000)
	wantNone(t, c, "decode(encode(id)) = id", random+` WHERE snowflake_decode(snowflake_encode(id)) <> id
		OR snowflake_decode(lower(snowflake_encode(id)) || '===') <> id OR snowflake_encode(id) !~ '^[0-9A-V]{13}$'`)
	wantNone(t, c, "texts sort as ids", `(SELECT rank() OVER (ORDER BY id) AS a, rank() OVER (ORDER BY snowflake_encode(id) COLLATE "C") AS b
		FROM `+random+`) x WHERE a <> b`)
	// RFC 4648 section 7, from the bits: 64 of the number and one of padding, five to a character.
	wantNone(t, c, "base32hex", randomIDs(5000)+` WHERE snowflake_encode(id) <> (SELECT string_agg(substr('0123456789ABCDEFGHIJKLMNOPQRSTUV',
		substring(id::bit(64) || B'0' from 5 * i + 1 for 5)::int + 1, 1), '' ORDER BY i) FROM generate_series(0, 12) i)`)
	if backend.Major() >= 19 {
		wantNone(t, c, "PostgreSQL's base32hex", random+" WHERE snowflake_encode(id) <> rtrim(encode(int8send(id), 'base32hex'), '=')")
	}
}

func TestPropertiesOfUUIDs(t *testing.T) {
	c := connect(t)
	exec(t, c, "SELECT setseed(0.75)")
	wantNone(t, c, "to SQL Server and back", `(SELECT gen_random_uuid() AS u FROM generate_series(1, 1000000) OFFSET 0) r
		WHERE uuid_from_sqlserver(uuid_to_sqlserver(u)) <> u`)
	wantNone(t, c, "from SQL Server and back", `(SELECT gen_random_uuid() AS u FROM generate_series(1, 100000) OFFSET 0) r
		WHERE uuid_to_sqlserver(uuid_from_sqlserver(u)) <> u`)
	wantNone(t, c, "SQL Server's order is PostgreSQL's", `(SELECT rank() OVER (ORDER BY u) AS a, rank() OVER (ORDER BY `+
		sqlServerKey("uuid_to_sqlserver(u)")+`) AS b FROM (SELECT (left(gen_random_uuid()::text, n % 36) ||
			right('00000000-0000-0000-0000-000000000000', 36 - n % 36))::uuid AS u FROM generate_series(1, 10000) n OFFSET 0) r) x WHERE a <> b`)
	wantNone(t, c, "uuidv7_min(t) <= u <= uuidv7_max(t) when and only when u carries t's millisecond", `(SELECT u,
			uuidv7_timestamp(u) + (random() * 4000 - 2000)::int * '1 us'::interval AS ts
			FROM (SELECT overlay(gen_random_uuid()::text placing '7' from 15)::uuid AS u FROM generate_series(1, 100000) OFFSET 0) r OFFSET 0) x
		WHERE ts > '1970-01-01Z' AND (u >= uuidv7_min(ts) AND u <= uuidv7_max(ts)) <> (date_trunc('milliseconds', ts) = uuidv7_timestamp(u))`)
	wantNone(t, c, "the parts of a UUID make the UUID", `(SELECT overlay(gen_random_uuid()::text placing '7' from 15)::uuid AS u
			FROM generate_series(1, 100000) OFFSET 0) r, uuidv7_parse(u) p
		WHERE created_at <> uuidv7_timestamp(u) OR rand_a::bit(12) <> ('x' || substr(u::text, 16, 3))::bit(12)
		OR B'10' || rand_b::bit(62) <> ('x' || substr(replace(u::text, '-', ''), 17))::bit(64)`)
}

// Ten thousand of each ordering, sorted as that database sorts, are in the order of their creation.
func TestOrderOfSequentialUUIDs(t *testing.T) {
	c := connect(t)
	for ordering, keys := range map[string][]string{
		"string": {"u", `u::text COLLATE "C"`, "uuid_send(u)"},
		"binary": {netKey("u")},
		"end":    {sqlServerKey("u")},
	} {
		exec(t, c, fmt.Sprintf(`CREATE TABLE "%s" AS SELECT n, clock_timestamp() AS before, sequential_uuid('%[1]s') AS u, clock_timestamp() AS after
			FROM generate_series(1, 10000) n`, ordering))
		for _, key := range keys {
			wantNone(t, c, ordering+" by "+key, fmt.Sprintf(`(SELECT n, row_number() OVER (ORDER BY %s) AS place FROM "%s") x WHERE n <> place`, key, ordering))
		}
		// A call takes more than a tick, so the time is the clock's, floored to the microsecond as both others are.
		wantNone(t, c, "time of "+ordering, fmt.Sprintf(`"%s" WHERE sequential_uuid_timestamp(u, '%[1]s') NOT BETWEEN before AND after`, ordering))
	}
	wantEqual(t, c, `(SELECT count(*) FROM "string" WHERE sequential_uuid_timestamp(u) IS NULL)`, "0")
	wantEqual(t, c, "substr(sequential_uuid()::text, 15, 1)", "'8'::text")

	// A session that mixes orderings, each still rising.
	exec(t, c, `CREATE TABLE mixed AS SELECT n, sequential_uuid((ARRAY['string', 'binary', 'end'])[1 + n % 3]) AS u FROM generate_series(1, 3000) n`)
	for i, key := range []string{"u", netKey("u"), sqlServerKey("u")} {
		wantNone(t, c, "mixed by "+key, fmt.Sprintf(`(SELECT k, lag(k) OVER (ORDER BY n) AS before FROM (SELECT n, %s AS k FROM mixed WHERE n %% 3 = %d) y) x
			WHERE k <= before`, key, i))
	}
}

// What a function returns, bit by bit, is the same under any TimeZone, DateStyle and the like, and for an immutable
// function under any epoch.
func TestSettingsChangeNoResult(t *testing.T) {
	c := connect(t)
	results := func(marks string) string {
		var calls []string
		for _, f := range contract {
			if strings.HasPrefix(f.marks, marks) {
				calls = append(calls, f.call("public", nil))
			}
		}
		// The simple protocol, because a plan that is kept would hold the results of immutable functions.
		return one[string](t, c, "SELECT encode(record_send(ROW("+strings.Join(calls, ", ")+")), 'hex')", pgx.QueryExecModeSimpleProtocol)
	}
	const many = `SELECT md5(string_agg(record_send(ROW(snowflake_parse(id), snowflake_parse(id, '2026-01-01Z'),
			snowflake_compose('2026-01-01Z'::timestamptz + n * '1 h'::interval, 1, 1), snowflake_min_id('2026-01-01Z'::timestamptz + n * '1 h'::interval),
			uuidv7_min('2026-01-01Z'::timestamptz + n * '1 h'::interval), snowflake_parse_as('twitter', id))), '' ORDER BY n))
		FROM (SELECT n, n * 922337203685477::bigint AS id FROM generate_series(1, 10000) n) x`
	immutable, stable, random := results("immutable"), results("stable"), one[string](t, c, many, pgx.QueryExecModeSimpleProtocol)
	for _, zone := range []string{"UTC", "Asia/Shanghai", "America/New_York", "Asia/Kathmandu", "Pacific/Apia", "Europe/Berlin", "Africa/Monrovia",
		"<+14:59>-14:59"} {
		for _, style := range []string{"ISO, MDY", "ISO, DMY", "SQL, DMY", "German, YMD", "Postgres, MDY"} {
			exec(t, c, fmt.Sprintf("SET TimeZone = '%s'; SET DateStyle = '%s'; SET IntervalStyle = iso_8601; SET bytea_output = escape", zone, style))
			if results("immutable") != immutable || results("stable") != stable {
				t.Errorf("results differ with TimeZone %s and DateStyle %s", zone, style)
			}
		}
		if one[string](t, c, many, pgx.QueryExecModeSimpleProtocol) != random {
			t.Errorf("results over many inputs differ with TimeZone %s", zone)
		}
	}
	exec(t, c, "SET snowflake.epoch = '2020-01-01'; SET snowflake.worker_id = 7; SET snowflake.clock_tolerance = 0")
	if results("immutable") != immutable {
		t.Error("an immutable function obeys a setting")
	}
	if results("stable") == stable {
		t.Error("no stable function obeys snowflake.epoch: is this test blind?")
	}
}

func TestShiftedUUIDs(t *testing.T) {
	c := connect(t)
	for _, shift := range []string{"-1000 years", "9000 years", "-60 years", "-600000 hours"} {
		wantError(t, tryExec(t, c, "SELECT public.uuidv7('"+shift+"')"), "22008", "timestamp out of range for UUID version 7")
	}
	wantError(t, tryExec(t, c, "SELECT public.uuidv7('1000000 years')"), "22008", "timestamp out of range")
	wantError(t, tryExec(t, c, "SELECT public.uuidv7('-1000000 years')"), "22008", "timestamp out of range")
	if backend.Major() >= 17 {
		for _, shift := range []string{"infinity", "-infinity"} {
			wantError(t, tryExec(t, c, "SELECT public.uuidv7('"+shift+"')"), "22008", "interval out of range for UUID version 7")
		}
	}
	// As PostgreSQL's own test: no year from 1970 to 10888 falls behind the one before, and versions are right.
	wantNone(t, c, "years rise", `(SELECT y, u, lag(u) OVER (ORDER BY y) AS before FROM (SELECT y, public.uuidv7(make_interval(years =>
			y - extract(year FROM now())::int)) AS u FROM generate_series(1971, 10888) y OFFSET 0) a) x
		WHERE u <= before OR u::text !~ '^.{14}7.{4}[89ab]' OR extract(year FROM uuidv7_timestamp(u)) <> y`)
	wantNone(t, c, "a shift keeps the rest", `(SELECT public.uuidv7('0') AS a, public.uuidv7() AS b FROM generate_series(1, 10000) OFFSET 0) x WHERE b <= a`)

	// Days are days of the session's zone, so over a change of the clocks they are not 24 hours.
	exec(t, c, "SET TimeZone = 'America/New_York'")
	const shifted = `(SELECT n, i, clock_timestamp() + i AS before, public.uuidv7(i) AS u, clock_timestamp() + i AS after
		FROM generate_series(-400, 400) n, LATERAL (VALUES (n * '1 day'::interval), (n * '24 hours'::interval), (n * '1 month'::interval)) v (i) OFFSET 0) x`
	wantNone(t, c, "shifts in New York", shifted+` WHERE uuidv7_timestamp(u) NOT BETWEEN date_trunc('milliseconds', before) AND after`)
	if n := one[int](t, c, `SELECT count(DISTINCT round(extract(epoch FROM uuidv7_timestamp(public.uuidv7(n * '1 day'::interval))
			- uuidv7_timestamp(public.uuidv7(n * '24 hours'::interval))))) FROM generate_series(0, 364) n`); n != 2 {
		t.Errorf("days and 24 hours differ in %d ways over a year in New York, not 2", n)
	}
	if version := one[int](t, c, "SELECT current_setting('server_version_num')::int"); version >= 180006 {
		for _, shift := range []string{"infinity", "-infinity", "-1000 years", "9000 years", "1000000 years"} {
			ours, own := sqlError(tryExec(t, c, "SELECT public.uuidv7('"+shift+"')")), sqlError(tryExec(t, c, "SELECT pg_catalog.uuidv7('"+shift+"')"))
			if ours.Code != own.Code || ours.Message != own.Message {
				t.Errorf("%s: %s %s; the built-in says %s %s", shift, ours.Code, ours.Message, own.Code, own.Message)
			}
		}
		wantNone(t, c, "shifts as the built-in's", `(SELECT n, public.uuidv7(i) AS a, pg_catalog.uuidv7(i) AS b, public.uuidv7(i) AS c
				FROM generate_series(-400, 400) n, LATERAL (VALUES (n * '1 day'::interval), (n * '24 hours'::interval), (n * '1 month'::interval)) v (i) OFFSET 0) x
			WHERE uuidv7_timestamp(b) NOT BETWEEN uuidv7_timestamp(a) - '1 ms'::interval AND uuidv7_timestamp(c) + '1 ms'::interval`)
	}
}
