// Package test proves through SQL, against real servers, what the README promises. Which servers: test/cluster.
//
// Most tests share one server and take a database of their own; those that stop, crash or reconfigure a server
// start their own.
package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"pgsnowflake/test/cluster"
)

var (
	backend cluster.Backend
	shared  *cluster.Node // the server that tests share; nobody stops or reconfigures it
)

func TestMain(m *testing.M) {
	ctx := context.Background()
	var err error
	if backend, err = cluster.Open(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "no server to test with:", err)
		os.Exit(1)
	}
	fmt.Printf("backend %s, PostgreSQL %d\n", backend.Name(), backend.Major())
	code := 1
	func() {
		main := &cluster.Main{}
		defer main.Close()
		shared = backend.Start(main, cluster.Config{Name: "shared", Settings: map[string]string{
			"max_connections": "300",
		}})
		code = m.Run()
	}()
	os.Exit(code)
}

var databases atomic.Int32

// emptyDatabase makes a database on a node and returns its name.
func emptyDatabase(t testing.TB, node *cluster.Node) string {
	t.Helper()
	name := fmt.Sprintf("t%d", databases.Add(1))
	exec(t, node.Connect(t, "postgres"), "CREATE DATABASE "+name)
	return name
}

// newDatabase makes a database with the extension on a node and returns its name.
func newDatabase(t testing.TB, node *cluster.Node) string {
	t.Helper()
	name := emptyDatabase(t, node)
	exec(t, node.Connect(t, name), "CREATE EXTENSION snowflake")
	return name
}

// connect opens a session in a new database of the shared server.
func connect(t testing.TB) *pgx.Conn {
	t.Helper()
	return shared.Connect(t, newDatabase(t, shared))
}

// background is long enough for any statement here and short enough to end a hung test.
func background(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// exec runs statements that return nothing of interest, with the simple protocol.
func exec(t testing.TB, c *pgx.Conn, sql string) {
	t.Helper()
	if _, err := c.Exec(background(t), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// tryExec runs a statement and gives back its error.
func tryExec(t testing.TB, c *pgx.Conn, sql string) error {
	t.Helper()
	_, err := c.Exec(background(t), sql, pgx.QueryExecModeSimpleProtocol)
	return err
}

// one returns the single value of a query.
func one[T any](t testing.TB, c *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := c.QueryRow(background(t), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// column returns the single column of a query.
func column[T any](t testing.TB, c *pgx.Conn, sql string, args ...any) []T {
	t.Helper()
	rows, err := c.Query(background(t), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return values
}

// sqlError returns the server's error in err, or an empty one.
func sqlError(err error) *pgconn.PgError {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e
	}
	return &pgconn.PgError{}
}

// wantError fails unless err has the SQLSTATE and, in its message, detail and hint together, every text.
func wantError(t testing.TB, err error, sqlState string, texts ...string) {
	t.Helper()
	e := sqlError(err)
	all := e.Message + "\n" + e.Detail + "\n" + e.Hint
	if e.Code != sqlState {
		t.Fatalf("SQLSTATE %q wanted, got %q: %v", sqlState, e.Code, err)
	}
	for _, text := range texts {
		if !strings.Contains(all, text) {
			t.Errorf("%q is missing in the error:\n%s", text, all)
		}
	}
}

// wantRising fails unless the ids rise strictly.
func wantRising(t testing.TB, what string, ids []int64) {
	t.Helper()
	for i := 1; i < len(ids); i++ {
		if ids[i] <= ids[i-1] {
			t.Fatalf("%s: %d follows %d", what, ids[i], ids[i-1])
		}
	}
}

// wantDistinct fails when an id occurs twice.
func wantDistinct(t testing.TB, ids ...[]int64) {
	t.Helper()
	seen := make(map[int64]struct{})
	for _, list := range ids {
		for _, id := range list {
			if _, again := seen[id]; again {
				t.Fatalf("id %d was made twice", id)
			}
			seen[id] = struct{}{}
		}
	}
}

// sessions runs work in n sessions of a database at once and waits for all.
func sessions(t *testing.T, node *cluster.Node, database string, n int, work func(i int, c *pgx.Conn) error) {
	t.Helper()
	conns := make([]*pgx.Conn, n)
	for i := range conns {
		conns[i] = node.Connect(t, database)
	}
	var wg sync.WaitGroup
	failed := make([]error, n)
	for i := range conns {
		wg.Add(1)
		go func() {
			defer wg.Done()
			failed[i] = work(i, conns[i])
		}()
	}
	wg.Wait()
	for i, err := range failed {
		if err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
	}
}

// nextIDs makes n ids in one statement, one call of snowflake_next() each.
func nextIDs(c *pgx.Conn, n int) (ids []int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	err = c.QueryRow(ctx, "SELECT array_agg(snowflake_next()) FROM generate_series(1, $1::int)", n).Scan(&ids)
	return ids, err
}

// useVariant makes the functions of a database come from a build of the library with a fault in it.
func useVariant(t testing.TB, c *pgx.Conn, variant string) {
	t.Helper()
	exec(t, c, fmt.Sprintf(`UPDATE pg_proc SET probin = '$libdir/snowflake-variants/%s/snowflake'
		WHERE probin = '$libdir/snowflake'`, variant))
}
