package torture

// Several servers that lease their worker ids from one arbiter make ids at full speed, while they and the arbiter are
// stopped, cut off, killed, copied and failed over. No id may come twice, and ids must flow again soon after each fault.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"pgsnowflake/test/cluster"
)

const (
	lessees  = 3
	leaseTTL = 3 * time.Second
	// slack is what a busy machine may need to start a server's processes and sessions, on top of the time of a lease.
	slack = 15 * time.Second
)

// leases is one run in progress.
type leases struct {
	t        testing.TB
	backend  cluster.Backend
	random   *rand.Rand
	shared   bool             // no arbiter: all servers are given the same worker
	network  *cluster.Network // between the arbiter and the servers
	arbiter  *cluster.Node
	servers  []*lessee
	made     record
	events   counts
	failure  atomic.Pointer[error]
	slowest  time.Duration
	slowWhat string
	wait     sync.WaitGroup
}

// lessee is a server, and the sessions that make ids there.
type lessee struct {
	*cluster.Node
	ids atomic.Int64
}

func (r *leases) fail(err error) { r.failure.CompareAndSwap(nil, &err) }

// RunLeases is such a run. Without an arbiter all servers make ids with one worker, and the run must find that.
func RunLeases(t testing.TB, backend cluster.Backend, options Options, withArbiter bool) error {
	r := &leases{t: t, backend: backend, random: rand.New(rand.NewPCG(options.Seed, 0)), shared: !withArbiter}
	r.network = backend.NewNetwork(t)
	r.arbiter = backend.Start(t, cluster.Config{Name: "arbiter"})
	r.network.Join(t, r.arbiter)
	r.setUpArbiter()
	for i := range lessees {
		r.servers = append(r.servers, r.start(fmt.Sprint("server", i), nil))
	}
	ctx, cancel := context.WithTimeout(context.Background(), options.Duration)
	defer cancel()
	stop, stopClients := context.WithCancel(context.Background())
	defer stopClients()
	for _, s := range r.servers {
		r.work(stop, s)
	}
	r.untilIDsFlow("at first")
	for ctx.Err() == nil && r.failure.Load() == nil {
		if r.shared {
			pause(ctx, time.Second)
		} else {
			r.event()
		}
		if err := r.made.repeated(); err != nil {
			r.fail(err)
		}
	}
	stopClients()
	r.wait.Wait()
	if err := r.made.repeated(); err != nil {
		r.fail(err)
	}
	t.Logf("seed %d: %d ids in %d runs; events %v; slowest to make ids again: %v, %s", options.Seed, r.made.ids, len(r.made.spans),
		r.events.by, r.slowest.Round(10*time.Millisecond), r.slowWhat)
	if failure := r.failure.Load(); failure != nil {
		return *failure
	}
	return nil
}

// role is the one that a server leases as.
func role(i int) string { return fmt.Sprintf("lessee%d", i) }

func (r *leases) setUpArbiter() {
	script, err := os.ReadFile("../../ext/arbiter/snowflake_arbiter_setup.sql")
	if err != nil {
		r.t.Fatal(err)
	}
	sql := string(script) + fmt.Sprintf("UPDATE snowflake_arbiter.lease SET max_ttl_ms = %d WHERE worker = -1;\n", leaseTTL.Milliseconds())
	for i := range lessees + 1 {
		sql += "CREATE ROLE " + role(i) + " LOGIN IN ROLE snowflake_keeper;\n"
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if out, err := r.arbiter.ExecIn(ctx, sql, "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1"); err != nil {
		r.t.Fatalf("%v\n%s", err, out)
	}
}

func (r *leases) conninfo(i int) string {
	return strings.Replace(r.network.Conninfo(r.t, r.arbiter, "postgres"), "user=postgres", "user="+role(i), 1)
}

// start starts a server, or a copy of one.
func (r *leases) start(name string, of *lessee) *lessee {
	config := cluster.Config{Name: name, Settings: map[string]string{
		"shared_preload_libraries": "snowflake_keeper", "snowflake.lease_conninfo": r.conninfo(len(r.servers)),
		"snowflake.lease_ttl": fmt.Sprintf("%dms", leaseTTL.Milliseconds()), "snowflake.worker_range": "0-4",
	}}
	if r.shared {
		config.Settings = map[string]string{"snowflake.worker_id": "3"}
	}
	if of != nil {
		config.StandbyOf = of.Node
	}
	s := &lessee{Node: r.backend.Start(r.t, config)}
	r.network.Join(r.t, s.Node)
	if of == nil {
		r.sql(s.Node, "CREATE EXTENSION snowflake")
	}
	return s
}

// sql runs a statement on a server that is up.
func (r *leases) sql(node *cluster.Node, statement string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := r.connectTo(ctx, node, statement); err != nil {
		r.t.Fatalf("%s: %v", statement, err)
	}
}

func (r *leases) connectTo(ctx context.Context, node *cluster.Node, statement string) (text string, err error) {
	conn, err := pgx.Connect(ctx, node.DSN("postgres"))
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	results, err := conn.PgConn().Exec(ctx, statement).ReadAll()
	for _, result := range results {
		for _, row := range result.Rows {
			text += string(row[0])
		}
	}
	return text, err
}

// work has two sessions of a server make ids until the run ends.
func (r *leases) work(stop context.Context, s *lessee) {
	for range 2 {
		r.wait.Go(func() {
			for stop.Err() == nil && r.failure.Load() == nil {
				r.session(stop, s)
				pause(stop, 20*time.Millisecond)
			}
		})
	}
}

// session makes ids in one session until it is refused or ends.
func (r *leases) session(stop context.Context, s *lessee) {
	ctx, cancel := context.WithTimeout(stop, 2*leaseTTL)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return
	}
	defer conn.Close(context.Background())
	last := int64(0)
	var spans []span
	defer func() { r.made.add(spans) }()
	for ctx.Err() == nil {
		var ids []int64
		const statement = "SELECT array_agg(snowflake_next()) FROM generate_series(1, $1::int)"
		if err := conn.QueryRow(ctx, statement, pgx.QueryExecModeExec, 1+rand.IntN(2000)).Scan(&ids); err != nil {
			return
		}
		spans = collect(spans, ids)
		for _, id := range ids {
			if id <= last {
				r.fail(fmt.Errorf("on %s %d follows %d", s.Name(), id, last))
			}
			last = id
		}
		s.ids.Add(int64(len(ids)))
	}
}

// untilIDsFlow waits until every server makes ids, for as long as a lease lasts, and what a busy machine may need.
func (r *leases) untilIDsFlow(when string) {
	started := time.Now()
	for _, s := range r.servers {
		before := s.ids.Load()
		for s.ids.Load() == before && r.failure.Load() == nil {
			if time.Since(started) > leaseTTL+slack {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				state, err := r.connectTo(ctx, s.Node, "SELECT lease_state FROM snowflake_status()")
				cancel()
				r.fail(fmt.Errorf("%s: no ids on %s after %v: %s %v", when, s.Name(), time.Since(started), state, err))
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	if took := time.Since(started); took > r.slowest {
		r.slowest, r.slowWhat = took, when
	}
}

// signalTo sends a signal to the processes of a server whose titles contain a text; and, when that is empty, to the
// postmaster.
func (r *leases) signalTo(node *cluster.Node, signal, title string) {
	argv := []string{"kill", "-" + signal}
	if title == "" {
		argv = append(argv, fmt.Sprint(node.PostmasterPID(r.t)))
	}
	for _, pid := range node.Processes(r.t, title) {
		argv = append(argv, fmt.Sprint(pid))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if out, err := node.Exec(ctx, argv...); err != nil && len(argv) > 2 {
		r.t.Logf("%v: %v %s", argv, err, out) // one that has ended meanwhile
	}
}

// someTime is how long a fault lasts: often longer than a lease.
func (r *leases) someTime() time.Duration {
	return time.Duration((0.3 + 1.5*r.random.Float64()) * float64(leaseTTL))
}

// event does one thing to a server or the arbiter, ends it, and sees ids flow again.
func (r *leases) event() {
	i := r.random.IntN(lessees)
	s, length := r.servers[i], r.someTime()
	var what string
	switch n := r.random.IntN(100); {
	case n < 14:
		what = "all of a server stopped"
		r.signalTo(s.Node, "STOP", "")
		time.Sleep(length)
		r.signalTo(s.Node, "CONT", "")
	case n < 26:
		what = "a keeper stopped"
		r.signalTo(s.Node, "STOP", "lease keeper")
		time.Sleep(length)
		r.signalTo(s.Node, "CONT", "lease keeper")
	case n < 36:
		what = "a keeper killed"
		for _, pid := range s.Processes(r.t, "lease keeper") {
			s.Kill(r.t, pid)
		}
	case n < 46:
		what = "a server crashed"
		s.Crash(r.t)
		s.Start(r.t)
	case n < 54:
		what = "a server restarted"
		s.Restart(r.t, []cluster.Mode{cluster.Fast, cluster.Immediate}[r.random.IntN(2)])
	case n < 68:
		what = "a server cut off"
		r.cutOff(i, length)
	case n < 78:
		what = "the arbiter restarted"
		r.arbiter.Restart(r.t, cluster.Immediate)
	case n < 86:
		what = "the arbiter gone"
		r.arbiter.Stop(r.t, cluster.Fast)
		time.Sleep(length)
		r.arbiter.Start(r.t)
	case n < 93:
		what = "the arbiter failed over"
		r.failOver()
	default:
		what = "a server copied"
		r.copyOf(s)
	}
	r.events.add(what)
	r.untilIDsFlow("after: " + what)
}

// cutOff keeps a server from the arbiter for a while. Where no network can be cut, its session there is stopped and it may
// open no other.
func (r *leases) cutOff(i int, length time.Duration) {
	if r.network.CanCut() {
		r.network.Cut(r.t, r.servers[i].Node)
		time.Sleep(length)
		r.network.Join(r.t, r.servers[i].Node)
		return
	}
	r.sql(r.arbiter, "ALTER ROLE "+role(i)+" NOLOGIN")
	r.signalTo(r.arbiter, "STOP", role(i))
	time.Sleep(length)
	r.signalTo(r.arbiter, "CONT", role(i))
	r.sql(r.arbiter, "ALTER ROLE "+role(i)+" LOGIN")
}

// failOver crashes the arbiter and promotes a standby; the servers learn where it is.
func (r *leases) failOver() {
	standby := r.backend.Start(r.t, cluster.Config{Name: "arbiter", StandbyOf: r.arbiter})
	r.network.Join(r.t, standby)
	r.arbiter.Crash(r.t)
	standby.Promote(r.t)
	r.arbiter = standby
	for i, s := range r.servers {
		s.Set(r.t, map[string]string{"snowflake.lease_conninfo": r.conninfo(i)})
		s.Reload(r.t)
	}
}

// copyOf starts a copy of a server, which makes ids beside it for a while.
func (r *leases) copyOf(s *lessee) {
	clone := r.start("copy", s)
	clone.Promote(r.t)
	stop, end := context.WithTimeout(context.Background(), 2*leaseTTL)
	defer end()
	r.work(stop, clone)
	r.servers = append(r.servers, clone)
	r.untilIDsFlow("on a copy")
	r.servers = slices.DeleteFunc(r.servers, func(other *lessee) bool { return other == clone })
	<-stop.Done()
	clone.Stop(r.t, cluster.Fast)
}
