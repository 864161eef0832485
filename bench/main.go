// Command bench measures what the extension costs beside what a server has anyway, and writes the results as a page
// of Markdown. Everything that is compared is measured in one run on one server: absolute numbers belong to the
// machine that the page names, ratios travel better. The server is a private one, which test/cluster starts.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"pgsnowflake/test/cluster"
)

// rounds is how often each measurement is repeated; the page shows the median and the extremes.
const rounds = 5

// measurement is one section of the page.
type measurement struct {
	name  string // for -only
	title string
	how   string // what was done, for the reader
	run   func(context.Context, *bench) (string, error)
}

var measurements = []measurement{
	{"calls", "What a call costs", howCalls, measureCalls},
	{"mark", "What the durable mark costs", howMark, measureMark},
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	out := flag.String("out", "docs/bench/README.md", "the page to write")
	only := flag.String("only", "", "take only the measurement of this name, and write no page")
	flag.Parse()
	page, err := measure(context.Background(), *only)
	if err == nil && *only == "" {
		err = write(*out, page)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(page)
}

// bench is the server that is measured.
type bench struct {
	main      cluster.Main
	backend   cluster.Backend
	node      *cluster.Node
	databases int
}

// newDatabase opens a session in a new database with the extension.
func (b *bench) newDatabase() *pgx.Conn {
	b.databases++
	name := fmt.Sprintf("bench_%d", b.databases)
	b.mustExec(b.node.Connect(&b.main, "postgres"), "CREATE DATABASE "+name)
	conn := b.node.Connect(&b.main, name)
	b.mustExec(conn, "CREATE EXTENSION snowflake")
	return conn
}

func (b *bench) mustExec(conn *pgx.Conn, sql string) {
	if _, err := conn.Exec(context.Background(), sql); err != nil {
		b.main.Fatalf("%s: %v", sql, err)
	}
}

// measure starts the server, takes the measurements and returns the page.
func measure(ctx context.Context, only string) (string, error) {
	os.Setenv("SNOWFLAKE_TEST_BACKEND", "local") // what is measured is this machine
	backend, err := cluster.Open(ctx)
	if err != nil {
		return "", err
	}
	b := &bench{backend: backend}
	defer b.main.Close()
	b.node = backend.Start(&b.main, cluster.Config{Name: "bench", Settings: map[string]string{
		"jit": "off", "max_parallel_workers_per_gather": "0",
	}})
	page, err := header(ctx, b.newDatabase())
	if err != nil {
		return "", err
	}
	for _, m := range measurements {
		if only != "" && m.name != only {
			continue
		}
		log.Print(m.title)
		section, err := m.run(ctx, b)
		if err != nil {
			return "", fmt.Errorf("%s: %w", m.name, err)
		}
		page += fmt.Sprintf("\n## %s\n\n%s\n\n%s", m.title, m.how, section)
	}
	return page, nil
}

// header says what was measured on what.
func header(ctx context.Context, conn *pgx.Conn) (string, error) {
	var server, extension string
	err := conn.QueryRow(ctx, `SELECT current_setting('server_version'), extversion
		FROM pg_extension WHERE extname = 'snowflake'`).Scan(&server, &extension)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("# Benchmarks\n\nWritten by `make bench` on %s: snowflake %s, PostgreSQL %s, %s, %s, %d cores.\n",
		time.Now().Format(time.DateOnly), extension, server, runtime.Version(), cpuModel(), runtime.NumCPU()), nil
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

// spread returns the lowest, the median and the highest of an odd number of values.
func spread(values []float64) (low, median, high float64) {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1]
}

func write(path, page string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(page), 0o644)
}
