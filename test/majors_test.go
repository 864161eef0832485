package test

// From one PostgreSQL major to the next, by pg_upgrade and by a dump: tables keep their rows and their DEFAULTs, and
// ids go on rising.

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

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

// shopSQL makes tables whose DEFAULTs, indexes and views use the extension, which is in a schema of its own.
const shopSQL = `
CREATE SCHEMA ids;
CREATE EXTENSION snowflake SCHEMA ids;
CREATE TABLE orders (
	id bigint PRIMARY KEY DEFAULT ids.snowflake_next(),
	number ids.snowflake UNIQUE DEFAULT ids.snowflake_next(),
	key uuid UNIQUE DEFAULT ids.uuidv7(),
	guid uuid UNIQUE DEFAULT ids.sequential_uuid('end'));
CREATE INDEX ON orders (ids.snowflake_worker_id(id));
CREATE VIEW recent AS SELECT * FROM orders WHERE ids.snowflake_between(id, '2026-01-01Z', 'infinity');
INSERT INTO orders SELECT FROM generate_series(1, 1000);`

// shopState is what must be the same before and after: rows, DEFAULTs, and the extension with its mark.
const shopState = `
SELECT count(*), md5(string_agg(orders::text, ',' ORDER BY id)) FROM orders
UNION ALL SELECT count(*), 'recent' FROM recent
UNION ALL SELECT attnum, pg_get_expr(adbin, adrelid) FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
	WHERE adrelid = 'orders'::regclass
UNION ALL SELECT last_value, 'mark' FROM ids.snowflake_mark
UNION ALL SELECT last_value, 'epoch' FROM ids.snowflake_epoch
UNION ALL SELECT 0, extname || extversion FROM pg_extension
	WHERE extname = 'snowflake' AND extnamespace = 'ids'::regnamespace
ORDER BY 2, 1`

// shopGoesOn inserts and says whether all new ids are above all old ones.
const shopGoesOn = `
CREATE TEMP TABLE before AS SELECT max(id) AS id, max(number) AS number, max(key::text) AS key FROM orders;
WITH new AS (INSERT INTO orders SELECT FROM generate_series(1, 1000) RETURNING *)
SELECT count(*) = 1000 AND bool_and(new.id > before.id AND new.number > before.number AND new.key::text > before.key)
	FROM new, before`

// upgradeScript makes a server of major $1, fills it, and upgrades it to $2. It prints the state before and after.
const upgradeScript = `set -e
old=/usr/lib/postgresql/$1/bin new=/usr/lib/postgresql/$2/bin
mkdir upgrade
cd upgrade
start() { "$1/pg_ctl" start -s -w -D "$2" -l "$2.log" -o "-k $PWD -p 5499 -c listen_addresses=''"; }
ask() { psql -X -q -A -t -v ON_ERROR_STOP=1 -h "$PWD" -p 5499 -U postgres -c "$1" shop; }
$old/initdb -N -k -A trust -U postgres -E UTF8 --locale=C old >/dev/null
start $old old
psql -X -q -h "$PWD" -p 5499 -U postgres -c "CREATE DATABASE shop" postgres
ask "$3"
ask "$4" >before
$old/pg_ctl stop -s -w -D old
$new/initdb -N -k -A trust -U postgres -E UTF8 --locale=C new >/dev/null
$new/pg_upgrade -b $old -B $new -d old -D new -U postgres -s "$PWD" >upgrade.log || { cat upgrade.log; exit 1; }
start $new new
ask "$4" >after
diff before after
ask "$5"
$new/pg_ctl stop -s -w -D new`

func TestUpgradeOfServer(t *testing.T) {
	from := older(t)[0]
	upgrade, err := cluster.OpenUpgrade(context.Background(), from, backend.Major())
	if err != nil {
		t.Fatal(err)
	}
	node := upgrade.Start(t, cluster.Config{Name: "upgrade"})
	out, err := node.Exec(background(t), "bash", "-c", upgradeScript, "upgrade", fmt.Sprint(from),
		fmt.Sprint(backend.Major()), shopSQL, shopState, shopGoesOn)
	if err != nil {
		t.Fatalf("from %d: %v\n%s", from, err, out)
	}
	if strings.TrimSpace(out) != "t" {
		t.Errorf("after pg_upgrade from %d new ids do not rise: %s", from, out)
	}
}

// A dump of each of the two majors before, restored by this one's programs.
func TestDumpOfOlderMajor(t *testing.T) {
	majors := older(t)
	for _, from := range majors[:min(2, len(majors))] {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			source, err := cluster.OpenMajor(context.Background(), from)
			if err != nil {
				t.Fatal(err)
			}
			node := source.Start(t, cluster.Config{Name: "source"})
			exec(t, node.Connect(t, "postgres"), "CREATE DATABASE shop")
			exec(t, node.Connect(t, "shop"), shopSQL)
			database := fmt.Sprintf("shop_of_%d", from)
			exec(t, shared.Connect(t, "postgres"), "CREATE DATABASE "+database)
			out, err := shared.Exec(background(t), "bash", "-c",
				`set -o pipefail; pg_dump -d "$1" | psql -X -q -v ON_ERROR_STOP=1 -d "$2"`, "restore",
				node.PeerConninfo("shop"), shared.PeerConninfo(database))
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			conn := shared.Connect(t, database)
			if got, want := rows(t, conn, shopState), rows(t, node.Connect(t, "shop"), shopState); got != want {
				t.Errorf("restored:\n%s\nwanted:\n%s", got, want)
			}
			before, goesOn, _ := strings.Cut(shopGoesOn, ";")
			exec(t, conn, before)
			if !one[bool](t, conn, goesOn) {
				t.Error("new ids do not rise")
			}
		})
	}
}

// rows returns the rows of a query as text.
func rows(t *testing.T, c *pgx.Conn, sql string) string {
	t.Helper()
	return strings.Join(column[string](t, c, "SELECT r::text FROM ("+sql+") r"), "\n")
}
