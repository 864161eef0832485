package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// generator is what sessions make ids with at once.
type generator struct {
	name  string
	sql   string // makes $1 ids
	setup string // of each session
}

// The generators that figures compare.
const (
	scanning = "the scan alone"
	leases   = "`snowflake_next()`, a lease each"
	oneSet   = "`snowflake_next(1000)`, one worker"
)

const (
	lease     = "SET snowflake.worker_id = -1"
	oneWorker = "SET snowflake.worker_id = 7"
)

var generators = []generator{
	{scanning, "SELECT count(i) FROM generate_series(1, $1::int) i", lease},
	{nextval, "SELECT count(nextval('bench_sequence')) FROM generate_series(1, $1::int)", lease},
	{"`nextval()`, CACHE 32", "SELECT count(nextval('bench_cached')) FROM generate_series(1, $1::int)", lease},
	{leases, "SELECT count(snowflake_next()) FROM generate_series(1, $1::int)", lease},
	{"`snowflake_next()`, one worker", "SELECT count(snowflake_next()) FROM generate_series(1, $1::int)", oneWorker},
	{oneSet, "SELECT count(*) FROM (SELECT snowflake_next(1000) FROM generate_series(1, $1::int / 1000)) s", oneWorker},
	{uuidv7, "SELECT count(public.uuidv7()) FROM generate_series(1, $1::int)", lease},
	{random, "SELECT count(gen_random_uuid()) FROM generate_series(1, $1::int)", lease},
}

// shared is how many ids all sessions make together: the same for any number of sessions that is a power of two up to
// 128, in whole sets.
const shared = 1000 * 128

func howSessions(b *bench) string {
	return fmt.Sprintf("1 to %d sessions make %d ids in all, at once, each in one statement. First, how many they make "+
		"in a microsecond of the clock, the scan included: one worker cannot give more than the 4.10 of the format. Then what an "+
		"id costs of processor time, in nanoseconds, the scan included.", b.crowds[len(b.crowds)-1], b.idsOfCrowd())
}

// idsOfCrowd is how many ids a crowd makes in all.
func (b *bench) idsOfCrowd() int { return max(b.million/shared, 1) * shared }

// measureSessions lets every crowd use every generator.
func measureSessions(ctx context.Context, b *bench) (string, error) {
	first := b.newDatabase()
	header := []string{"ids a microsecond"}
	for _, crowd := range b.crowds {
		header = append(header, strconv.Itoa(crowd))
		conns := b.connect(first, crowd)
		err := inTurn(b.rounds, len(generators), func(i int) (effort, error) {
			return b.makeIDs(ctx, conns, generators[i])
		}, func(i int, e effort) {
			ids := float64(b.idsOfCrowd())
			b.record(crowdFigure("rate", generators[i].name, crowd), ids/e.seconds/1e6)
			b.record(crowdFigure("cpu", generators[i].name, crowd), e.cpu*1e9/ids)
		})
		if err != nil {
			return "", err
		}
		closeAll(ctx, conns)
	}
	out := table(header, b.crowdRows("rate"))
	header[0] = "ns of processor an id"
	return out + "\n" + table(header, b.crowdRows("cpu")), nil
}

func crowdFigure(kind, generator string, crowd int) string {
	return fmt.Sprintf("sessions/%s/%s/%d", kind, generator, crowd)
}

func (b *bench) crowdRows(kind string) (rows [][]string) {
	for _, g := range generators {
		row := []string{g.name}
		for _, crowd := range b.crowds {
			row = append(row, cell(b.figures[crowdFigure(kind, g.name, crowd)]))
		}
		rows = append(rows, row)
	}
	return rows
}

// growth is how much more an id costs a session with a lease when it is one of the largest crowd, the scan taken off.
func (b *bench) growth() []float64 {
	net := func(crowd int) []float64 {
		return b.difference(crowdFigure("cpu", leases, crowd), crowdFigure("cpu", scanning, crowd))
	}
	return combine(net(b.crowds[len(b.crowds)-1]), net(1), func(x, y float64) float64 { return x / y })
}

// effort is what a statement of many sessions took.
type effort struct {
	seconds float64 // of the clock, until the last was done
	cpu     float64 // seconds of processor of all their processes
}

// makeIDs lets all sessions make their share of the ids at once.
func (b *bench) makeIDs(ctx context.Context, conns []*pgx.Conn, g generator) (effort, error) {
	for _, conn := range conns { // each has what it needs, its lease as well
		b.mustExec(conn, g.setup)
		if _, err := conn.Exec(ctx, g.sql, 1000); err != nil {
			return effort{}, err
		}
	}
	before, err := cpuOf(conns)
	if err != nil {
		return effort{}, err
	}
	seconds, err := atOnce(conns, func(_ int, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, g.sql, b.idsOfCrowd()/len(conns))
		return err
	})
	after, errAfter := cpuOf(conns)
	return effort{seconds, after - before}, errors.Join(err, errAfter)
}

// atOnce lets all sessions work at the same time and returns the seconds until the last was done.
func atOnce(conns []*pgx.Conn, work func(i int, conn *pgx.Conn) error) (float64, error) {
	failed := make([]error, len(conns))
	var wg sync.WaitGroup
	started := time.Now()
	for i, conn := range conns {
		wg.Go(func() { failed[i] = work(i, conn) })
	}
	wg.Wait()
	return time.Since(started).Seconds(), errors.Join(failed...)
}

// cpuOf is the processor time, in seconds, that the first threads of the sessions' processes have used.
func cpuOf(conns []*pgx.Conn) (seconds float64, err error) {
	for _, conn := range conns {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", conn.PgConn().PID()))
		if err != nil {
			return 0, err
		}
		ns, err := strconv.ParseFloat(strings.Fields(string(stat))[0], 64)
		if err != nil {
			return 0, err
		}
		seconds += ns / 1e9
	}
	return seconds, nil
}
