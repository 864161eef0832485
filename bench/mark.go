package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

func howMark(b *bench) string {
	return fmt.Sprintf("%d calls of `snowflake_next()` in one statement, with this build and with the same "+
		"build that neither keeps nor asks for the durable mark (test/variants/nomark.patch), %d rounds in turn in two "+
		"sessions. The mark is moved, and flushed, about twice a second.", b.million, b.markRounds)
}

// measureMark times ids with and without the durable mark, in turn.
func measureMark(ctx context.Context, b *bench) (string, error) {
	with, without := b.newDatabase(), b.newDatabase()
	b.mustExec(without, `UPDATE pg_proc SET probin = '$libdir/snowflake-variants/nomark/snowflake'
		WHERE probin = '$libdir/snowflake'`)
	without = b.node.Connect(&b.main, without.Config().Database) // this session has loaded the other build
	builds := []string{"with the mark", "without"}
	err := inTurn(b.markRounds, len(builds), func(i int) (float64, error) {
		return timeOf(ctx, []*pgx.Conn{with, without}[i], "SELECT count(snowflake_next()) FROM generate_series(1, $1::int)", b.million)
	}, func(i int, seconds float64) { b.record("mark/"+builds[i], seconds) })
	if err != nil {
		return "", err
	}
	var rows [][]string
	for _, build := range builds {
		rows = append(rows, []string{build, cell(b.figures["mark/"+build]), cell(b.ratio("mark/"+build, "mark/without"))})
	}
	return table([]string{"build", "seconds", "to the build without"}, rows), nil
}

// timeOf runs a statement and returns the seconds it took.
func timeOf(ctx context.Context, conn *pgx.Conn, sql string, args ...any) (float64, error) {
	started := time.Now()
	_, err := conn.Exec(ctx, sql, args...)
	return time.Since(started).Seconds(), err
}
