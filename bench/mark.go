package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// million is how many ids a database makes in a round.
const million = 1_000_000

// markRounds is how often the two builds take turns.
const markRounds = 41

var howMark = fmt.Sprintf("One million calls of `snowflake_next()` in one statement, with this build and with the same "+
	"build that neither keeps nor asks for the durable mark (test/variants/nomark.patch), %d rounds in turn in two "+
	"sessions. The mark is moved, and flushed, about twice a second.", markRounds)

// measureMark times a million ids with and without the durable mark, in turn.
func measureMark(ctx context.Context, b *bench) (string, error) {
	with, without := b.newDatabase(), b.newDatabase()
	b.mustExec(without, `UPDATE pg_proc SET probin = '$libdir/snowflake-variants/nomark/snowflake'
		WHERE probin = '$libdir/snowflake'`)
	without = b.node.Connect(&b.main, without.Config().Database) // this session has loaded the other build
	var seconds [2][]float64
	var ratios []float64
	for round := range markRounds + 1 {
		var times [2]float64
		for i, conn := range []*pgx.Conn{with, without} {
			var err error
			if times[i], err = timeOf(ctx, conn, "SELECT count(snowflake_next()) FROM generate_series(1, $1::int)", million); err != nil {
				return "", err
			}
		}
		if round == 0 { // warms up
			continue
		}
		seconds[0], seconds[1] = append(seconds[0], times[0]), append(seconds[1], times[1])
		ratios = append(ratios, times[0]/times[1])
	}
	out := "| build | seconds, median | lowest to highest |\n|---|---:|---:|\n"
	for i, name := range []string{"with the mark", "without"} {
		low, median, high := spread(seconds[i])
		out += fmt.Sprintf("| %s | %.3f | %.3f to %.3f |\n", name, median, low, high)
	}
	low, ratio, high := spread(ratios)
	return out + fmt.Sprintf("\nRatio: %.3f in the median, %.3f to %.3f.\n", ratio, low, high), nil
}

// timeOf runs a statement and returns the seconds it took.
func timeOf(ctx context.Context, conn *pgx.Conn, sql string, args ...any) (float64, error) {
	started := time.Now()
	_, err := conn.Exec(ctx, sql, args...)
	return time.Since(started).Seconds(), err
}
