package recipes

import (
	"slices"
	"strings"
	"testing"
)

func TestSplitCutsWherePsqlDoes(t *testing.T) {
	sql := `
SELECT 1;  -- one; two
SELECT 'a;b''c;', E'\';', "x;y" /* ; /* ; */ ; */ FROM t;
CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT 1; SELECT 2; $$;
DO $body$ BEGIN PERFORM $1; EXECUTE $x$;$x$; END $body$;
CREATE RULE r AS ON INSERT TO t DO ALSO (SELECT 1; SELECT 2);
SELECT a$b$ FROM t;
;
-- nothing more
`
	want := []string{
		"SELECT 1",
		"-- one; two\nSELECT 'a;b''c;', E'\\';', \"x;y\" /* ; /* ; */ ; */ FROM t",
		"CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT 1; SELECT 2; $$",
		"DO $body$ BEGIN PERFORM $1; EXECUTE $x$;$x$; END $body$",
		"CREATE RULE r AS ON INSERT TO t DO ALSO (SELECT 1; SELECT 2)",
		"SELECT a$b$ FROM t",
	}
	if got := Split(sql); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestParseFindsBlocksAndWhatIsSaidOfThem(t *testing.T) {
	page, err := Parse("p.md", strings.ReplaceAll(`<!-- needs: pg_partman 5.2 -->
# Title

<!-- error: 23514 -->
<!-- step: full -->
'''sql
INSERT INTO t VALUES (1);
'''

'''text
ERROR:  no
'''

'''ini
a = b
'''

<!-- reconnect -->
<!-- session: other -->
'''sql
SELECT 1;
'''
`, "'''", "```"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Block{
		{Line: 6, SQL: "INSERT INTO t VALUES (1);", Result: "ERROR:  no", Error: "23514", Step: "full"},
		{Line: 20, SQL: "SELECT 1;", Session: "other", Reconnect: true},
	}
	if page.Needs != "pg_partman 5.2" || len(page.Blocks) != 2 || *page.Blocks[0] != want[0] || *page.Blocks[1] != want[1] {
		t.Errorf("needs %q, blocks %+v %+v", page.Needs, page.Blocks[0], page.Blocks[1])
	}
}

func TestParseRefusesWhatWouldNotBeRun(t *testing.T) {
	for _, text := range []string{
		"# T\n```SQL\nSELECT 1;\n```\n",
		"# T\n```\nSELECT 1;\n```\n",
		"# T\n```sql\nSELECT 1;\n",
		"# T\n<!-- skip -->\n```sql\nSELECT 1;\n```\n",
		"# T\n<!-- error: 23514 -->\ntext\n\n```sql\nSELECT 1;\n```\n",
		"# T\n<!-- error -->\n```sql\nSELECT 1;\n```\n",
		"# T\n```text\nlost\n```\n",
	} {
		if _, err := Parse("p.md", text); err == nil {
			t.Errorf("accepted: %q", text)
		}
	}
}

func TestCheckComparesTablesAndMessages(t *testing.T) {
	outcome := Outcome{
		Columns:  []string{"id", "note"},
		Rows:     [][]string{{"1", "one"}, {"2", ""}, {"3", "three"}},
		Messages: []string{"NOTICE:  10 rows done", "NOTICE:  20 rows done"},
	}
	for printed, right := range map[string]bool{
		" id | note\n----+------\n  1 | one\n  2 |\n  3 | three\n(3 rows)":   true,
		" id | note\n----+------\n  1 | one\n  2 |\n  3 | three":             true,
		" id | note\n----+------\n  1 | o…\n…\n(3 rows)":                     true,
		" id | note\n----+------\n…\n  3 | …":                                true,
		" id | note\n----+------\n  1 | one\n  2 |\n  3 | three\n(4 rows)":   false,
		" id | note\n----+------\n  1 | one\n  2 |":                          false,
		" id | note\n----+------\n  1 | one\n  2 | x\n  3 | three":           false,
		" id | text\n----+------\n…":                                         false,
		" id | note\n----+------\n  1 | one\n  2 |\n  3 | three\n  4 | four": false,
		"NOTICE:  10 rows done\nNOTICE:  20 rows done":                       true,
		"NOTICE:  10 …\n…":                                                   true,
		"NOTICE:  10 rows done":                                              false,
		"NOTICE:  10 rows done\nNOTICE:  30 rows":                            false,
		"3 rows": false,
	} {
		if err := outcome.Check(printed); (err == nil) != right {
			t.Errorf("%q: %v", printed, err)
		}
	}
}
