package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// key is a kind of primary key that a table fills by itself.
type key struct {
	name   string
	column string
	slow   bool // so much that one session is enough
}

// The keys that figures compare.
const (
	identityKey  = "identity"
	snowflakeKey = "`snowflake_next()`"
	uuidv7Key    = "`uuidv7()`"
	randomKey    = "`gen_random_uuid()`"
)

var keys = []key{
	{identityKey, "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY", false},
	{snowflakeKey, "bigint PRIMARY KEY DEFAULT snowflake_next()", false},
	{uuidv7Key, "uuid PRIMARY KEY DEFAULT public.uuidv7()", false},
	{randomKey, "uuid PRIMARY KEY DEFAULT gen_random_uuid()", false},
	{"a snowflake in PL/pgSQL", "bigint PRIMARY KEY DEFAULT pasted_snowflake()", true},
	{"a UUIDv7 in SQL", "uuid PRIMARY KEY DEFAULT pasted_uuidv7()", true},
}

func howInsert(b *bench) string {
	return fmt.Sprintf("`INSERT INTO t (payload) SELECT ... FROM generate_series(...)` of %d rows in all into an empty table "+
		"whose key has this DEFAULT, by one session and by eight at once, right after a checkpoint.", b.million)
}

// measureInsert fills tables with every kind of key.
func measureInsert(ctx context.Context, b *bench) (out string, err error) {
	conn := b.newDatabase()
	var fast []key
	for _, k := range keys {
		if !k.slow {
			fast = append(fast, k)
		}
	}
	if out, err = b.fill(ctx, b.connect(conn, 1), keys, "insert 1/", insertRows(b.million)); err != nil {
		return "", err
	}
	crowd := b.connect(conn, 8)
	eight, err := b.fill(ctx, crowd, fast, "insert 8/", insertRows(b.million/len(crowd)))
	return "One session:\n\n" + out + "\nEight sessions:\n\n" + eight, err
}

func insertRows(n int) string {
	return fmt.Sprintf("INSERT INTO filled (payload) SELECT i FROM generate_series(1, %d) i", n)
}

func howCopy(b *bench) string {
	return fmt.Sprintf("`COPY t (payload) FROM` a file on the server of %d rows, into an empty table whose key has this "+
		"DEFAULT, by one session.", b.million)
}

// measureCopy fills tables from a file.
func measureCopy(ctx context.Context, b *bench) (string, error) {
	conn := b.newDatabase()
	var file string
	if err := conn.QueryRow(ctx, "SELECT current_setting('data_directory') || '/payload'").Scan(&file); err != nil {
		return "", err
	}
	b.mustExec(conn, fmt.Sprintf("COPY (SELECT i FROM generate_series(1, %d) i) TO '%s'", b.million, file))
	return b.fill(ctx, []*pgx.Conn{conn}, keys[:4], "copy/", fmt.Sprintf("COPY filled (payload) FROM '%s'", file))
}

// filled is what filling a table took.
type filled struct {
	seconds float64
	wal     float64 // MB
	index   float64 // MB
}

// fill lets all sessions run a statement that fills a table, for each kind of key, and records what it took.
func (b *bench) fill(ctx context.Context, conns []*pgx.Conn, keys []key, prefix, sql string) (string, error) {
	err := inTurn(b.rounds, len(keys), func(i int) (f filled, err error) {
		b.mustExec(conns[0], "DROP TABLE IF EXISTS filled; CREATE TABLE filled (id "+keys[i].column+", payload integer); CHECKPOINT")
		var from string
		if err = conns[0].QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&from); err != nil {
			return f, err
		}
		f.seconds, err = atOnce(conns, func(_ int, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
			return err
		})
		if err != nil {
			return f, err
		}
		err = conns[0].QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - $1::text::pg_lsn)::float8 / 1048576,
			pg_relation_size('filled_pkey') / 1048576.0::float8`, from).Scan(&f.wal, &f.index)
		return f, err
	}, func(i int, f filled) {
		b.record(prefix+keys[i].name, f.seconds)
		b.record(prefix+keys[i].name+"/wal", f.wal)
		b.record(prefix+keys[i].name+"/index", f.index)
	})
	if err != nil {
		return "", err
	}
	var rows [][]string
	for _, k := range keys {
		name := prefix + k.name
		rows = append(rows, []string{k.name, cell(b.figures[name]), cell(b.ratio(name, prefix+identityKey)),
			cell(b.ratio(name, prefix+randomKey)), number(median(b.figures[name+"/wal"])), number(median(b.figures[name+"/index"]))})
	}
	return table([]string{"key", "seconds", "to identity", "to `gen_random_uuid()`", "WAL, MB", "index, MB"}, rows), nil
}
