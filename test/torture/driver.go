// Package torture makes ids at full speed while it does to the server what a bad week does, and then looks whether
// any id was given twice.
//
// Clients make ids in sessions of two databases: in one on leases, in the other all on one fixed worker. The driver
// kills sessions, restarts and crashes the server, steps its clock, fails over to a standby whose clock is behind.
// Its choices come from a seed, so that a failure can be looked for again.
package torture

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"pgsnowflake/test/cluster"
)

const (
	leasedDatabase = "leased"
	fixedDatabase  = "fixed"
	fixedWorker    = 1010 // outside of every range that leases use
	clients        = 8
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Options of a run.
type Options struct {
	Seed     uint64
	Duration time.Duration
	Variant  string // a build of the library with a fault in it, or empty
}

// run is one run in progress.
type run struct {
	t        testing.TB
	backend  cluster.Backend
	options  Options
	random   *rand.Rand
	mu       sync.RWMutex
	node     *cluster.Node // where clients connect
	offset   time.Duration // of its clock from the real one
	furthest time.Duration // the largest offset that any clock of the run had
	steps    atomic.Int64  // twice how often the clock was changed; odd while it is being changed
	sessions sync.Map      // processes of the clients' sessions
	made     record
	errors   counts
	events   counts
	failure  atomic.Pointer[error]
}

// counts counts by name.
type counts struct {
	mu sync.Mutex
	by map[string]int
}

func (c *counts) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = make(map[string]int)
	}
	c.by[name]++
}

func (r *run) failed() bool { return r.failure.Load() != nil }

// fail records what went wrong first.
func (r *run) fail(err error) { r.failure.CompareAndSwap(nil, &err) }

func (r *run) dsn(database string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.node.DSN(database)
}

// Run tortures a server for the time given and returns what it found wrong, or nil.
func Run(t testing.TB, backend cluster.Backend, options Options) error {
	r := &run{t: t, backend: backend, options: options, random: rand.New(rand.NewPCG(options.Seed, 0))}
	r.node = backend.Start(t, cluster.Config{Name: "torture", FakeClock: true, Settings: map[string]string{
		"snowflake.worker_range": "0-999", "max_wal_senders": "5", "hot_standby": "on", "checkpoint_timeout": "30s",
	}})
	r.prepare()

	ctx, cancel := context.WithTimeout(context.Background(), options.Duration)
	defer cancel()
	var wg sync.WaitGroup
	for i := range clients {
		c := &client{r: r, index: i, database: leasedDatabase, random: rand.New(rand.NewPCG(options.Seed, uint64(i)+1))}
		if i%2 == 1 {
			c.database = fixedDatabase
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			c.live(ctx)
		}()
	}
	for ctx.Err() == nil && !r.failed() {
		r.event(ctx)
		if err := r.made.repeated(); err != nil {
			r.fail(err)
		}
	}
	wg.Wait()
	if err := r.made.repeated(); err != nil {
		r.fail(err)
	}
	r.checkNothingIsLeft()
	t.Logf("seed %d: %d ids in %d runs; events %v; errors %v", options.Seed, r.made.ids, len(r.made.spans), r.events.by, r.errors.by)
	if failure := r.failure.Load(); failure != nil {
		return *failure
	}
	return nil
}

// prepare makes the two databases.
func (r *run) prepare() {
	admin := r.connect("postgres")
	defer admin.Close(context.Background())
	for _, database := range []string{leasedDatabase, fixedDatabase} {
		r.exec(admin, "CREATE DATABASE "+database)
		c := r.connect(database)
		r.exec(c, "CREATE EXTENSION snowflake")
		if r.options.Variant != "" {
			r.exec(c, "UPDATE pg_proc SET probin = '$libdir/snowflake-variants/"+r.options.Variant+
				"/snowflake' WHERE probin = '$libdir/snowflake'")
		}
		c.Close(context.Background())
	}
	r.exec(admin, fmt.Sprintf("ALTER DATABASE %s SET snowflake.worker_id = %d", fixedDatabase, fixedWorker))
}

// connect opens a session of the driver; it tries for a while, since the server may be starting.
func (r *run) connect(database string) *pgx.Conn {
	for range 100 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		c, err := pgx.Connect(ctx, r.dsn(database))
		cancel()
		if err == nil {
			return c
		}
		time.Sleep(100 * time.Millisecond)
	}
	r.t.Fatalf("the server cannot be reached\n%s", tail(r.node.Log(r.t)))
	return nil
}

func (r *run) exec(c *pgx.Conn, sql string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := c.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
}

// tryAdmin runs a statement of the driver that may find the server gone.
func (r *run) tryAdmin(sql string) {
	c := r.connect("postgres")
	defer c.Close(context.Background())
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
}

// setClock moves the clock of the node that clients use.
func (r *run) setClock(offset time.Duration) {
	r.offset = offset
	r.furthest = max(r.furthest, offset)
	r.steps.Add(1)
	r.node.SetClock(r.t, offset)
	r.steps.Add(1)
}

// anyStep is a step of the clock, forward or back, from 1 ms to 1 h, small ones as likely as large ones.
func (r *run) anyStep() time.Duration {
	step := time.Duration(math.Pow(3_600_000, r.random.Float64()) * float64(time.Millisecond))
	if r.random.IntN(2) == 0 {
		return -step
	}
	return step
}

// event does one thing to the server.
func (r *run) event(ctx context.Context) {
	pause(ctx, time.Duration(100+r.random.IntN(600))*time.Millisecond)
	if ctx.Err() != nil {
		return
	}
	switch n := r.random.IntN(100); {
	case n < 20:
		r.events.add("terminate")
		r.tryAdmin(fmt.Sprintf("SELECT pg_terminate_backend(%d)", r.anySession()))
	case n < 35:
		r.events.add("cancel")
		r.tryAdmin(fmt.Sprintf("SELECT pg_cancel_backend(%d)", r.anySession()))
	case n < 55:
		r.events.add("clock step")
		r.setClock(r.offset + r.anyStep())
		pause(ctx, time.Duration(r.random.IntN(700))*time.Millisecond)
		r.timePasses()
	case n < 65:
		r.events.add("range")
		low := r.random.IntN(900)
		r.node.Set(r.t, map[string]string{"snowflake.worker_range": fmt.Sprintf("%d-%d", low, low+2+r.random.IntN(90))})
		r.node.Reload(r.t)
	case n < 70:
		r.events.add("kill -9 of a session")
		r.node.Kill(r.t, int(r.anySession()))
	case n < 77:
		r.restart("fast", func() { r.node.Stop(r.t, "fast") })
	case n < 84:
		r.restart("immediate", func() { r.node.Stop(r.t, "immediate") })
	case n < 93:
		r.restart("crash", func() { r.node.Crash(r.t) })
	default:
		r.failOver()
	}
}

// anySession is the process of some session of a client.
func (r *run) anySession() uint32 {
	var all []uint32
	r.sessions.Range(func(pid, _ any) bool {
		all = append(all, pid.(uint32))
		return true
	})
	if len(all) == 0 {
		return math.MaxInt32
	}
	return all[r.random.IntN(len(all))]
}

// timePasses puts the clock to where no id was made yet, as time does that passes while a clock is wrong.
func (r *run) timePasses() {
	if r.random.IntN(3) > 0 {
		r.setClock(0) // "and back": whoever made ids ahead must wait, or move
		return
	}
	r.setClock(r.furthest)
}

// restart stops the server in some way and starts it with its clock a little behind, or right.
func (r *run) restart(how string, stop func()) {
	r.events.add(how)
	stop()
	r.setClock(r.furthest - r.behind())
	r.node.Start(r.t)
	time.Sleep(time.Second)
	r.setClock(r.furthest)
}

// behind is how far a clock is behind when a server comes up: mostly up to ten seconds, since that takes some of them.
func (r *run) behind() time.Duration {
	if r.random.IntN(3) == 0 {
		return 0
	}
	return time.Duration(r.random.IntN(10_000)) * time.Millisecond
}

// failOver crashes the server and promotes a standby whose clock is a little behind, or right; clients move over.
func (r *run) failOver() {
	r.events.add("failover")
	r.setClock(r.furthest)
	standby := r.backend.Start(r.t, cluster.Config{Name: "torture", FakeClock: true, StandbyOf: r.node})
	standby.SetClock(r.t, r.offset-r.behind())
	r.waitForStandby()
	old := r.node
	old.Crash(r.t)
	standby.Promote(r.t)
	r.steps.Add(2)
	r.mu.Lock()
	r.node = standby
	r.mu.Unlock()
	time.Sleep(500 * time.Millisecond)
	r.setClock(r.furthest)
}

// waitForStandby returns when a standby has received what the server wrote up to now.
func (r *run) waitForStandby() {
	c := r.connect("postgres")
	defer c.Close(context.Background())
	for range 200 {
		var ready bool
		err := c.QueryRow(context.Background(), `SELECT coalesce(bool_or(state = 'streaming' AND
			pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) < 1000000), false) FROM pg_stat_replication`).Scan(&ready)
		if err == nil && ready {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	r.t.Fatal("the standby does not follow")
}

// checkNothingIsLeft fails the run when sessions or leases outlive the clients.
func (r *run) checkNothingIsLeft() {
	c := r.connect("postgres")
	defer c.Close(context.Background())
	var left int
	for range 100 {
		err := c.QueryRow(context.Background(), `SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname IN ('leased', 'fixed'))
			+ (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 7)`).Scan(&left)
		if err == nil && left == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	r.fail(fmt.Errorf("%d sessions and leases are left over", left))
}

// tail is the end of a log.
func tail(log string) string { return log[max(0, len(log)-4000):] }
