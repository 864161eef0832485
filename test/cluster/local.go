package cluster

// The local backend: servers made by initdb on this machine, each in a folder of its own under the system's
// temporary one. They run as the current user, or as "postgres" when that is root, since Postgres refuses root.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

type localBackend struct {
	major  int
	bindir string
	owner  *syscall.Credential // nil: the current user
}

func openLocal(ctx context.Context) (Backend, error) {
	config, major, err := localServer(ctx)
	if err != nil {
		return nil, err
	}
	bindir, err := exec.CommandContext(ctx, config, "--bindir").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --bindir: %w", config, err)
	}
	b := &localBackend{major: major, bindir: strings.TrimSpace(string(bindir))}
	if _, err := os.Stat(b.bindir + "/initdb"); err != nil {
		return nil, fmt.Errorf("no server is installed: %w", err)
	}
	if os.Geteuid() == 0 {
		b.owner, err = credentialOf("postgres")
	}
	return b, err
}

// localServer finds the pg_config of the wanted major: the environment's, else where Debian keeps it.
func localServer(ctx context.Context) (config string, major int, err error) {
	wanted, err := wantedMajor()
	if err != nil {
		return "", 0, err
	}
	major, err = majorOf(ctx, pgConfig())
	if err == nil && (wanted == 0 || wanted == major) {
		return pgConfig(), major, nil
	}
	if wanted == 0 {
		return "", 0, err
	}
	if os.Getenv("PG_CONFIG") != "" {
		return "", 0, errors.Join(err, fmt.Errorf("PG_CONFIG is not that of PostgreSQL %d", wanted))
	}
	config = fmt.Sprintf("/usr/lib/postgresql/%d/bin/pg_config", wanted)
	major, err = majorOf(ctx, config)
	return config, major, err
}

// credentialOf looks up a system user.
func credentialOf(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}

func (b *localBackend) Name() string { return "local" }

func (b *localBackend) Major() int { return b.major }

func (b *localBackend) NewNetwork(TB) *Network { return &Network{} }

func (b *localBackend) Start(t TB, cfg Config) *Node {
	t.Helper()
	h, err := b.newHost()
	if err != nil {
		t.Fatalf("server %s: %v", cfg.Name, err)
	}
	return startOn(t, h, cfg)
}

// newHost makes a server's folder. Its name is short, because a socket's path must be.
func (b *localBackend) newHost() (*host, error) {
	dir, err := os.MkdirTemp("", "sf")
	if err != nil {
		return nil, err
	}
	if b.owner != nil {
		if err := os.Chown(dir, int(b.owner.Uid), int(b.owner.Gid)); err != nil {
			return nil, err
		}
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	h := &host{
		dir:    dir,
		client: address{dir, port},
		peer:   address{"127.0.0.1", port},
		settings: map[string]string{
			"listen_addresses":        "127.0.0.1",
			"port":                    strconv.Itoa(port),
			"unix_socket_directories": dir,
		},
	}
	h.run = func(ctx context.Context, stdin string, argv ...string) (string, error) {
		return b.run(ctx, h, stdin, argv)
	}
	h.remove = func() { b.remove(h) }
	return h, nil
}

func (b *localBackend) run(ctx context.Context, h *host, stdin string, argv []string) (string, error) {
	// The program is named by a shell, so that it is looked for in the path of its own environment.
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", `exec "$@"`, "sh"}, argv...)...)
	cmd.Dir = h.dir
	cmd.Env = append(clientEnv(h.dir, h.dir, h.client.port), "HOME="+h.dir,
		"PATH="+b.bindir+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: b.owner}
	err := cmd.Run()
	out := stdout.String() + stderr.String()
	if err != nil {
		err = runError(ctx, argv[0], err, out)
	}
	return out, err
}

func (b *localBackend) remove(h *host) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if _, err := h.run(ctx, "", "pg_ctl", "stop", "-s", "-w", "-t", "5", "-m", "immediate"); err != nil {
		_, _ = h.run(ctx, "", "sh", "-c", crashScript) // it was down already, or does not listen
		_, _ = h.run(ctx, "", "sh", "left-behind")
	}
	_ = os.RemoveAll(h.dir)
}

// clientEnv is the environment of programs beside a server: what they need to find it, and nothing of the test's own.
func clientEnv(dir, socketDir string, port int) []string {
	return []string{
		"LANG=C.UTF-8",
		"TZ=UTC",
		"PGDATA=" + dir + "/" + dataDir,
		"PGHOST=" + socketDir,
		"PGPORT=" + strconv.Itoa(port),
		"PGUSER=postgres",
		"PGDATABASE=postgres",
	}
}

// runError says which program failed, and how.
func runError(ctx context.Context, program string, err error, out string) error {
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(out))
}

var ports = struct {
	sync.Mutex
	given map[int]bool
}{given: map[int]bool{}}

// freePort finds a port that nobody listens on. It stays below those that systems give to outgoing connections, so
// that none of these takes it while its server is down.
func freePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for range 200 {
		port := 20000 + rand.IntN(12000)
		if ports.given[port] {
			continue
		}
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			ports.given[port] = true
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port between 20000 and 32000")
}
