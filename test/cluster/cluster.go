// Package cluster starts PostgreSQL servers for tests, and stops, crashes, promotes and misleads them.
//
// A suite is written once and runs on either of two backends: servers made by initdb on this machine, or servers
// in containers of the image that docker/build.sh makes. A backend only says how to run a program beside a server
// (host); all that a server can do (Node) is built on that, once.
//
//	SNOWFLAKE_TEST_BACKEND   "local", "docker" or "auto", the default: docker where an engine answers, else local
//	SNOWFLAKE_TEST_PG        the major to test with; the default is that of PG_CONFIG (else pg_config in the path)
//
// On the local backend the extension must have been installed before; docker builds it into its image.
package cluster

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
)

// TB is what this package needs of a testing.TB. A TestMain, which has none, uses a Main.
type TB interface {
	Helper()
	Cleanup(func())
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Main is the TB of a TestMain. Its zero value is ready; Close must run before the process exits.
type Main struct {
	mu       sync.Mutex
	cleanups []func()
}

// Helper does nothing.
func (m *Main) Helper() {}

// Cleanup has f run by Close, the last one first.
func (m *Main) Cleanup(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cleanups = append(m.cleanups, f)
}

// Logf prints to stderr.
func (m *Main) Logf(format string, args ...any) { log.Printf(format, args...) }

// Fatalf cleans up and ends the process.
func (m *Main) Fatalf(format string, args ...any) {
	m.Close()
	log.Fatalf(format, args...)
}

// Close runs what Cleanup was given.
func (m *Main) Close() {
	m.mu.Lock()
	cleanups := m.cleanups
	m.cleanups = nil
	m.mu.Unlock()
	for _, f := range slices.Backward(cleanups) {
		f()
	}
}

// Config says what kind of server to start. Its zero value is a plain one.
type Config struct {
	// Name is the server's cluster_name, and with it the name of a standby at its primary; "node" unless set.
	Name string
	// Settings are lines of postgresql.conf, by name, in force from the first start. Values need no quotes. They
	// come on top of this package's own (see defaults), and on a standby on top of its primary's.
	Settings map[string]string
	// Env is added to the server's environment, each as "NAME=value".
	Env []string
	// StandbyOf makes the server a streaming standby of a running one, from a base backup, without a slot.
	StandbyOf *Node
	// FakeClock lets SetClock move the server's wall clock; its monotonic clock stays real. Needs libfaketime.
	FakeClock bool
}

// Network is a way between servers that can be cut, beside the one that all servers share.
type Network struct {
	name string // of docker's network; empty on the local backend
}

// Backend starts servers of one major.
type Backend interface {
	// Name is "local" or "docker".
	Name() string
	// Major is the servers' PostgreSQL major, such as 15.
	Major() int
	// NewNetwork makes a network that no server has joined, and removes it when the test ends. It comes before the
	// servers, so that they are gone by then.
	NewNetwork(t TB) *Network
	// Start makes a server, waits until it takes connections, and removes it when the test ends.
	Start(t TB, cfg Config) *Node
}

// Open returns the backend that the environment asks for. It may build an image first, which takes minutes.
func Open(ctx context.Context) (Backend, error) {
	switch name := cmp.Or(os.Getenv("SNOWFLAKE_TEST_BACKEND"), "auto"); name {
	case "local":
		return openLocal(ctx)
	case "docker":
		return openDocker(ctx)
	case "auto":
		if dockerAnswers(ctx) {
			return openDocker(ctx)
		}
		return openLocal(ctx)
	default:
		return nil, fmt.Errorf("SNOWFLAKE_TEST_BACKEND is %q; there are local, docker and auto", name)
	}
}

// host is where one server runs, this machine or a container, and how to get there.
type host struct {
	// run runs a program in dir as the server's user, with Postgres's programs in its path and its environment
	// set so that they find the server. It returns stdout and then stderr, also with an error.
	run    func(ctx context.Context, stdin string, argv ...string) (string, error)
	remove func() // ends the server, however it is, and removes all of it

	container string            // its id; empty on the local backend
	dir       string            // the server's own folder, empty at first
	settings  map[string]string // where to listen
	client    address           // the server as this process reaches it
	peer      address           // the server as others of its network reach it
}

// address is a TCP address, or the folder and number of a Unix socket.
type address struct {
	host string
	port int
}

// defaults are the settings of every server, unless a test says otherwise: room for many sessions, little memory,
// and for standbys that have no slot, some WAL to catch up from. Durability stays on.
var defaults = map[string]string{
	"max_connections": "200",
	"shared_buffers":  "32MB",
	"wal_keep_size":   "256MB",
}

// startOn makes a server on a fresh host, which it removes when the test ends.
func startOn(t TB, h *host, cfg Config) *Node {
	t.Helper()
	n := &Node{host: h, cfg: cfg, settings: maps.Clone(defaults)}
	if cfg.StandbyOf != nil {
		maps.Copy(n.settings, cfg.StandbyOf.currentSettings())
	}
	maps.Copy(n.settings, map[string]string{"cluster_name": n.Name()})
	maps.Copy(n.settings, cfg.Settings)
	maps.Copy(n.settings, h.settings)
	t.Cleanup(func() {
		if test, ok := t.(interface{ Failed() bool }); ok && test.Failed() {
			t.Logf("the log of server %s ends so:\n%s", n.Name(), n.logTail())
		}
		h.remove()
	})
	n.prepare(t)
	n.Start(t)
	return n
}

var versionNumber = regexp.MustCompile(`^PostgreSQL (\d+)`)

// majorOf asks a pg_config for its major.
func majorOf(ctx context.Context, pgConfig string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, pgConfig, "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("%s --version: %w", pgConfig, err)
	}
	match := versionNumber.FindSubmatch(out)
	if match == nil {
		return 0, fmt.Errorf("%s --version says %q", pgConfig, out)
	}
	return strconv.Atoi(string(match[1]))
}

// wantedMajor is SNOWFLAKE_TEST_PG, or 0 when it is not set.
func wantedMajor() (int, error) {
	text := os.Getenv("SNOWFLAKE_TEST_PG")
	if text == "" {
		return 0, nil
	}
	major, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("SNOWFLAKE_TEST_PG is %q, not a major such as 15", text)
	}
	return major, nil
}

// pgConfig is the pg_config that the environment names.
func pgConfig() string { return cmp.Or(os.Getenv("PG_CONFIG"), "pg_config") }
