// Package arbiter carries a holder's requests to the arbiter, a PostgreSQL set up by
// ext/arbiter/snowflake_arbiter_setup.sql.
package arbiter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"pgsnowflake/keeper"
)

// Client asks an arbiter, over one connection that is opened when it is needed and kept while all goes well. It serves
// one caller at a time.
type Client struct {
	conninfo string
	password string // to keep out of what is said
	conn     *pgx.Conn
}

// New makes a client for a connection string in either of libpq's forms. What it leaves out comes from the service
// file, the environment and the password file, as with libpq.
func New(conninfo string) *Client { return &Client{conninfo: conninfo} }

const ask = `SELECT outcome, coalesce(granted, 0), coalesce(floor_ms, 0), coalesce(until_ms, 0), coalesce(wait_ms, 0),
	coalesce(quiet_ms, 0), coalesce(max_ttl_ms, 0), coalesce(other, ''), coalesce(connected, false)
	FROM snowflake_arbiter.ask($1::int, $2::text, $3::text, $4::bigint, $5::bigint, $6::bigint, $7::int, $8::int, $9::int, $10::bigint)`

// Ask carries a request and waits for the reply until ctx ends. After an error the connection is closed. The error is
// one line that people can read, and holds no password.
func (c *Client) Ask(ctx context.Context, r keeper.Request) (reply keeper.Reply, err error) {
	if err = c.connect(ctx); err == nil {
		err = c.conn.QueryRow(ctx, ask, pgx.QueryExecModeExec, r.Kind, r.Holder, r.Name, r.Token, r.TTLMs, r.NowMs, r.Low, r.High,
			r.Worker, r.LastMs).Scan(&reply.Outcome, &reply.Worker, &reply.FloorMs, &reply.UntilMs, &reply.WaitMs, &reply.QuietMs,
			&reply.MaxTTLMs, &reply.Other, &reply.Connected)
	}
	if err != nil {
		c.Close()
		return reply, errors.New(c.explain(err))
	}
	return reply, nil
}

// Close ends the connection, if there is one.
func (c *Client) Close() {
	if c.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.conn.Close(ctx)
	c.conn = nil
}

// libpqOnly are parameters of libpq that pgx would send to the server as settings.
var libpqOnly = []string{"keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout",
	"gssencmode", "gsslib", "gssdelegation", "sslcompression", "requirepeer", "requiressl", "client_encoding",
	"fallback_application_name", "load_balance_hosts", "ssl_min_protocol_version", "ssl_max_protocol_version", "sslcrl", "sslcrldir",
	"replication"}

func (c *Client) connect(ctx context.Context) error {
	if c.conn != nil {
		return nil
	}
	config, err := pgx.ParseConfig(c.conninfo)
	if err != nil {
		return err
	}
	c.password = config.Password
	for _, name := range libpqOnly {
		delete(config.RuntimeParams, name)
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "snowflake_keeper"
	}
	if config.ValidateConnect == nil { // of several hosts only the primary will do
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	shareTime(ctx, config)
	if c.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return err
	}
	// A request that nobody waits for any more shall not wait for a lock on and on.
	_, err = c.conn.Exec(ctx, "SET default_transaction_isolation = 'read committed'; SET statement_timeout = '10s'",
		pgx.QueryExecModeSimpleProtocol)
	return err
}

// shareTime gives each of several hosts its part of the time that ctx leaves, so that one that is silent, as a machine
// without power is, does not take that of the others.
func shareTime(ctx context.Context, config *pgx.ConnConfig) {
	deadline, bounded := ctx.Deadline()
	if !bounded || len(config.Fallbacks) == 0 {
		return
	}
	addresses := map[string]bool{net.JoinHostPort(config.Host, fmt.Sprint(config.Port)): true}
	for _, fallback := range config.Fallbacks { // a host has two where TLS is tried first
		addresses[net.JoinHostPort(fallback.Host, fmt.Sprint(fallback.Port))] = true
	}
	share := time.Until(deadline) / time.Duration(len(addresses))
	if config.ConnectTimeout == 0 || config.ConnectTimeout > share {
		config.ConnectTimeout = share
	}
}

// explain puts an error into one line; of several hosts it says what is wrong with each.
func (c *Client) explain(err error) string {
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		var texts []string
		for _, err := range several.Unwrap() {
			if text := c.explain(err); !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
		return strings.Join(texts, "; ")
	}
	var malformed *pgconn.ParseConfigError
	var refusal *pgconn.PgError
	var file *fs.PathError
	var network *net.OpError
	switch {
	case errors.As(err, &malformed) && errors.As(err, &file):
		return "snowflake.lease_conninfo names a file that cannot be read: " + c.clean(file.Error())
	case errors.As(err, &malformed): // the text of others may hold what they could not tell from a password
		if inner := errors.Unwrap(malformed); inner != nil &&
			(strings.HasPrefix(inner.Error(), "failed to read service file") || strings.HasPrefix(inner.Error(), "unable to find service")) {
			return "snowflake.lease_conninfo: " + c.clean(inner.Error())
		}
		return "snowflake.lease_conninfo cannot be read as a connection string"
	case errors.As(err, &refusal):
		switch refusal.Code {
		case "3F000", "42P01", "42883": // no such schema, table, function
			return "the arbiter's database has no lease table: run snowflake_arbiter_setup.sql there"
		case "42501":
			return "the role may not lease at the arbiter: grant it the role snowflake_keeper there"
		case "25006":
			return "the arbiter is a standby or read-only"
		}
		return "the arbiter refuses: " + c.clean(refusal.Error())
	case pgconn.Timeout(err):
		return "the arbiter does not answer in time"
	case errors.As(err, &network): // without the address of this end, which is another one each time
		return fmt.Sprintf("the arbiter cannot be reached at %v: %s", network.Addr, c.clean(network.Err.Error()))
	}
	return "the arbiter cannot be reached: " + c.clean(err.Error())
}

// clean makes one line of a text, without the password.
func (c *Client) clean(text string) string {
	if c.password != "" {
		text = strings.ReplaceAll(text, c.password, "***")
	}
	return strings.Join(strings.Fields(text), " ")
}
