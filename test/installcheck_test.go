package test

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The regression tests that packagers run on a server: test/sql, and what it prints in test/expected.

// The files print the same on every server: here psql runs them as pg_regress does, on whatever is tested.
func TestRegressionFiles(t *testing.T) {
	database := emptyDatabase(t, shared)
	files := regressionFiles(t)
	for _, name := range files {
		got, err := shared.ExecIn(background(t), file(t, "sql/"+name+".sql"), "sh", "-c", `exec psql -X -a -q -d "$0" 2>&1`, database)
		if err != nil {
			t.Fatal(err)
		}
		if want := file(t, "expected/"+name+".out"); got != want {
			t.Errorf("%s prints something else than it should; %s", name, firstDifference(want, got))
		}
	}
	if inFolder, err := filepath.Glob("sql/*.sql"); err != nil || len(inFolder) != len(files) {
		t.Errorf("%d files in sql/, of which the Makefile names %d", len(inFolder), len(files))
	}
}

// regressionFiles are the tests that the Makefile names, in order.
func regressionFiles(t *testing.T) []string {
	t.Helper()
	_, line, found := strings.Cut(file(t, "../Makefile"), "\nREGRESS = ")
	if !found {
		t.Fatal("the Makefile names no regression tests")
	}
	line, _, _ = strings.Cut(line, "\n")
	return strings.Fields(line)
}

// firstDifference shows the first line in which two texts differ.
func firstDifference(want, got string) string {
	wanted, lines := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(wanted), len(lines)) {
		if wanted[i] != lines[i] {
			return "instead of\n" + wanted[i] + "\nit is\n" + lines[i]
		}
	}
	return "one of them ends earlier"
}

// What a packager types, with the server that is tested as the running one.
func TestInstallcheck(t *testing.T) {
	if backend.Name() != "local" {
		t.Skip("the image of a server has neither make nor the sources; TestRegressionFiles ran the files, and test/packaging runs this in a container")
	}
	pgConfig := strings.TrimSpace(run(t, shared, "sh", "-c", "command -v pg_config"))
	pgxs := strings.TrimSpace(run(t, shared, pgConfig, "--pgxs"))
	regress := filepath.Join(filepath.Dir(pgxs), "../test/regress/pg_regress")
	if _, err := os.Stat(regress); err != nil {
		t.Skipf("pg_regress is not installed: %v", err)
	}
	environment := strings.Fields(run(t, shared, "sh", "-c", `echo "PGHOST=$PGHOST PGPORT=$PGPORT PGUSER=$PGUSER"`))
	// Without Go: a machine that only runs packages has none.
	cmd := osexec.CommandContext(background(t), "/usr/bin/make", "installcheck", "PG_CONFIG="+pgConfig, "GO=no-go")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), environment...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		diffs, _ := os.ReadFile("../regression.diffs")
		t.Fatalf("%v\n%s\n%s", err, out, diffs)
	}
	for _, name := range regressionFiles(t) {
		if !strings.Contains(string(out), name) {
			t.Errorf("%s did not run:\n%s", name, out)
		}
	}
}
