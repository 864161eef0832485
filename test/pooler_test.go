package test

import (
	"fmt"
	"strings"
	"testing"

	"pgsnowflake/test/cluster"
)

// Fifty clients over five sessions of a pooler (pgbouncer#102, #418; authentik#23876): no id repeats, and when the
// pooler has gone no lease is left.
func TestPooler(t *testing.T) {
	// The primary key refuses a repeat, and each row says which session made it.
	const script = `INSERT INTO t (worker, backend) SELECT snowflake_worker_id(snowflake_next()), pg_backend_pid() FROM generate_series(1, 20);`
	for _, mode := range []struct{ name, pool, reset, protocol, script string }{
		{"session", "session", "DISCARD ALL", "extended", script},
		{"transaction", "transaction", "", "extended", script},
		{"transaction, prepared in SQL", "transaction", "", "simple", "BEGIN; PREPARE p AS " + script + " EXECUTE p; DEALLOCATE p; COMMIT;"},
		{"transaction, prepared by the protocol", "transaction", "", "prepared", script},
	} {
		t.Run(mode.name, func(t *testing.T) {
			statements := ""
			if mode.pool == "transaction" && mode.protocol == "prepared" {
				var minor int
				version := run(t, shared, "pgbouncer", "--version")
				if n, _ := fmt.Sscanf(version, "PgBouncer 1.%d", &minor); n == 1 && minor < 21 {
					t.Skipf("pgbouncer keeps prepared statements apart from 1.21 on, this is 1.%d", minor)
				}
				statements = "max_prepared_statements = 100"
			}
			node := backend.Start(t, cluster.Config{Name: "pooled"})
			database := newDatabase(t, node)
			c := node.Connect(t, database)
			exec(t, c, "CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_next(), worker integer, backend integer)")
			dir := strings.TrimSpace(run(t, node, "mktemp", "-d"))
			write(t, node, dir+"/script.sql", mode.script)
			write(t, node, dir+"/users", `"postgres" ""`)
			write(t, node, dir+"/pgbouncer.ini", fmt.Sprintf(`[databases]
%[1]s = %[2]s
[pgbouncer]
unix_socket_dir = %[3]s
unix_socket_mode = 0777
listen_port = 6432
listen_addr =
auth_type = trust
auth_file = %[3]s/users
logfile = %[3]s/log
pidfile = %[3]s/pid
pool_mode = %[4]s
server_reset_query = %[5]s
default_pool_size = 5
max_client_conn = 100
%[6]s
`, database, strings.ReplaceAll(node.PeerConninfo(database), " sslmode=disable", ""), dir, mode.pool, mode.reset, statements))
			run(t, node, "pgbouncer", "-d", dir+"/pgbouncer.ini")
			run(t, node, "sh", "-c", "for i in $(seq 100); do test -S "+dir+"/.s.PGSQL.6432 && exit; sleep 0.1; done; exit 1")
			stop := func() { node.Exec(background(t), "sh", "-c", "kill -INT $(cat "+dir+"/pid)") }
			t.Cleanup(func() {
				stop()
				if t.Failed() {
					t.Log(run(t, node, "cat", dir+"/log"))
				}
			})

			connectEach := []string{}
			if mode.pool == "session" {
				connectEach = []string{"-C"} // a new client for each transaction, so that sessions change hands
			}
			out := run(t, node, append(append([]string{"pgbench", "-n", "-h", dir, "-p", "6432", "-c", "50", "-j", "2", "-t", "20", "-M", mode.protocol,
				"-f", dir + "/script.sql"}, connectEach...), database)...)
			if !strings.Contains(out, "number of transactions actually processed: 1000/1000") {
				t.Fatal(out)
			}
			if n := one[int64](t, c, "SELECT count(DISTINCT id) FROM t"); n != 20_000 {
				t.Errorf("%d ids", n)
			}
			if n := one[int64](t, c, "SELECT count(DISTINCT backend) FROM t"); n > 5 {
				t.Errorf("%d sessions served the clients", n)
			}
			stop()
			waitFor(t, c, "SELECT count(*) = 0 FROM snowflake_workers")
			if got := one[int](t, c, "SELECT snowflake_worker_id(snowflake_next())"); got != 0 {
				t.Errorf("when all leases are free the next is %d", got)
			}
		})
	}
}

// write makes a file on a node's host.
func write(t *testing.T, node *cluster.Node, path, content string) {
	t.Helper()
	if out, err := node.ExecIn(background(t), content, "sh", "-c", "cat > "+path); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
