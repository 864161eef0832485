package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// visitors come, call once and go. The first is what the others are compared to.
var visitors = []struct{ name, sql string }{
	{nextval, "SELECT nextval('bench_sequence')"},
	{next, "SELECT snowflake_next()"},
	{uuidv7, "SELECT public.uuidv7()"},
	{"`snowflake_timestamp(id)`", "SELECT snowflake_timestamp(1)"},
}

func howVisits(b *bench) string {
	return fmt.Sprintf("%d sessions a round connect, call once and disconnect, one after the other: the call as the client "+
		"sees it, and all of it, in milliseconds, each the median of the round.", b.visits)
}

// visit is what one session took, milliseconds.
type visit struct{ call, all float64 }

// measureVisits times the first call of sessions.
func measureVisits(ctx context.Context, b *bench) (string, error) {
	dsn := b.newDatabase().Config().ConnString()
	err := inTurn(b.rounds, len(visitors), func(i int) (v visit, err error) {
		var calls, all []float64
		for range b.visits {
			if v, err = visitOnce(ctx, dsn, visitors[i].sql); err != nil {
				return v, err
			}
			calls, all = append(calls, v.call), append(all, v.all)
		}
		return visit{median(calls), median(all)}, nil
	}, func(i int, v visit) {
		b.record("visit/call/"+visitors[i].name, v.call)
		b.record("visit/all/"+visitors[i].name, v.all)
	})
	var rows [][]string
	for _, v := range visitors {
		rows = append(rows, []string{v.name,
			cell(b.figures["visit/call/"+v.name]), cell(b.difference("visit/call/"+v.name, "visit/call/"+nextval)),
			cell(b.figures["visit/all/"+v.name]), cell(b.ratio("visit/all/"+v.name, "visit/all/"+nextval))})
	}
	return table([]string{"call", "first call", "more than `nextval()`", "connect, call, disconnect", "to `nextval()`"}, rows), err
}

func visitOnce(ctx context.Context, dsn, sql string) (v visit, err error) {
	started := time.Now()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return v, err
	}
	called := time.Now()
	if _, err = conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		return v, err
	}
	v.call = time.Since(called).Seconds() * 1000
	err = conn.Close(ctx)
	v.all = time.Since(started).Seconds() * 1000
	return v, err
}

func howMemory(b *bench) string {
	return "What a session that has made an id needs more than one that has called `nextval()`, when so many are connected at " +
		"once. Private is memory of its own that it has touched (RssAnon), proportional counts what it shares in parts " +
		"(PSS), committed is what it may touch (VmData). MB are 1024² bytes."
}

// footprint is what a session's process holds, MB.
type footprint struct{ private, proportional, committed, threads float64 }

// residentKinds are the sessions whose memory is compared.
var residentKinds = []struct{ name, sql string }{
	{"without", "SELECT nextval('bench_sequence')"},
	{"with", "SELECT nextval('bench_sequence'), snowflake_next()"},
}

// measureMemory counts the memory of crowds of sessions.
func measureMemory(ctx context.Context, b *bench) (string, error) {
	first := b.newDatabase()
	var rows [][]string
	for _, crowd := range b.residents {
		at := func(kind, what string) string { return fmt.Sprintf("memory/%s/%s/%d", what, kind, crowd) }
		err := inTurn(b.rounds, len(residentKinds), func(i int) (footprint, error) {
			conns := b.connect(first, crowd)
			defer closeAll(ctx, conns)
			if _, err := atOnce(conns, func(_ int, conn *pgx.Conn) error {
				_, err := conn.Exec(ctx, residentKinds[i].sql)
				return err
			}); err != nil {
				return footprint{}, err
			}
			return meanFootprint(conns)
		}, func(i int, f footprint) {
			kind := residentKinds[i].name
			b.record(at(kind, "private"), f.private)
			b.record(at(kind, "proportional"), f.proportional)
			b.record(at(kind, "committed"), f.committed)
			b.record(at(kind, "threads"), f.threads)
		})
		if err != nil {
			return "", err
		}
		row := []string{strconv.Itoa(crowd)}
		for _, what := range []string{"private", "proportional", "committed", "threads"} {
			more := b.difference(at("with", what), at("without", what))
			b.figures[memoryFigure(what, crowd)] = more
			row = append(row, cell(more))
		}
		rows = append(rows, row)
	}
	return table([]string{"sessions", "private, MB", "proportional, MB", "committed, MB", "threads"}, rows), nil
}

func memoryFigure(what string, crowd int) string { return fmt.Sprintf("memory/%s/%d", what, crowd) }

func closeAll(ctx context.Context, conns []*pgx.Conn) {
	for _, conn := range conns {
		conn.Close(ctx)
	}
}

// meanFootprint is what the processes of sessions hold on average.
func meanFootprint(conns []*pgx.Conn) (mean footprint, err error) {
	n := float64(len(conns))
	for _, conn := range conns {
		dir := fmt.Sprintf("/proc/%d/", conn.PgConn().PID())
		status, err1 := os.ReadFile(dir + "status")
		rollup, err2 := os.ReadFile(dir + "smaps_rollup")
		if err1 != nil || err2 != nil {
			return mean, fmt.Errorf("%v, %v", err1, err2)
		}
		mean.private += lineOf(status, "RssAnon:") / 1024 / n
		mean.committed += lineOf(status, "VmData:") / 1024 / n
		mean.threads += lineOf(status, "Threads:") / n
		mean.proportional += lineOf(rollup, "Pss:") / 1024 / n
	}
	return mean, nil
}

// lineOf is the sum of the numbers in the lines of a file of /proc that begin with a name.
func lineOf(file []byte, name string) (sum float64) {
	for line := range strings.Lines(string(file)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			n, _ := strconv.ParseFloat(fields[1], 64)
			sum += n
		}
	}
	return sum
}

func howIdle(b *bench) string {
	return fmt.Sprintf("%d sessions that have made an id, and as many that have called `nextval()`, do nothing for %v: processor "+
		"time and context switches of all their processes together. Go's threads are counted apart.", b.idlers, b.idleFor)
}

// usage is what processes have used: milliseconds of processor, and context switches.
type usage struct{ cpu, switches float64 }

// measureIdle watches idle sessions.
func measureIdle(ctx context.Context, b *bench) (string, error) {
	first := b.newDatabase()
	var crowds [2][]*pgx.Conn
	for i, kind := range residentKinds {
		crowds[i] = b.connect(first, b.idlers)
		if _, err := atOnce(crowds[i], func(_ int, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, kind.sql)
			return err
		}); err != nil {
			return "", err
		}
	}
	time.Sleep(5 * time.Second) // what the calls started comes to rest
	watched := []string{"sessions without ids", "sessions with ids", "Go's threads of these"}
	for range b.rounds {
		before, err := usageOfAll(crowds)
		if err != nil {
			return "", err
		}
		time.Sleep(b.idleFor)
		after, err := usageOfAll(crowds)
		if err != nil {
			return "", err
		}
		for i, name := range watched {
			b.record("idle/cpu/"+name, after[i].cpu-before[i].cpu)
			b.record("idle/switches/"+name, after[i].switches-before[i].switches)
		}
	}
	var rows [][]string
	for _, name := range watched {
		rows = append(rows, []string{name, cell(b.figures["idle/cpu/"+name]), cell(b.figures["idle/switches/"+name])})
	}
	closeAll(ctx, crowds[0])
	closeAll(ctx, crowds[1])
	return table([]string{"processes", "processor, ms", "context switches"}, rows), nil
}

// usageOfAll is what sessions without and with ids have used, their first threads alone, and then Go's threads.
func usageOfAll(crowds [2][]*pgx.Conn) (used [3]usage, err error) {
	for i, conns := range crowds {
		for _, conn := range conns {
			pid := strconv.Itoa(int(conn.PgConn().PID()))
			tasks, err := os.ReadDir("/proc/" + pid + "/task")
			if err != nil {
				return used, err
			}
			for _, task := range tasks {
				of := i
				if task.Name() != pid {
					of = 2
				}
				dir := "/proc/" + pid + "/task/" + task.Name() + "/"
				status, err1 := os.ReadFile(dir + "status")
				stat, err2 := os.ReadFile(dir + "schedstat")
				if err1 != nil || err2 != nil {
					return used, fmt.Errorf("%v, %v", err1, err2)
				}
				ns, _ := strconv.ParseFloat(strings.Fields(string(stat))[0], 64)
				used[of].cpu += ns / 1e6
				used[of].switches += lineOf(status, "voluntary_ctxt_switches:") + lineOf(status, "nonvoluntary_ctxt_switches:")
			}
		}
	}
	return used, nil
}
