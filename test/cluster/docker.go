package cluster

// The docker backend: each server in a container of the image that docker/build.sh makes. The container only sleeps;
// its server is started and ended inside it, so a crash ends a server and not its container, its files or its port.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"
	tcexec "github.com/testcontainers/testcontainers-go/exec"
	tclog "github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/network"
)

const (
	serverPort      = 5432
	serverSocketDir = "/var/run/postgresql"
	serverDir       = "/var/lib/postgresql/data" // the image's volume
	buildTime       = 60 * time.Minute           // for images made from nothing on a slow machine
)

type dockerBackend struct {
	major int
	image string
}

func openDocker(ctx context.Context) (Backend, error) {
	tclog.SetDefault(tclog.NewNoopLogger())
	major, err := wantedMajor()
	if err != nil {
		return nil, err
	}
	if major == 0 {
		if major, err = majorOf(ctx, pgConfig()); err != nil {
			major = 15
		}
	}
	return OpenMajor(ctx, major)
}

// OpenMajor returns a docker backend of a given major, for tests that need servers of two.
func OpenMajor(ctx context.Context, major int) (Backend, error) {
	return openImage(ctx, major, "build.sh", strconv.Itoa(major))
}

// OpenUpgrade returns a docker backend of one major whose hosts also have the programs and the extension of an older
// one, under /usr/lib/postgresql.
func OpenUpgrade(ctx context.Context, older, major int) (Backend, error) {
	return openImage(ctx, major, "build-upgrade.sh", strconv.Itoa(older), strconv.Itoa(major))
}

func openImage(ctx context.Context, major int, script string, args ...string) (Backend, error) {
	image, err := buildImage(ctx, script, args...)
	return &dockerBackend{major: major, image: image}, err
}

// dockerAnswers says whether an engine is there to use.
func dockerAnswers(ctx context.Context) (answers bool) {
	tclog.SetDefault(tclog.NewNoopLogger())
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	defer func() { // the library panics on some hosts that have none
		if recover() != nil {
			answers = false
		}
	}()
	provider, err := testcontainers.NewDockerProvider()
	return err == nil && provider.Health(ctx) == nil
}

// buildImage runs a script of docker/, which builds nothing when nothing has changed, and returns the image's name.
func buildImage(ctx context.Context, script string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()
	gomod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(string(gomod)), "docker", script), args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", cmd, err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1], nil
}

func (b *dockerBackend) Name() string { return "docker" }

func (b *dockerBackend) Major() int { return b.major }

func (b *dockerBackend) NewNetwork(t TB) *Network {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// Internal: a container that joins any other network may publish its ports there from then on, under new numbers.
	n, err := network.New(ctx, network.WithInternal())
	if err != nil {
		t.Fatalf("make a network: %v", err)
	}
	t.Cleanup(func() {
		if err := n.Remove(context.Background()); err != nil {
			t.Logf("remove network %s: %v", n.Name, err)
		}
	})
	return &Network{name: n.Name}
}

// CanCut says whether Cut works. On the local backend servers share the loopback, and it does not.
func (w *Network) CanCut() bool { return w.name != "" }

// Join puts a running server into the network, for the first time or after Cut.
func (w *Network) Join(t TB, n *Node) {
	t.Helper()
	if w.CanCut() {
		w.docker(t, "network", "connect", w.name, n.host.container)
	}
}

// Cut takes a server that has joined out of the network: what it sends there is lost, and nobody says so. This process
// still reaches it, and so do all servers by PeerConninfo.
func (w *Network) Cut(t TB, n *Node) {
	t.Helper()
	w.docker(t, "network", "disconnect", w.name, n.host.container)
}

// Conninfo is a conninfo string for a database of a server that has joined, for the others that have.
func (w *Network) Conninfo(t TB, n *Node, database string) string {
	t.Helper()
	if !w.CanCut() {
		return n.PeerConninfo(database)
	}
	ip := w.docker(t, "inspect", "-f", fmt.Sprintf("{{(index .NetworkSettings.Networks %q).IPAddress}}", w.name), n.host.container)
	return conninfo(address{ip, serverPort}, database)
}

func (w *Network) docker(t TB, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (b *dockerBackend) Start(t TB, cfg Config) *Node {
	t.Helper()
	h, err := b.newHost()
	if err != nil {
		t.Fatalf("server %s: %v", cfg.Name, err)
	}
	return startOn(t, h, cfg)
}

// newHost starts a container that sleeps.
func (b *dockerBackend) newHost() (*host, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	c, err := testcontainers.Run(ctx, b.image,
		testcontainers.WithEntrypoint("sleep", "infinity"),
		testcontainers.WithExposedPorts(fmt.Sprintf("%d/tcp", serverPort)),
		testcontainers.WithConfigModifier(func(c *container.Config) {
			c.Healthcheck = &container.HealthConfig{Test: []string{"NONE"}}
		}),
		testcontainers.WithHostConfigModifier(func(c *container.HostConfig) {
			init := true
			c.Init = &init // buries the dead of a crash
			c.ShmSize = 256 << 20
		}),
	)
	remove := func() { _ = testcontainers.TerminateContainer(c, testcontainers.StopTimeout(0)) }
	if err != nil {
		remove()
		return nil, err
	}
	h := &host{container: c.GetContainerID(), dir: serverDir, remove: remove, settings: map[string]string{"listen_addresses": "*"}}
	h.run = func(ctx context.Context, stdin string, argv ...string) (string, error) {
		return runInContainer(ctx, c, stdin, argv)
	}
	if err := h.findIn(ctx, c); err != nil {
		remove()
		return nil, err
	}
	return h, nil
}

// findIn sets the host's addresses. They hold as long as the container, which is never restarted.
func (h *host) findIn(ctx context.Context, c *testcontainers.DockerContainer) error {
	name, err1 := c.Host(ctx)
	port, err2 := c.MappedPort(ctx, fmt.Sprintf("%d/tcp", serverPort))
	ip, err3 := c.ContainerIP(ctx)
	h.client = address{name, int(port.Num())}
	h.peer = address{ip, serverPort}
	return errors.Join(err1, err2, err3)
}

func runInContainer(ctx context.Context, c *testcontainers.DockerContainer, stdin string, argv []string) (string, error) {
	program := argv[0]
	if stdin != "" {
		file, err := copyIn(ctx, c, stdin)
		if err != nil {
			return "", err
		}
		argv = append([]string{"sh", "-c", `exec <"$0" && rm -f "$0" && exec "$@"`, file}, argv...)
	}
	if deadline, has := ctx.Deadline(); has { // the engine would let the program run on
		left := fmt.Sprintf("%.3f", max(time.Until(deadline).Seconds(), 0.001))
		argv = append([]string{"timeout", "-k", "1", left}, argv...)
	}
	code, reader, err := c.Exec(ctx, argv, tcexec.WithUser("postgres"), tcexec.WithWorkingDir(serverDir),
		tcexec.WithEnv(clientEnv(serverDir, serverSocketDir, serverPort)), tcexec.Multiplexed())
	if err != nil {
		return "", runError(ctx, program, err, "")
	}
	out, err := io.ReadAll(reader)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit status %d", code)
	}
	if err != nil {
		err = runError(ctx, program, err, string(out))
	}
	return string(out), err
}

var copies atomic.Int64

// copyIn writes a new file in the server's folder, where the server's user may remove it again.
func copyIn(ctx context.Context, c *testcontainers.DockerContainer, content string) (string, error) {
	file := fmt.Sprintf("%s/stdin.%d", serverDir, copies.Add(1))
	return file, c.CopyToContainer(ctx, []byte(content), file, 0o644)
}
