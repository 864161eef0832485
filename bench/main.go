// Command bench measures what the extension costs beside what people use otherwise, and writes the results as a page
// of Markdown and two plots. Everything that is compared is measured in one run, on one server and in turn: absolute
// numbers belong to the machine that the page names, ratios travel better. The server is a private one, which
// test/cluster starts; for what only PostgreSQL 18 has there is one more, in a container.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"pgsnowflake/test/cluster"
)

// sizes say how much is measured.
type sizes struct {
	rounds     int           // how often each figure is taken
	bursts     int           // of calls, in a round
	markRounds int           // how often the builds with and without the mark take turns
	million    int           // ids of a statement that is timed as a whole, and rows of an INSERT or a COPY
	stored     int           // rows of the table for decoding and range filters
	crowds     []int         // sessions that make ids at once
	residents  []int         // sessions whose memory is counted
	visits     int           // sessions that come, call once and go, in a round
	idlers     int           // sessions that do nothing
	idleFor    time.Duration // for so long
	lessees    int           // servers that lease from one arbiter
	renewFor   time.Duration // for so long, once all have a lease
}

var (
	full = sizes{rounds: 7, bursts: 400, markRounds: 21, million: 1_000_000, stored: 10_000_000,
		crowds: []int{1, 2, 8, 32, 128}, residents: []int{1, 100, 500}, visits: 50, idlers: 200, idleFor: 30 * time.Second,
		lessees: 1000, renewFor: 30 * time.Second}

	// quick shows that everything works; its numbers mean little.
	quick = sizes{rounds: 5, bursts: 20, markRounds: 5, million: 50_000, stored: 200_000,
		crowds: []int{1, 2, 8, 32, 128}, residents: []int{1, 10, 100}, visits: 5, idlers: 10, idleFor: time.Second,
		lessees: 50, renewFor: 3 * time.Second}
)

// measurement is one section of the page.
type measurement struct {
	name  string // for -only
	title string
	how   func(*bench) string // what was done, for the reader
	run   func(context.Context, *bench) (string, error)
}

var measurements = []measurement{
	{"calls", "What a call costs", howCalls, measureCalls},
	{"uuid", "UUID version 7 beside the one of PostgreSQL 18", howUUID, measureUUID},
	{"sessions", "Many sessions at once", howSessions, measureSessions},
	{"insert", "Filling a table", howInsert, measureInsert},
	{"copy", "COPY", howCopy, measureCopy},
	{"range", "Decoding, and ranges by time", howRange, measureRange},
	{"visit", "The first call of a session", howVisits, measureVisits},
	{"memory", "Memory and threads", howMemory, measureMemory},
	{"idle", "Idle sessions", howIdle, measureIdle},
	{"mark", "What the durable mark costs", howMark, measureMark},
	{"keeper", "A thousand servers and their arbiter", howKeeper, measureKeeper},
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	out := flag.String("out", "docs/bench", "the folder to write README.md and the plots to")
	only := flag.String("only", "", "take only the measurements of these names, separated by commas, and write nothing")
	small := flag.Bool("quick", false, "measure little, to see that everything works")
	flag.Parse()
	b := &bench{sizes: full, figures: map[string][]float64{}}
	if *small {
		b.sizes = quick
	}
	page, err := b.measure(context.Background(), *only)
	if err == nil && *only == "" {
		err = write(*out, page, b)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(page)
}

// bench is the server that is measured, and what has been found.
type bench struct {
	sizes
	main      cluster.Main
	backend   cluster.Backend
	node      *cluster.Node
	databases int
	figures   map[string][]float64 // one value a round
}

// newDatabase opens a session in a new database with the extension and what the calls need.
func (b *bench) newDatabase() *pgx.Conn {
	b.databases++
	name := fmt.Sprintf("bench_%d", b.databases)
	b.mustExec(b.node.Connect(&b.main, "postgres"), "CREATE DATABASE "+name)
	conn := b.node.Connect(&b.main, name)
	b.mustExec(conn, "CREATE EXTENSION snowflake;"+pasted)
	return conn
}

// connect opens sessions in the database of conn.
func (b *bench) connect(conn *pgx.Conn, n int) []*pgx.Conn {
	conns := make([]*pgx.Conn, n)
	for i := range conns {
		conns[i] = b.node.Connect(&b.main, conn.Config().Database)
	}
	return conns
}

// mustExec runs statements with the simple protocol.
func (b *bench) mustExec(conn *pgx.Conn, sql string) {
	if _, err := conn.Exec(context.Background(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		b.main.Fatalf("%s: %v", sql, err)
	}
}

// measure starts the server, takes the measurements and returns the page.
func (b *bench) measure(ctx context.Context, only string) (page string, err error) {
	os.Setenv("SNOWFLAKE_TEST_BACKEND", "local") // what is measured is this machine
	if b.backend, err = cluster.Open(ctx); err != nil {
		return "", err
	}
	defer b.main.Close()
	b.node = b.backend.Start(&b.main, cluster.Config{Name: "bench", Settings: map[string]string{
		"jit": "off", "max_parallel_workers_per_gather": "0", "max_connections": "600", "autovacuum": "off",
		"shared_buffers": "1GB", "maintenance_work_mem": "512MB", "max_wal_size": "16GB", "checkpoint_timeout": "1h",
	}})
	if page, err = b.header(ctx, b.newDatabase()); err != nil {
		return "", err
	}
	var sections strings.Builder
	for _, m := range measurements {
		if only != "" && !strings.Contains(","+only+",", ","+m.name+",") {
			continue
		}
		log.Print(m.title)
		section, err := m.run(ctx, b)
		if err != nil {
			return "", fmt.Errorf("%s: %w", m.name, err)
		}
		fmt.Fprintf(&sections, "\n## %s\n\n%s\n\n%s", m.title, m.how(b), section)
	}
	return page + sections.String() + "\n## Targets\n\n" + b.targetsTable(), nil
}

// header says what was measured on what.
func (b *bench) header(ctx context.Context, conn *pgx.Conn) (string, error) {
	var server, extension string
	err := conn.QueryRow(ctx, `SELECT current_setting('server_version'), extversion
		FROM pg_extension WHERE extname = 'snowflake'`).Scan(&server, &extension)
	if err != nil {
		return "", err
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	page := fmt.Sprintf("# Benchmarks\n\nWritten by `make bench` on %s: snowflake %s, PostgreSQL %s, %s, Linux %s, %s, %d cores.\n",
		time.Now().Format(time.DateOnly), extension, server, runtime.Version(), strings.TrimSpace(string(kernel)), cpuModel(), runtime.NumCPU())
	if b.sizes.million == quick.million {
		page += "\n**A quick run, to see that everything works: the numbers mean little.**\n"
	}
	return page + fmt.Sprintf("\nEvery figure is the median of %d rounds, in which what is compared takes turns, and stands with the "+
		"lowest and the highest of them. Ratios are taken within a round. Why a figure is what it is: "+
		"[profile.md](profile.md).\n\n![what a call costs](calls.svg)\n\n![many sessions at once](sessions.svg)\n", b.rounds), nil
}

func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func write(dir, page string, b *bench) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := b.plot(dir); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "README.md"), []byte(page), 0o644)
}
