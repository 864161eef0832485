package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"

	"pgsnowflake/test/cluster"
)

// uuidCalls are compared on PostgreSQL 18, which has an uuidv7() of its own and Debian's package of pg_uuidv7.
var uuidCalls = []call{
	{name: scan, sql: "count(i) FROM generate_series(1, 1500) i"},
	{name: nextval, sql: "count(nextval('bench_sequence')) FROM generate_series(1, 1500)", less: scan},
	{name: next, sql: "count(snowflake_next()) FROM generate_series(1, 1500)", less: scan},
	{name: uuidv7, sql: "count(public.uuidv7()) FROM generate_series(1, 1500)", less: scan},
	{name: uuid18, sql: "count(pg_catalog.uuidv7()) FROM generate_series(1, 1500)", less: scan},
	{name: pgUUIDv7, sql: "count(uuid_generate_v7()) FROM generate_series(1, 1500)", less: scan},
	{name: random, sql: "count(gen_random_uuid()) FROM generate_series(1, 1500)", less: scan},
}

func howUUID(*bench) string {
	return "As above, on a server of PostgreSQL 18 in a container of this machine."
}

// measureUUID takes its figures in a container. Where there is none, the section says so and has no figures.
func measureUUID(ctx context.Context, b *bench) (string, error) {
	conn, err := b.startInContainer(ctx)
	if err != nil {
		log.Print(err)
		return "**Not measured: no container with PostgreSQL 18 and pg_uuidv7 could be started on this machine.**\n", nil
	}
	var server string
	if err := conn.QueryRow(ctx, "SHOW server_version").Scan(&server); err != nil {
		return "", err
	}
	if err := b.compare(ctx, conn, uuidCalls, "call 18/"); err != nil {
		return "", err
	}
	return fmt.Sprintf("PostgreSQL %s.\n\n%s", server, b.callsTable(uuidCalls, "call 18/")), nil
}

// startInContainer starts a server of PostgreSQL 18 and opens a session in it. What fails there must not cost the
// figures that were taken before.
func (b *bench) startInContainer(ctx context.Context) (conn *pgx.Conn, err error) {
	os.Setenv("SNOWFLAKE_TEST_BACKEND", "auto")
	os.Setenv("SNOWFLAKE_TEST_PG", "18")
	os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true") // the container is removed here, and nothing more is downloaded
	backend, err := cluster.Open(ctx)
	if err != nil {
		return nil, err
	}
	if backend.Name() != "docker" {
		return nil, errors.New("no container engine answers")
	}
	defer func() {
		if failed, ok := recover().(failure); ok {
			err = failed
		}
	}()
	node := backend.Start(attempt{&b.main}, cluster.Config{Name: "bench18", Settings: map[string]string{
		"jit": "off", "max_parallel_workers_per_gather": "0",
	}})
	conn = node.Connect(attempt{&b.main}, "postgres")
	_, err = conn.Exec(ctx, "CREATE EXTENSION snowflake; CREATE EXTENSION pg_uuidv7;"+pasted, pgx.QueryExecModeSimpleProtocol)
	return conn, err
}

// attempt is a cluster.TB that panics with a failure instead of ending the process.
type attempt struct{ *cluster.Main }

type failure struct{ error }

func (attempt) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }
