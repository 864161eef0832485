package main

import (
	"context"
	"fmt"
)

// reading is a query over the stored rows.
type reading struct {
	name string
	sql  string
	less string // the reading that is taken off
}

// The readings that figures compare.
const (
	readOnly   = "reading the id alone"
	decoding   = "`snowflake_timestamp(id)`"
	extracting = "`extract(epoch FROM ts)`"
	byID       = "`snowflake_between(id, ...)`"
	byTime     = "`ts >= ... AND ts < ...`"
)

var decodings = []reading{
	{readOnly, "SELECT count(id) FROM stored", ""},
	{decoding, "SELECT count(snowflake_timestamp(id)) FROM stored", readOnly},
	{extracting, "SELECT count(extract(epoch FROM ts)) FROM stored", readOnly},
}

// ranges count a hundredth of the rows, at a place that moves on from round to round ($1).
var ranges = []reading{
	{byID, `SELECT count(*) FROM stored WHERE snowflake_between(id, timestamptz '2026-02-01Z' + $1::int * interval '1 s',
		timestamptz '2026-02-01Z' + ($1::int + $2::int) * interval '1 s')`, ""},
	{byTime, `SELECT count(*) FROM stored WHERE ts >= timestamptz '2026-02-01Z' + $1::int * interval '1 s'
		AND ts < timestamptz '2026-02-01Z' + ($1::int + $2::int) * interval '1 s'`, ""},
}

// rowsASecond is how dense the stored rows are in time.
const rowsASecond = 100

func howRange(b *bench) string {
	return fmt.Sprintf("A table of %d rows, `id` a snowflake id and primary key, `ts` its time as timestamptz with an index, both "+
		"vacuumed. Decoding reads all rows, in nanoseconds a row, less the same without decoding; a range counts a hundredth of them, "+
		"in milliseconds, the median of 21 places.", b.stored)
}

// measureRange stores the rows and reads them.
func measureRange(ctx context.Context, b *bench) (string, error) {
	conn := b.newDatabase()
	b.mustExec(conn, fmt.Sprintf(`SET TimeZone = 'UTC';
		CREATE TABLE stored AS SELECT snowflake_compose(ts, i %% 1024, i %% 4096) AS id, ts
		FROM generate_series(0, %d - 1) i, LATERAL (SELECT timestamptz '2026-02-01Z' + i * interval '1 s' / %d AS ts) t`,
		b.stored, rowsASecond))
	b.mustExec(conn, "ALTER TABLE stored ADD PRIMARY KEY (id)")
	b.mustExec(conn, "CREATE INDEX stored_ts ON stored (ts)")
	b.mustExec(conn, "VACUUM (ANALYZE, FREEZE) stored")
	err := inTurn(b.rounds, len(decodings), func(i int) (float64, error) {
		return timeOf(ctx, conn, decodings[i].sql)
	}, func(i int, seconds float64) {
		b.record("decode/gross/"+decodings[i].name, seconds*1e9/float64(b.stored))
	})
	if err != nil {
		return "", err
	}
	var rows [][]string
	for _, d := range decodings {
		b.figures["decode/"+d.name] = b.figures["decode/gross/"+d.name]
		if d.less != "" {
			b.figures["decode/"+d.name] = b.difference("decode/gross/"+d.name, "decode/gross/"+d.less)
		}
		rows = append(rows, []string{d.name, cell(b.figures["decode/"+d.name]), cell(b.ratio("decode/"+d.name, "decode/"+extracting))})
	}
	out := table([]string{"decoding", "ns", "to `extract(epoch FROM ts)`"}, rows)

	seconds := b.stored / rowsASecond
	const places = 21
	err = inTurn(b.rounds*places, len(ranges), func(i int) (float64, error) {
		from := (len(b.figures["range/all/"+ranges[i].name]) * 7919) % (seconds - seconds/100)
		return timeOf(ctx, conn, ranges[i].sql, from, seconds/100)
	}, func(i int, seconds float64) {
		b.record("range/all/"+ranges[i].name, seconds*1000)
	})
	if err != nil {
		return "", err
	}
	rows = nil
	for _, r := range ranges {
		all := b.figures["range/all/"+r.name]
		for ; len(all) > 0; all = all[places:] {
			b.record("range/"+r.name, median(all[:places]))
		}
	}
	for _, r := range ranges {
		rows = append(rows, []string{r.name, cell(b.figures["range/"+r.name]), cell(b.ratio("range/"+r.name, "range/"+byTime))})
	}
	return out + "\n" + table([]string{"range", "ms", "to the range on `ts`"}, rows), nil
}
