package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"pgsnowflake/keeper"
	"pgsnowflake/keeper/arbiter"
	"pgsnowflake/test/cluster"
)

// leaseTTL is the default of snowflake.lease_ttl.
const leaseTTL = 30 * time.Second

func howKeeper(b *bench) string {
	return fmt.Sprintf("%d lease keepers in one process, each with a connection of its own, claim a worker id of one arbiter at "+
		"the same moment, and then renew it three times in each lease of %v. The processor and the WAL are the arbiter's, over %v.",
		b.lessees, leaseTTL, b.renewFor)
}

// lessee is one lease keeper: the holder and the client of the real one.
type lessee struct {
	holder   *keeper.Holder
	client   *arbiter.Client
	renewals int
}

func now() keeper.Clock {
	return keeper.Clock{BootNs: int64(time.Since(started)) + 1, WallMs: time.Now().UnixMilli()}
}

var started = time.Now()

// step asks what is due and takes the answer; it says whether there is a lease.
func (l *lessee) step(ctx context.Context) bool {
	if r, due := l.holder.Next(now()); due {
		ctx, cancel := context.WithTimeout(ctx, time.Minute) // the measurement, not the lease, is what must not fail
		reply, err := l.client.Ask(ctx, r)
		cancel()
		if err != nil {
			l.holder.Failed(now(), err.Error())
		} else {
			l.holder.Answered(now(), reply)
			l.renewals++
		}
	}
	_, held := l.holder.Lease(now())
	return held
}

// measureKeeper lets many keepers claim at once and renew for a while.
func measureKeeper(ctx context.Context, b *bench) (string, error) {
	node := b.backend.Start(&b.main, cluster.Config{Name: "arbiter", Settings: map[string]string{
		"max_connections": strconv.Itoa(b.lessees + 20),
	}})
	script, err := os.ReadFile("ext/arbiter/snowflake_arbiter_setup.sql")
	if err != nil {
		return "", err
	}
	if _, err := node.ExecIn(ctx, string(script), "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1"); err != nil {
		return "", err
	}
	lessees := make([]lessee, b.lessees)
	for i := range lessees {
		id := fmt.Sprint("server", i)
		lessees[i] = lessee{client: arbiter.New(node.DSN("postgres")), holder: keeper.NewHolder(id, id,
			keeper.Want{High: 1023, TTLMs: leaseTTL.Milliseconds()}, rand.New(rand.NewPCG(uint64(i), 0)))}
		defer lessees[i].client.Close()
	}
	conn := node.Connect(&b.main, "postgres")

	// Claim: all at once.
	granted := make([]float64, b.lessees)
	began := time.Now()
	each(lessees, func(i int, l *lessee) {
		for !l.step(ctx) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		granted[i] = time.Since(began).Seconds()
	})

	// Renew: for a while.
	before, err := b.usage(ctx, conn, node)
	if err != nil {
		return "", err
	}
	for i := range lessees {
		lessees[i].renewals = 0
	}
	began = time.Now()
	lost := make([]int, b.lessees)
	each(lessees, func(i int, l *lessee) {
		for time.Since(began) < b.renewFor && ctx.Err() == nil {
			if !l.step(ctx) {
				lost[i]++
			}
			time.Sleep(min(time.Duration(l.holder.Wake(now())-now().BootNs), b.renewFor-time.Since(began)) + time.Millisecond)
		}
	})
	seconds := time.Since(began).Seconds()
	after, err := b.usage(ctx, conn, node)
	if err != nil {
		return "", err
	}
	renewals, losses := 0, 0
	for i := range lessees {
		renewals += lessees[i].renewals
		losses += lost[i]
	}
	if losses > 0 {
		return "", fmt.Errorf("%d times a lease was lost", losses)
	}
	return table([]string{"figure", "value"}, [][]string{
		{"seconds until a server had a lease, in the median", number(median(granted))},
		{"until the last one had", number(maximum(granted))},
		{"renewals a second", number(float64(renewals) / seconds)},
		{"processor of the arbiter, part of one core", number((after.cpu - before.cpu) / seconds)},
		{"processor a renewal, ms", number(1000 * (after.cpu - before.cpu) / float64(renewals))},
		{"WAL, kB a second", number((after.wal - before.wal) / seconds / 1024)},
		{"WAL a renewal, bytes", number((after.wal - before.wal) / float64(renewals))},
	}), nil
}

// each does something with all keepers at once.
func each(lessees []lessee, do func(i int, l *lessee)) {
	var wait sync.WaitGroup
	for i := range lessees {
		wait.Go(func() { do(i, &lessees[i]) })
	}
	wait.Wait()
}

func maximum(values []float64) (most float64) {
	for _, value := range values {
		most = max(most, value)
	}
	return most
}

// used is what a server has used so far: seconds of processor of all its processes that live, and bytes of WAL.
type used struct{ cpu, wal float64 }

func (b *bench) usage(ctx context.Context, conn *pgx.Conn, node *cluster.Node) (u used, err error) {
	if err = conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").Scan(&u.wal); err != nil {
		return u, err
	}
	// Nanoseconds on a processor; the times in stat count in hundredths of a second, too few for a thousand processes.
	out, err := node.Exec(ctx, "sh", "-c", fmt.Sprintf(
		`cat $(grep -l "^PPid:[[:space:]]*%d$" /proc/[0-9]*/status 2>/dev/null | sed 's/status/schedstat/')`, node.PostmasterPID(&b.main)))
	for line := range strings.Lines(out) {
		ns, _, _ := strings.Cut(line, " ")
		n, _ := strconv.ParseFloat(ns, 64)
		u.cpu += n / 1e9
	}
	return u, err
}
