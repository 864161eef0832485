package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"pgsnowflake/keeper"
	"pgsnowflake/keeper/arbiter"
	"pgsnowflake/keeper/model"
	"pgsnowflake/test/cluster"
)

// The arbiter's side of the lease protocol, as SQL.

// arbiterDatabase makes a database of a server an arbiter that lends for ttl at most, and returns its name.
func arbiterDatabase(t testing.TB, node *cluster.Node, ttl time.Duration) string {
	t.Helper()
	name := fmt.Sprintf("arbiter%d", databases.Add(1))
	exec(t, node.Connect(t, "postgres"), "CREATE DATABASE "+name)
	setUpArbiter(t, node, name)
	exec(t, node.Connect(t, name), fmt.Sprintf("UPDATE snowflake_arbiter.lease SET max_ttl_ms = %d WHERE worker = -1", ttl.Milliseconds()))
	return name
}

func setUpArbiter(t testing.TB, node *cluster.Node, database string) {
	t.Helper()
	script, err := os.ReadFile("../ext/arbiter/snowflake_arbiter_setup.sql")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := node.ExecIn(background(t), string(script), "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// The SQL decides as the model does that the simulator has tried, answer for answer and row for row.
func TestArbiterIsTheModel(t *testing.T) {
	const maxTTL = 120
	c := shared.Connect(t, arbiterDatabase(t, shared, maxTTL*time.Millisecond))
	m := &model.Arbiter{MaxTTLMs: maxTTL, Term: one[string](t, c, "SELECT holder FROM snowflake_arbiter.lease WHERE worker = -1")}
	for i := range m.Rows {
		m.Rows[i] = model.Row{}
	}
	random := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	tokens := int64(0)
	last := map[string]keeper.Request{} // by holder, the last claim
	outcomes := map[string]int{}
	for n := range 3000 {
		if random.IntN(100) == 0 { // as if it were another cluster, or another timeline
			exec(t, c, "UPDATE snowflake_arbiter.lease SET holder = 'before' WHERE worker = -1")
			m.Term = "before"
		}
		r := anyRequest(random, last, &tokens, maxTTL)
		got, clockMs, term := askArbiter(t, c, r)
		want := m.Call(clockMs, term, r)
		got.Connected = false
		if got != want {
			t.Fatalf("request %d, %+v, at %d:\nthe SQL says   %+v\nthe model says %+v", n, r, clockMs, got, want)
		}
		if r.Kind == keeper.Claim && got.Outcome == keeper.Granted {
			r.Worker = got.Worker
			last[r.Holder] = r
		}
		outcomes[fmt.Sprint(r.Kind, got.Outcome)]++
		time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
	}
	t.Log("kind and outcome:", outcomes)
	for _, kinds := range []string{"0 0", "0 1", "0 2", "0 3", "0 4", "1 0", "1 2", "1 4", "2 0", "2 2"} {
		if outcomes[kinds] == 0 {
			t.Errorf("kind and outcome %s never happened", kinds)
		}
	}
	rows, err := c.Query(background(t), `SELECT coalesce(holder, ''), coalesce(name, ''), token, held, floor_ms, until_ms
		FROM snowflake_arbiter.lease WHERE worker >= 0 ORDER BY worker`)
	if err != nil {
		t.Fatal(err)
	}
	table, err := pgx.CollectRows(rows, pgx.RowToStructByPos[model.Row])
	if err != nil {
		t.Fatal(err)
	}
	for worker, row := range table {
		if row != m.Rows[worker] {
			t.Errorf("worker %d: the table says %+v, the model %+v", worker, row, m.Rows[worker])
		}
	}
}

// anyRequest is one that five holders might make who quarrel over four workers, sometimes late or wrong.
func anyRequest(random *rand.Rand, last map[string]keeper.Request, tokens *int64, maxTTL int64) keeper.Request {
	holder := fmt.Sprint("h", random.IntN(5))
	r := keeper.Request{Kind: keeper.Claim, Holder: holder, Name: "server " + holder, TTLMs: 10 + random.Int64N(maxTTL), Low: 1020,
		High: 1023, NowMs: time.Now().UnixMilli() + random.Int64N(100) - 50}
	claim, has := last[holder]
	if has && random.IntN(4) > 0 {
		r.Kind = keeper.Kind(1 + random.IntN(2)*random.IntN(2))
		r.Worker, r.Token = claim.Worker, claim.Token-random.Int64N(2)*random.Int64N(2)
		r.LastMs = time.Now().UnixMilli() + random.Int64N(100) - 50
		return r
	}
	*tokens++
	r.Token = *tokens - random.Int64N(2)*random.Int64N(10)
	if random.IntN(3) == 0 {
		r.Low += random.Int32N(4)
		r.High = r.Low
	}
	return r
}

func askArbiter(t testing.TB, c *pgx.Conn, r keeper.Request) (reply keeper.Reply, clockMs int64, term string) {
	t.Helper()
	err := c.QueryRow(background(t), `SELECT outcome, coalesce(granted, 0), coalesce(floor_ms, 0), coalesce(until_ms, 0),
			coalesce(wait_ms, 0), coalesce(quiet_ms, 0), coalesce(max_ttl_ms, 0), coalesce(other, ''), clock_ms, incarnation
		FROM snowflake_arbiter.ask($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`, r.Kind, r.Holder, r.Name, r.Token, r.TTLMs, r.NowMs,
		r.Low, r.High, r.Worker, r.LastMs).Scan(&reply.Outcome, &reply.Worker, &reply.FloorMs, &reply.UntilMs, &reply.WaitMs,
		&reply.QuietMs, &reply.MaxTTLMs, &reply.Other, &clockMs, &term)
	if err != nil {
		t.Fatal(err)
	}
	return reply, clockMs, term
}

// Claims at the same time get different workers.
func TestArbiterServesManyAtOnce(t *testing.T) {
	const holders = 40
	database := arbiterDatabase(t, shared, time.Minute)
	workers := make([]int32, holders)
	var wait sync.WaitGroup
	for i := range holders {
		wait.Go(func() {
			client := arbiter.New(shared.DSN(database))
			defer client.Close()
			r := keeper.Request{Holder: fmt.Sprint(i), Token: 1, TTLMs: 60000, High: holders - 1}
			reply, err := client.Ask(background(t), r)
			for range 50 { // somebody may be on all that are free at this moment
				if err == nil && reply.Outcome == keeper.Granted {
					break
				}
				reply, err = client.Ask(background(t), r)
			}
			if err != nil || reply.Outcome != keeper.Granted {
				t.Errorf("%v, %+v", err, reply)
			}
			workers[i] = reply.Worker
		})
	}
	wait.Wait()
	seen := map[int32]bool{}
	for _, worker := range workers {
		if seen[worker] {
			t.Errorf("worker %d was granted twice", worker)
		}
		seen[worker] = true
	}
}

// Another cluster, and another timeline, are another incarnation; a restart is not. Grants are safe on disk whatever the
// server's default. The role can do what the keeper must, and nothing else.
func TestArbiterSetUp(t *testing.T) {
	node := backend.Start(t, cluster.Config{Name: "arbiter", Settings: map[string]string{"synchronous_commit": "off"}})
	setUpArbiter(t, node, "postgres")
	c := node.Connect(t, "postgres")
	const incarnation = "SELECT snowflake_arbiter.incarnation()"
	const claim = "SELECT outcome || ' ' || coalesce(granted, -1) FROM snowflake_arbiter.ask(0, 'a', 'a', %d, 30000, 0, 5, 9, 0, 0)"
	first := one[string](t, c, incarnation)
	if got := one[string](t, c, fmt.Sprintf(claim, 1)); got != "0 5" {
		t.Errorf("the first claim: %s", got)
	}
	exec(t, c, "BEGIN")
	one[string](t, c, fmt.Sprintf(claim, 2))
	if got := one[string](t, c, "SHOW synchronous_commit"); got != "on" {
		t.Errorf("synchronous_commit is %s where a lease is granted", got)
	}
	exec(t, c, "COMMIT")
	if got := one[string](t, c, "SELECT concat_ws(' ', worker, holder, held, connected) FROM snowflake_arbiter.leases"); got != "5 a t t" {
		t.Errorf("the view: %s", got)
	}

	setUpArbiter(t, node, "postgres") // once more changes no lease
	if got := one[int64](t, c, "SELECT count(*) FROM snowflake_arbiter.leases WHERE held"); got != 1 {
		t.Errorf("%d leases after setting it up again", got)
	}
	exec(t, c, "CREATE ROLE lessee LOGIN IN ROLE snowflake_keeper; CREATE ROLE stranger LOGIN")
	exec(t, c, "SET ROLE lessee")
	if got := one[string](t, c, fmt.Sprintf(claim, 3)); got != "0 5" {
		t.Errorf("as the role: %s", got)
	}
	wantError(t, tryExec(t, c, "SELECT * FROM snowflake_arbiter.lease"), "42501")
	wantError(t, tryExec(t, c, "SELECT * FROM snowflake_arbiter.leases"), "42501")
	exec(t, c, "SET ROLE stranger")
	wantError(t, tryExec(t, c, fmt.Sprintf(claim, 4)), "42501")

	node.Restart(t, cluster.Immediate)
	c = node.Connect(t, "postgres")
	if again := one[string](t, c, incarnation); again != first {
		t.Errorf("a restart made incarnation %s of %s", again, first)
	}
	standby := backend.Start(t, cluster.Config{Name: "standby", StandbyOf: node})
	node.Crash(t)
	standby.Promote(t)
	c = standby.Connect(t, "postgres")
	if promoted := one[string](t, c, incarnation); promoted == first {
		t.Errorf("the promoted standby is still incarnation %s", first)
	}
	if got := one[string](t, c, fmt.Sprintf(claim, 5)); got != "3 -1" {
		t.Errorf("a claim after the failover: %s", got)
	}
	if got := one[int](t, c, "SELECT outcome FROM snowflake_arbiter.ask(1, 'a', 'a', 3, 30000, 0, 0, 0, 5, 0)"); got != 0 {
		t.Errorf("a renewal after the failover: %d", got)
	}
}

// What can be wrong with a connection is said in one line, without the password.
func TestArbiterErrorsNameTheCause(t *testing.T) {
	empty := newDatabase(t, shared)
	database := arbiterDatabase(t, shared, time.Minute)
	c := shared.Connect(t, database)
	exec(t, c, "DROP ROLE IF EXISTS nobodys; CREATE ROLE nobodys LOGIN")
	t.Cleanup(func() { exec(t, shared.Connect(t, "postgres"), "DROP ROLE nobodys") })
	for name, test := range map[string]struct{ conninfo, want string }{
		"malformed":   {"host=here password=s3cret s3cret", "cannot be read as a connection string"},
		"bad url":     {"postgres://u:s3cret@h:s3cret/x", "cannot be read as a connection string"},
		"service":     {"service=none servicefile=/nowhere password=s3cret", "/nowhere"},
		"nobody":      {"host=127.0.0.1 port=1 password=s3cret sslmode=disable", "127.0.0.1:1: connect: connection refused"},
		"no database": {shared.DSN("missing") + " password=s3cret", `database "missing" does not exist`},
		"no table":    {shared.DSN(empty) + " password=s3cret", "run snowflake_arbiter_setup.sql"},
		"no rights":   {strings.Replace(shared.DSN(database), "user=postgres", "user=nobodys", 1), "grant it the role snowflake_keeper"},
		"libpq's":     {shared.DSN(database) + " keepalives=1 gssencmode=disable", ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(background(t), 5*time.Second)
			defer cancel()
			client := arbiter.New(test.conninfo)
			defer client.Close()
			_, err := client.Ask(ctx, keeper.Request{Holder: "x", TTLMs: 1000, Token: 1})
			if test.want == "" && err == nil {
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.ContainsAny(err.Error(), "\n") {
				t.Errorf("%q wanted in %q", test.want, err)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the password is in %q", err)
			}
		})
	}
}
