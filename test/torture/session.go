package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A client connects again and again, and makes ids at full speed until its session dies.
type client struct {
	r        *run
	index    int
	database string // leasedDatabase or fixedDatabase
	random   *rand.Rand
	order    bool // the order of the session's ids still counts
	last     int64
	spans    []span
}

// The statement that makes ids also tells the clock after them, and which worker the session leases.
const makeIDs = `WITH made AS MATERIALIZED (SELECT %s AS id FROM generate_series(1, $1::int)),
	list AS MATERIALIZED (SELECT array_agg(id) AS ids FROM made)
	SELECT ids, clock_timestamp(), (SELECT coalesce(min(objid::int), -1) FROM pg_locks WHERE pid = pg_backend_pid()
		AND locktype = 'advisory' AND classid = 1936617335 AND objsubid = 7 AND mode = 'ExclusiveLock') FROM list`

func (c *client) live(ctx context.Context) {
	defer func() { c.r.made.add(c.spans) }()
	for ctx.Err() == nil && !c.r.failed() {
		c.session(ctx)
		c.r.made.add(c.spans)
		c.spans = nil
		pause(ctx, time.Duration(c.random.IntN(30))*time.Millisecond)
	}
}

// session makes ids in one session until it ends.
func (c *client) session(ctx context.Context) {
	config, err := pgx.ParseConfig(c.r.dsn(c.database))
	if err != nil {
		c.r.fail(err)
		return
	}
	c.order, c.last = true, 0
	config.ConnectTimeout = 5 * time.Second
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if strings.Contains(n.Message, "sort after those made from now on") {
			c.order = false // said, so allowed: once, for the ids to come
		}
	}
	connecting, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.ConnectConfig(connecting, config)
	if err != nil {
		return
	}
	defer conn.Close(context.Background())
	c.r.sessions.Store(conn.PgConn().PID(), true)
	defer c.r.sessions.Delete(conn.PgConn().PID())
	for ctx.Err() == nil && !c.r.failed() && !conn.IsClosed() && c.random.IntN(200) > 0 {
		if c.random.IntN(20) == 0 {
			c.dropLease(ctx, conn)
		}
		c.makeSome(ctx, conn)
	}
}

// dropLease does what poolers and applications do to a session.
func (c *client) dropLease(ctx context.Context, conn *pgx.Conn) {
	statements := []string{"DISCARD ALL", "SELECT pg_advisory_unlock_all()", "SELECT snowflake_release()",
		"BEGIN; SELECT snowflake_next(); ROLLBACK", "BEGIN; SAVEPOINT s; SELECT snowflake_next(); ROLLBACK TO s; COMMIT"}
	limited, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	_, err := conn.Exec(limited, statements[c.random.IntN(len(statements))], pgx.QueryExecModeSimpleProtocol)
	if c.judge(err); err != nil {
		conn.Exec(limited, "ROLLBACK")
	}
}

// makeSome makes ids with one statement and checks what a session can see of them.
func (c *client) makeSome(ctx context.Context, conn *pgx.Conn) {
	call, count := "snowflake_next()", 1+c.random.IntN(500)
	if c.random.IntN(4) == 0 {
		call, count = "snowflake_next(1000)", 1+c.random.IntN(5)
	}
	steps := c.r.steps.Load()
	limited, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var ids []int64
	var clock time.Time
	var lease int64
	err := conn.QueryRow(limited, fmt.Sprintf(makeIDs, call), pgx.QueryExecModeExec, count).Scan(&ids, &clock, &lease)
	if err != nil {
		c.judge(err)
		return
	}
	c.spans = collect(c.spans, ids)
	if !c.order {
		c.last, c.order = 0, true
		return // the warning came somewhere within this statement
	}
	for _, id := range ids {
		if id <= c.last {
			c.r.fail(fmt.Errorf("session order: %d (worker %d) follows %d (worker %d)", id, id>>12&1023, c.last, c.last>>12&1023))
		}
		c.last = id
	}
	if made := epoch.Add(time.Duration(c.last>>22) * time.Millisecond); made.After(clock) && steps%2 == 0 && steps == c.r.steps.Load() {
		c.r.fail(fmt.Errorf("id %d is of %v, the clock reads %v", c.last, made, clock))
	}
	if worker := c.last >> 12 & 1023; c.database == leasedDatabase && worker != lease {
		c.r.fail(fmt.Errorf("id %d was made as worker %d, which the session does not lease (it leases %d)", c.last, worker, lease))
	}
}

// judge tells the errors that the driver provokes from those that must not be.
func (c *client) judge(err error) {
	var e *pgconn.PgError
	if err == nil || !errors.As(err, &e) {
		return // the connection died
	}
	c.r.errors.add(e.Code)
	switch {
	case strings.HasPrefix(e.Code, "57"), strings.HasPrefix(e.Code, "08"): // cancelled, shut down, gone
	case e.Code == "SF001", e.Code == "SF002": // the clock is behind, the range used up
	case e.Code == "25P02", e.Code == "25006": // after an error in a transaction; on a standby not yet promoted
	default:
		c.r.fail(fmt.Errorf("unexpected error: %s %s %s", e.Code, e.Message, e.Detail))
	}
}

// pause sleeps unless the run ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
