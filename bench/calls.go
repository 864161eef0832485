package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// burst is how many calls are timed at once: few enough that one burst of ids never uses up the 4096 of a
// millisecond, so that the call is measured and not the wait for the next one.
const burst = 1500

// bursts is how often each query is timed in a round.
const bursts = 400

// call is one line of the table.
type call struct {
	name  string
	sql   string // makes %d calls
	whole bool   // the statement has no scan that could be taken off
	since int    // the first major that has it
}

// The calls to compare. The first is the scan alone, the second what the others are compared to.
const (
	scan      = 0
	reference = 1
)

var calls = []call{
	{name: "the scan alone", sql: "count(i) FROM generate_series(1, %d) i", whole: true},
	{name: "`nextval()`", sql: "count(nextval('bench_sequence')) FROM generate_series(1, %d)"},
	{name: "`snowflake_next()`", sql: "count(snowflake_next()) FROM generate_series(1, %d)"},
	{name: "`snowflake_next(count)`, each id, with its scan", sql: "count(*) FROM snowflake_next(%d)", whole: true},
	{name: "`uuidv7()` of this extension", sql: "count(public.uuidv7()) FROM generate_series(1, %d)"},
	{name: "`uuidv7()` of the server", sql: "count(pg_catalog.uuidv7()) FROM generate_series(1, %d)", since: 18},
	{name: "`gen_random_uuid()`", sql: "count(gen_random_uuid()) FROM generate_series(1, %d)"},
}

var howCalls = fmt.Sprintf("`SELECT count(f()) FROM generate_series(1, %d)` less the same without the call, in turn "+
	"with the others, the median of %d bursts; of %d such rounds, in which the order turns around from one to the next, "+
	"the table shows the median and the extremes. The bursts are that short because longer ones would meet the limit of "+
	"the format, 4096 ids a millisecond and worker or 244 ns an id, and measure the wait.", burst, bursts, rounds)

// measureCalls times the calls side by side. Within a round the bursts of all calls take turns, so that whatever else
// the machine does meets each of them.
func measureCalls(ctx context.Context, b *bench) (string, error) {
	conn := b.newDatabase()
	var compared []call
	for _, c := range calls {
		if b.backend.Major() >= c.since {
			compared = append(compared, c)
		}
	}
	setup := "CREATE SEQUENCE bench_sequence;" + roundFunction(compared, false) + roundFunction(compared, true)
	if _, err := conn.Exec(ctx, setup, pgx.QueryExecModeSimpleProtocol); err != nil {
		return "", err
	}
	if _, err := roundOf(ctx, conn, false); err != nil { // warms up
		return "", err
	}
	nanos := make([][]float64, len(compared))
	ratios := make([][]float64, len(compared))
	for round := range rounds {
		seconds, err := roundOf(ctx, conn, round%2 == 1)
		if err != nil {
			return "", err
		}
		net := func(i int) float64 {
			if compared[i].whole {
				return seconds[i] * 1e9 / burst
			}
			return (seconds[i] - seconds[scan]) * 1e9 / burst
		}
		for i := range compared {
			nanos[i] = append(nanos[i], net(i))
			ratios[i] = append(ratios[i], net(i)/net(reference))
		}
	}
	return callsTable(compared, nanos, ratios), nil
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
func roundFunction(compared []call, reversed bool) string {
	times := make([]string, len(compared))
	body := make([]string, len(compared))
	medians := make([]string, len(compared))
	for i, c := range compared {
		at := i
		if reversed {
			at = len(compared) - 1 - i
		}
		times[i] = fmt.Sprintf("times_%d float8[];", i)
		body[at] = fmt.Sprintf("started := clock_timestamp(); PERFORM "+c.sql+
			"; times_%d := times_%[2]d || extract(epoch FROM clock_timestamp() - started)::float8;", burst, i)
		medians[i] = fmt.Sprintf("(SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY t) FROM unnest(times_%d) t)", i)
	}
	return fmt.Sprintf(`CREATE FUNCTION %s() RETURNS float8[] LANGUAGE plpgsql AS $$
DECLARE started timestamptz; %s
BEGIN
FOR n IN 1..%d LOOP
%s
END LOOP;
RETURN ARRAY[%s];
END $$;`, roundName(reversed), strings.Join(times, " "), bursts, strings.Join(body, "\n"), strings.Join(medians, ", "))
}

func callsTable(compared []call, nanos, ratios [][]float64) string {
	var out strings.Builder
	out.WriteString("| call | ns, median | lowest to highest | to `nextval()` |\n|---|---:|---:|---:|\n")
	for i, c := range compared {
		low, median, high := spread(nanos[i])
		_, ratio, _ := spread(ratios[i])
		fmt.Fprintf(&out, "| %s | %.0f | %.0f to %.0f | %.2f |\n", c.name, median, low, high, ratio)
	}
	return out.String()
}
