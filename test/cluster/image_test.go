package cluster_test

// The image that users run, as they run it: its entrypoint makes the cluster, keeps it, and refuses to make one
// that anyone could enter.

import (
	"context"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// run starts a container of the server image and removes it when the test ends.
func run(t *testing.T, options ...testcontainers.ContainerCustomizer) *testcontainers.DockerContainer {
	t.Helper()
	c, err := testcontainers.Run(t.Context(), fmt.Sprintf("snowflake:%d", backend.Major()), options...)
	t.Cleanup(func() { _ = testcontainers.TerminateContainer(c, testcontainers.StopTimeout(0)) })
	if err != nil {
		t.Fatalf("%v\n%s", err, logs(t, c))
	}
	return c
}

func logs(t *testing.T, c *testcontainers.DockerContainer) string {
	t.Helper()
	if c == nil {
		return ""
	}
	reader, err := c.Logs(context.Background())
	if err != nil {
		return err.Error()
	}
	defer reader.Close()
	text, _ := io.ReadAll(reader)
	return string(text)
}

// login opens a session over the published port, as a client elsewhere does.
func login(t *testing.T, c *testcontainers.DockerContainer, password, database string) (*pgx.Conn, error) {
	t.Helper()
	endpoint, err := c.PortEndpoint(t.Context(), "5432/tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), "postgres://postgres:"+password+"@"+endpoint+"/"+database+"?sslmode=disable")
	if err == nil {
		t.Cleanup(func() { conn.Close(context.Background()) })
	}
	return conn, err
}

func needDocker(t *testing.T) {
	t.Helper()
	if backend.Name() != "docker" {
		t.Skip("there is no image on the local backend")
	}
}

func TestImage(t *testing.T) {
	needDocker(t)
	ready := testcontainers.WithWaitStrategyAndDeadline(time.Minute,
		wait.ForHealthCheck().WithPollInterval(100*time.Millisecond))
	c := run(t, testcontainers.WithExposedPorts("5432/tcp"), ready, testcontainers.WithCmd("-c", "work_mem=5MB"),
		testcontainers.WithEnv(map[string]string{"POSTGRES_PASSWORD_FILE": "/secret", "SNOWFLAKE_IN_TEMPLATE1": "1"}),
		testcontainers.WithFiles(
			initFile("/secret", "let me in\n"),
			initFile("/docker-entrypoint-initdb.d/1.sql", "CREATE TABLE starts (n int); CREATE DATABASE later;"),
			initFile("/docker-entrypoint-initdb.d/2.sh", `psql -qc "INSERT INTO starts VALUES (1)"`),
			initFile("/docker-entrypoint-initdb.d/3.txt", "this is not run")))

	if _, err := login(t, c, "guess", "postgres"); err == nil {
		t.Error("a wrong password lets one in")
	}
	conn, err := login(t, c, "let%20me%20in", "postgres")
	if err != nil {
		t.Fatalf("%v\n%s", err, logs(t, c))
	}
	want(t, "starts", one[int](t, conn, "SELECT count(*) FROM starts"), 1)
	want(t, "work_mem", one[string](t, conn, "SHOW work_mem"), "5MB")
	want(t, "password_encryption", one[string](t, conn, "SHOW password_encryption"), "scram-sha-256")
	exec(t, conn, "SET snowflake.worker_id = 1")
	if id := one[int64](t, conn, "SELECT snowflake_next()"); id <= 0 {
		t.Errorf("the first id is %d", id)
	}

	later, err := login(t, c, "let%20me%20in", "later")
	if err != nil {
		t.Fatal(err)
	}
	want(t, "extensions in a database made later",
		one[int](t, later, "SELECT count(*) FROM pg_extension WHERE extname = 'snowflake'"), 1)

	stopping := time.Now()
	patience := 20 * time.Second
	if err := c.Stop(t.Context(), &patience); err != nil { // SIGTERM, as the image names no other signal
		t.Fatal(err)
	}
	if state, err := c.State(t.Context()); err != nil || state.ExitCode != 0 {
		t.Errorf("exit code %d: %v", state.ExitCode, err)
	}
	if took := time.Since(stopping); took > patience/2 {
		t.Errorf("with a session open it took %v to stop", took)
	}
	if !strings.Contains(logs(t, c), "database system is shut down") {
		t.Errorf("it did not shut down in order:\n%s", logs(t, c))
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, logs(t, c))
	}
	if conn, err = login(t, c, "let%20me%20in", "postgres"); err != nil {
		t.Fatalf("%v\n%s", err, logs(t, c))
	}
	want(t, "starts after a second start", one[int](t, conn, "SELECT count(*) FROM starts"), 1)
}

// initFile puts a text into the container before it starts.
func initFile(path, content string) testcontainers.ContainerFile {
	return testcontainers.ContainerFile{Reader: strings.NewReader(content), ContainerFilePath: path, FileMode: 0o644}
}

func TestImageNeedsPassword(t *testing.T) {
	needDocker(t)
	c := run(t, testcontainers.WithWaitStrategyAndDeadline(time.Minute, wait.ForExit()))
	state, err := c.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want(t, "exit code", state.ExitCode, 1)
	if !strings.Contains(logs(t, c), "set POSTGRES_PASSWORD") {
		t.Errorf("it does not say what is missing:\n%s", logs(t, c))
	}
}

// A first start that fails half way leaves an empty folder, so that the next one does not take the half for whole.
func TestImageStartsAnew(t *testing.T) {
	needDocker(t)
	c := run(t, testcontainers.WithWaitStrategyAndDeadline(time.Minute, wait.ForExit()),
		testcontainers.WithEnv(map[string]string{"POSTGRES_HOST_AUTH_METHOD": "trust"}),
		testcontainers.WithFiles(initFile("/docker-entrypoint-initdb.d/1.sql", "SELECT 1/0;")))
	state, err := c.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if log := logs(t, c); state.ExitCode == 0 || !strings.Contains(log, "division by zero") ||
		!strings.Contains(log, "emptied again") {
		t.Errorf("exit code %d:\n%s", state.ExitCode, log)
	}
	if _, err := c.CopyFileFromContainer(t.Context(), "/var/lib/postgresql/data/PG_VERSION"); err == nil {
		t.Error("there is a cluster")
	}
}

// The commands that the README gives, but for what could be taken on this machine: the name, the port and the volume.
func TestReadmeDocker(t *testing.T) {
	needDocker(t)
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sh\n(docker/build.sh .*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("there is no such block in the README")
	}
	name := fmt.Sprintf("snowflake-readme-%d", os.Getpid())
	t.Cleanup(func() {
		_ = osexec.Command("docker", "rm", "-f", name).Run()
		_ = osexec.Command("docker", "volume", "rm", name).Run()
	})
	commands := strings.NewReplacer(
		"docker/build.sh 18\n", "", // the image of this major is there: the tests made it
		"snowflake:18", fmt.Sprintf("snowflake:%d", backend.Major()),
		"--name db", "--name "+name, "-v db:", "-v "+name+":", "5432:5432", "5432",
		"docker exec db", fmt.Sprintf("until [ \"$(docker inspect -f '{{.State.Health.Status}}' %[1]s)\" = healthy ]; do sleep 1; done\ndocker exec %[1]s", name),
	).Replace(string(block[1]))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := osexec.CommandContext(ctx, "sh", "-ec", commands).CombinedOutput()
	if err != nil || !regexp.MustCompile(`(?m)^ *\d{18,19}$`).Match(out) {
		t.Errorf("%v\n%s\nsaid\n%s", err, commands, out)
	}
}
