package test

// From one PostgreSQL major to the next, by pg_upgrade and by a dump: tables keep their rows and their DEFAULTs, and
// ids go on rising.

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgsnowflake/test/cluster"
)

// older returns the majors before the backend's that there are images of, the nearest first.
func older(t *testing.T) (majors []int) {
	t.Helper()
	if backend.Name() != "docker" || os.Getenv("SNOWFLAKE_TEST_MATRIX") == "" {
		t.Skip("needs the images of two majors: make test PG=all has them")
	}
	list, err := os.ReadFile("../docker/majors")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		var major int
		if _, err := fmt.Sscan(line, &major); err != nil {
			t.Fatalf("docker/majors: %q: %v", line, err)
		}
		if major < backend.Major() {
			majors = append([]int{major}, majors...)
		}
	}
	if len(majors) == 0 {
		t.Skipf("there is no image of a major before %d", backend.Major())
	}
	return majors
}

// upgradeScript makes a server of major $1, fills it with $3, and upgrades it to $2. What $4 asks must be the same
// before and after; it prints what $5 asks in the end.
const upgradeScript = `set -e
old=/usr/lib/postgresql/$1/bin new=/usr/lib/postgresql/$2/bin
mkdir upgrade
cd upgrade
export PGHOST=$PWD PGPORT=5499 PGOPTIONS='-c search_path=public,ids'
start() { "$1/pg_ctl" start -s -w -D "$2" -l "$2.log" -o "-k $PWD -p $PGPORT -c listen_addresses=''"; }
ask() { psql -X -q -A -t -v ON_ERROR_STOP=1 -d shop -c "$1"; }
$old/initdb -N -k -A trust -U postgres -E UTF8 --locale=C old >/dev/null
start $old old
psql -X -q -d postgres -c "CREATE DATABASE shop"
ask "$3"
ask "$4" >before
$old/pg_ctl stop -s -w -D old
$new/initdb -N -k -A trust -U postgres -E UTF8 --locale=C new >/dev/null
$new/pg_upgrade -b $old -B $new -d old -D new -U postgres -s "$PWD" >upgrade.log ||
	{ cat upgrade.log $(find new -name 'pg_upgrade_dump_*.log'); exit 1; }
start $new new
ask "$4" >after
diff before after
ask "$5"
$new/pg_ctl stop -s -w -D new`

// withoutVersions takes away what PostgreSQL 15.20 and 17.12 note with each column and hide in their own dumps: programs of
// the majors after them write it out as an option that no server takes, whatever the table.
const withoutVersions = `; UPDATE pg_catalog.pg_attribute SET attoptions = NULL WHERE attoptions::text LIKE '%pg_attver=%'`

// withoutDomain gives a table's column what its domain gave: pg_upgrade makes domains before the casts that they need
// (pg_dump's order of types and casts, for every extension's types).
const withoutDomain = `; ALTER TABLE tickets ALTER id TYPE ids.snowflake, ALTER id SET DEFAULT ids.snowflake_next(); DROP DOMAIN ticket`

func TestUpgradeOfServer(t *testing.T) {
	from := older(t)[0]
	upgrade, err := cluster.OpenUpgrade(context.Background(), from, backend.Major())
	if err != nil {
		t.Fatal(err)
	}
	node := upgrade.Start(t, cluster.Config{Name: "upgrade"})
	out, err := node.Exec(background(t), "bash", "-c", upgradeScript, "upgrade", fmt.Sprint(from),
		fmt.Sprint(backend.Major()), fmt.Sprintf(shop, "ids")+withoutDomain+withoutVersions,
		shopDigest+" UNION ALL SELECT last_value::text FROM snowflake_mark UNION ALL SELECT last_value::text FROM snowflake_epoch",
		"INSERT INTO orders (n) VALUES (-1); SELECT id > (SELECT max(id) FROM tickets) FROM orders WHERE n = -1")
	if err != nil {
		t.Fatalf("from %d: %v\n%s", from, err, out)
	}
	if strings.TrimSpace(out) != "t" {
		t.Errorf("after pg_upgrade from %d new ids do not rise: %s", from, out)
	}
}

// Dumps of each of the two majors before, restored by this one's programs.
func TestDumpOfOlderMajor(t *testing.T) {
	majors := older(t)
	for _, from := range majors[:min(2, len(majors))] {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			source, err := cluster.OpenMajor(context.Background(), from)
			if err != nil {
				t.Fatal(err)
			}
			testMoves(t, source.Start(t, cluster.Config{Name: "older"}), shared, withoutVersions)
		})
	}
}
