// Package packaging proves that the Debian packages build, install on a machine that has nothing of ours, pass the
// tests that come with them there, and leave nothing when they go. docker/package.sh makes that machine.
package packaging

import (
	"cmp"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"strings"
	"testing"

	"github.com/testcontainers/testcontainers-go"
	tcexec "github.com/testcontainers/testcontainers-go/exec"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

// The Debian that the packages are built on, and the major that it ships.
const suite, major = "bookworm", "15"

func TestDebianPackage(t *testing.T) {
	if os.Getenv("SNOWFLAKE_TEST_BACKEND") == "local" {
		t.Skip("packages are built and installed in containers only")
	}
	if pg := cmp.Or(os.Getenv("SNOWFLAKE_TEST_PG"), major); pg != major {
		t.Skipf("packages are built for PostgreSQL %s of %s here, not for %s", major, suite, pg)
	}
	if out, err := osexec.Command("docker", "info").CombinedOutput(); err != nil {
		if os.Getenv("SNOWFLAKE_TEST_BACKEND") == "docker" {
			t.Fatalf("docker info: %v\n%s", err, out)
		}
		t.Skipf("there is no docker: %v", err)
	}
	build := osexec.Command("../../docker/package.sh", suite)
	build.Stderr = os.Stderr
	out, err := build.Output()
	if err != nil {
		t.Fatalf("docker/package.sh: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	tclog.SetDefault(tclog.NewNoopLogger())
	c, err := testcontainers.Run(t.Context(), lines[len(lines)-1], testcontainers.WithEntrypoint("sleep", "infinity"))
	testcontainers.CleanupContainer(t, c, testcontainers.StopTimeout(0))
	if err != nil {
		t.Fatal(err)
	}
	name := "postgresql-" + major + "-snowflake"
	files := []string{
		"/usr/lib/postgresql/" + major + "/lib/snowflake.so",
		"/usr/lib/postgresql/" + major + "/lib/snowflake_keeper.so",
		"/usr/share/postgresql/" + major + "/extension/snowflake_arbiter_setup.sql",
		"/usr/share/postgresql/" + major + "/extension/snowflake.control",
		"/usr/share/postgresql/" + major + "/extension/snowflake--1.0.sql",
		"/usr/share/postgresql/" + major + "/extension/snowflake--0.1--1.0.sql",
		"/usr/share/doc/" + name + "/README.md",
		"/usr/share/doc/" + name + "/copyright",
		"/usr/share/doc/" + name + "/changelog.gz",
		"/usr/share/doc/" + name + "/docs/clock-and-mark.md",
	}

	listed := "\n" + inContainer(t, c, "root", "dpkg-deb -c /packages/"+name+"_*.deb | awk '{print substr($6, 2)}'")
	for _, file := range files {
		if !strings.Contains(listed, "\n"+file) { // long files are compressed
			t.Errorf("the package has no %s:%s", file, listed)
		}
	}
	depends := inContainer(t, c, "root", "dpkg-query -W -f '${Depends}' "+name)
	for _, wanted := range []string{"postgresql-" + major, "libc6"} {
		if !strings.Contains(depends, wanted) {
			t.Errorf("it depends on %s, not on %s", depends, wanted)
		}
	}
	if inContainer(t, c, "root", "! command -v go && ! command -v gcc && echo clean") != "clean\n" {
		t.Error("the machine has compilers")
	}

	// What autopkgtest runs: pg_regress on a server of its own, with the installed library.
	checked := inContainer(t, c, "postgres", "cd /src && ./debian/tests/installcheck")
	for _, test := range []string{"extension", "decode", "generate"} {
		if !strings.Contains(checked, test) {
			t.Errorf("%s did not run:\n%s", test, checked)
		}
	}

	inContainer(t, c, "root", "dpkg --purge "+name)
	if left := inContainer(t, c, "root", "find /usr/lib/postgresql /usr/share/postgresql /usr/share/doc -name '*snowflake*'"); left != "" {
		t.Errorf("the package leaves behind:\n%s", left)
	}
}

// inContainer runs a line of shell as a user and returns what it printed.
func inContainer(t *testing.T, c *testcontainers.DockerContainer, user, line string) string {
	t.Helper()
	code, reader, err := c.Exec(t.Context(), []string{"sh", "-c", line}, tcexec.WithUser(user), tcexec.Multiplexed())
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(reader)
	if code != 0 {
		err = fmt.Errorf("exit status %d", code)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}
