package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// pasted makes what the calls need: sequences, and the formulas in plain SQL that circulate for servers that have no
// extension, written anew.
const pasted = `
CREATE SEQUENCE bench_sequence;
CREATE SEQUENCE bench_cached CACHE 32;
CREATE SEQUENCE bench_pasted;
CREATE FUNCTION pasted_snowflake() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE ms bigint;
BEGIN
	ms := floor(extract(epoch FROM clock_timestamp()) * 1000);
	RETURN (ms - 1767225600000) << 22 | 1 << 12 | nextval('bench_pasted') % 4096;
END $$;
CREATE FUNCTION pasted_uuidv7() RETURNS uuid LANGUAGE sql AS $$
	SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) PLACING
		substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
		52, 1), 53, 1), 'hex')::uuid
$$;`

// burst is how many calls are timed at once: few enough that one burst of ids never uses up the 4096 of a
// millisecond, so that the call is measured and not the wait for the next one.
const burst = 1500

// call is one line of the table.
type call struct {
	name string
	sql  string // makes a burst
	less string // the line that is taken off
	set  bool   // the burst is of sets of 1000
}

// The lines that others are compared to, or that others are taken off.
const (
	scan     = "the scan alone"
	setScan  = "`generate_series(1, 1000)`, a row"
	nextval  = "`nextval()`"
	next     = "`snowflake_next()`"
	nextSet  = "`snowflake_next(1000)`, an id"
	uuidv7   = "`uuidv7()` of this extension"
	uuid18   = "`uuidv7()` of PostgreSQL 18"
	pgUUIDv7 = "`uuid_generate_v7()` of pg_uuidv7"
	random   = "`gen_random_uuid()`"
)

// setBurst makes its rows by sets of 1000.
const setBurst = 2000

var calls = []call{
	{name: scan, sql: "count(i) FROM generate_series(1, 1500) i"},
	{name: setScan, sql: "count(*) FROM (SELECT generate_series(1, 1000) FROM generate_series(1, 2)) s", set: true},
	{name: nextval, sql: "count(nextval('bench_sequence')) FROM generate_series(1, 1500)", less: scan},
	{name: "`nextval()`, CACHE 32", sql: "count(nextval('bench_cached')) FROM generate_series(1, 1500)", less: scan},
	{name: next, sql: "count(snowflake_next()) FROM generate_series(1, 1500)", less: scan},
	{name: nextSet, sql: "count(*) FROM (SELECT snowflake_next(1000) FROM generate_series(1, 2)) s", less: setScan, set: true},
	{name: uuidv7, sql: "count(public.uuidv7()) FROM generate_series(1, 1500)", less: scan},
	{name: random, sql: "count(gen_random_uuid()) FROM generate_series(1, 1500)", less: scan},
	{name: "a snowflake in PL/pgSQL", sql: "count(pasted_snowflake()) FROM generate_series(1, 1500)", less: scan},
	{name: "a UUIDv7 in SQL", sql: "count(pasted_uuidv7()) FROM generate_series(1, 1500)", less: scan},
	{name: "`snowflake_parse(id)`, a row", sql: "count(snowflake_parse(i)) FROM generate_series(1, 1500) i", less: scan},
	{name: "`snowflake_timestamp(id)`, a row", sql: "count(snowflake_timestamp(i)) FROM generate_series(1, 1500) i", less: scan},
}

func howCalls(b *bench) string {
	return fmt.Sprintf("`SELECT count(f()) FROM generate_series(1, %d)` less the same without the call, in turn with the "+
		"others, the median of %d bursts in a round. The bursts are that short because longer ones would meet the limit of "+
		"the format, 4096 ids a millisecond and worker or 244 ns an id, and measure the wait. `snowflake_next(1000)` is a set "+
		"in the select list, less the same with `generate_series(1, 1000)`: what is left of it are a few "+
		"nanoseconds, and less than the measurement can tell from none.", burst, b.bursts)
}

func measureCalls(ctx context.Context, b *bench) (string, error) {
	conn := b.newDatabase()
	if err := b.compare(ctx, conn, calls, "call/"); err != nil {
		return "", err
	}
	return b.callsTable(calls, "call/"), nil
}

// compare times calls side by side and records the nanoseconds of each, under its name after the prefix. Within a round
// the bursts of all calls take turns, so that whatever else the machine does meets each of them.
func (b *bench) compare(ctx context.Context, conn *pgx.Conn, compared []call, prefix string) error {
	b.mustExec(conn, b.roundFunction(compared, false)+b.roundFunction(compared, true))
	reversed := false
	return inTurn(b.rounds, 1, func(int) ([]float64, error) {
		reversed = !reversed
		return roundOf(ctx, conn, reversed)
	}, func(_ int, seconds []float64) {
		gross := make(map[string]float64)
		for i, c := range compared {
			gross[c.name] = seconds[i] * 1e9 / burst
			if c.set {
				gross[c.name] = seconds[i] * 1e9 / setBurst
			}
			b.record(prefix+c.name, gross[c.name]-gross[c.less])
		}
	})
}

func roundName(reversed bool) string { return fmt.Sprintf("bench_round_%t", reversed) }

// roundOf runs one round and returns the seconds of each call's median burst.
func roundOf(ctx context.Context, conn *pgx.Conn, reversed bool) ([]float64, error) {
	var medians []float64
	err := conn.QueryRow(ctx, "SELECT "+roundName(reversed)+"()").Scan(&medians)
	return medians, err
}

// roundFunction defines a function that makes every call in turn, bursts times, and returns the seconds of the median
// burst of each. The server reads the clock, so that neither the network nor planning is in the times.
func (b *bench) roundFunction(compared []call, reversed bool) string {
	times := make([]string, len(compared))
	body := make([]string, len(compared))
	medians := make([]string, len(compared))
	for i, c := range compared {
		at := i
		if reversed {
			at = len(compared) - 1 - i
		}
		times[i] = fmt.Sprintf("times_%d float8[];", i)
		body[at] = fmt.Sprintf("started := clock_timestamp(); PERFORM %s; "+
			"times_%d := times_%[2]d || extract(epoch FROM clock_timestamp() - started)::float8;", c.sql, i)
		medians[i] = fmt.Sprintf("(SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY t) FROM unnest(times_%d) t)", i)
	}
	return fmt.Sprintf(`CREATE FUNCTION %s() RETURNS float8[] LANGUAGE plpgsql AS $$
DECLARE started timestamptz; %s
BEGIN
FOR n IN 1..%d LOOP
%s
END LOOP;
RETURN ARRAY[%s];
END $$;`, roundName(reversed), strings.Join(times, " "), b.bursts, strings.Join(body, "\n"), strings.Join(medians, ", "))
}

func (b *bench) callsTable(compared []call, prefix string) string {
	var rows [][]string
	for _, c := range compared {
		rows = append(rows, []string{c.name, cell(b.figures[prefix+c.name]), cell(b.ratio(prefix+c.name, prefix+nextval))})
	}
	return table([]string{"call", "ns", "to `nextval()`"}, rows)
}
