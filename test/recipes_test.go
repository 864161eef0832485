package test

// The pages of docs/ are run as they are printed: each page in a fresh database, each statement by itself over the
// simple protocol, as psql sends it. What a page prints as a result is compared with what comes back. What a page
// promises beyond that is proven in recipes_pages_test.go, before a named step or after the whole page.

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"pgsnowflake/test/cluster"
	"pgsnowflake/test/recipes"
)

// The pages name their database, because ALTER DATABASE must.
const recipesDatabase = "shop"

// pagesWithoutSQL are the only ones that may have no block to run.
var pagesWithoutSQL = map[string]bool{"README.md": true}

// pageCheck proves what one page promises.
type pageCheck struct {
	before map[string]func(*pageRun) // by the step that it precedes
	after  func(*pageRun)
}

func TestRecipes(t *testing.T) {
	pages, err := recipes.Load("../docs")
	if err != nil {
		t.Fatal(err)
	}
	node := backend.Start(t, cluster.Config{Name: "recipes", FakeClock: true})
	found := map[string]bool{}
	for _, page := range pages {
		found[page.Name] = true
		t.Run(strings.TrimSuffix(page.Name, ".md"), func(t *testing.T) {
			if len(page.Blocks) == 0 {
				if !pagesWithoutSQL[page.Name] {
					t.Fatal("a page without SQL")
				}
				return
			}
			runPage(t, node, page)
		})
	}
	for name := range pageChecks {
		if !found[name] {
			t.Errorf("docs/%s is gone, its check is still here", name)
		}
	}
}

// pageRun is one page on its way through the server.
type pageRun struct {
	*testing.T
	ctx      context.Context
	node     *cluster.Node
	page     *recipes.Page
	sessions map[string]*recipeSession
}

// recipeSession is a connection and what the server said on it.
type recipeSession struct {
	*pgx.Conn
	messages []string
}

func runPage(t *testing.T, node *cluster.Node, page *recipes.Page) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	run := &pageRun{T: t, ctx: ctx, node: node, page: page, sessions: map[string]*recipeSession{}}
	run.freshDatabase()
	if reason := run.lacks(page.Needs); reason != "" {
		t.Skipf("NOT RUN: all %d blocks: %s", len(page.Blocks), reason)
	}
	check := pageChecks[page.Name]
	steps := map[string]bool{}
	for _, block := range page.Blocks {
		if reason := run.lacks(block.Needs); reason != "" {
			t.Logf("NOT RUN: %s:%d: %s", page.Name, block.Line, reason)
			continue
		}
		if block.Step != "" {
			steps[block.Step] = true
			if check.before[block.Step] == nil {
				t.Fatalf("%s:%d: no test knows the step %q", page.Name, block.Line, block.Step)
			}
			check.before[block.Step](run)
		}
		run.runBlock(block)
	}
	for step := range check.before {
		if !steps[step] {
			t.Errorf("%s has no step %q, its check did not run", page.Name, step)
		}
	}
	if check.after != nil {
		check.after(run)
	}
}

// freshDatabase makes the database of the page; it and the server's settings go when the page is done.
func (r *pageRun) freshDatabase() {
	r.maintain("CREATE DATABASE " + recipesDatabase)
	r.Cleanup(func() {
		r.ctx = context.Background()
		for _, session := range r.sessions {
			session.Close(r.ctx)
		}
		r.maintain("DROP DATABASE "+recipesDatabase+" WITH (FORCE)", "LOAD 'snowflake'", "ALTER SYSTEM RESET snowflake.worker_id",
			"ALTER SYSTEM RESET snowflake.worker_range")
		r.node.Reload(r)
	})
}

// maintain runs statements in another database.
func (r *pageRun) maintain(statements ...string) {
	r.Helper()
	r.maintainIn("postgres", statements...)
}

func (r *pageRun) maintainIn(database string, statements ...string) {
	r.Helper()
	session := r.connect(database)
	defer session.Close(r.ctx)
	for _, statement := range statements {
		session.must(r, statement)
	}
}

// lacks says what of a needs comment this server does not have; empty when it has all.
func (r *pageRun) lacks(needs string) string {
	if needs == "" {
		return ""
	}
	what, least, _ := strings.Cut(needs, " ")
	session := r.session("")
	if what == "postgresql" {
		major, err := strconv.Atoi(least)
		if err != nil {
			r.Fatalf("needs: %s", needs)
		}
		if number := session.int64(r, "SELECT current_setting('server_version_num')::int8"); number < int64(major)*10000 {
			return fmt.Sprintf("needs PostgreSQL %d, this is %d", major, number/10000)
		}
		return ""
	}
	return session.text(r, `SELECT coalesce((
			SELECT CASE WHEN string_to_array(regexp_replace(default_version, '[^0-9.].*', ''), '.')::int[]
				>= string_to_array($2, '.')::int[] THEN '' ELSE 'needs ' || $1 || ' ' || $2 || ', here is ' || default_version END
			FROM pg_available_extensions WHERE name = $1), 'needs the extension ' || $1 || ', which is not installed here')`,
		what, least)
}

// runBlock sends the statements of a block one by one and holds the outcome to the page.
func (r *pageRun) runBlock(block *recipes.Block) {
	r.Helper()
	where := fmt.Sprintf("%s:%d", r.page.Name, block.Line)
	if block.Reconnect {
		r.closeSession(block.Session)
	}
	session := r.session(block.Session)
	session.messages = nil
	var outcome recipes.Outcome
	statements := recipes.Split(block.SQL)
	if strings.Contains(block.SQL, "pg_reload_conf()") {
		defer r.untilReloaded(session.text(r, "SELECT pg_conf_load_time()::text"))
	}
	for i, statement := range statements {
		err := session.send(r.ctx, statement, &outcome)
		var failure *pgconn.PgError
		if errors.As(err, &failure) && i == len(statements)-1 && block.Error == failure.Code {
			session.messages = append(session.messages, psqlMessage(failure)...)
			break
		}
		if err != nil {
			r.Fatalf("%s: %v%s\n%s", where, err, errorContext(failure), statement)
		}
		if i == len(statements)-1 && block.Error != "" {
			r.Fatalf("%s: no error, the page promises %s\n%s", where, block.Error, statement)
		}
	}
	outcome.Messages = session.messages
	if block.Result != "" {
		if err := outcome.Check(block.Result); err != nil {
			r.Errorf("%s: the result is not the one printed: %v\n%s", where, err, showOutcome(outcome))
		}
	}
}

// untilReloaded waits until new sessions have the settings of a later load than this one.
func (r *pageRun) untilReloaded(last string) {
	r.Helper()
	for {
		session := r.connect(recipesDatabase)
		reloaded := valueOf[bool](session, r, "SELECT pg_conf_load_time() > $1::text::timestamptz", last)
		session.Close(r.ctx)
		if reloaded {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// send runs one statement over the simple protocol and keeps its rows, if it gives any.
func (s *recipeSession) send(ctx context.Context, statement string, outcome *recipes.Outcome) error {
	results := s.PgConn().Exec(ctx, statement)
	for results.NextResult() {
		reader := results.ResultReader()
		if fields := reader.FieldDescriptions(); len(fields) > 0 {
			outcome.Columns, outcome.Rows = nil, nil
			for _, field := range fields {
				outcome.Columns = append(outcome.Columns, field.Name)
			}
		}
		for reader.NextRow() {
			var row []string
			for _, value := range reader.Values() {
				row = append(row, string(value))
			}
			outcome.Rows = append(outcome.Rows, row)
		}
		if _, err := reader.Close(); err != nil {
			_ = results.Close()
			return err
		}
	}
	return results.Close()
}

// psqlMessage puts an error into psql's words.
func psqlMessage(e *pgconn.PgError) []string {
	lines := []string{e.Severity + ":  " + e.Message}
	if e.Detail != "" {
		lines = append(lines, "DETAIL:  "+e.Detail)
	}
	if e.Hint != "" {
		lines = append(lines, "HINT:  "+e.Hint)
	}
	return lines
}

func errorContext(e *pgconn.PgError) string {
	if e == nil {
		return ""
	}
	return "\n" + strings.Join(psqlMessage(e), "\n") + "\n" + e.Where
}

func showOutcome(o recipes.Outcome) string {
	lines := []string{strings.Join(o.Columns, " | ")}
	for i, row := range o.Rows {
		if i == 30 {
			lines = append(lines, "and so on")
			break
		}
		lines = append(lines, strings.Join(row, " | "))
	}
	return strings.Join(append(lines, o.Messages...), "\n")
}

// session is the connection of this name; the pages print times in UTC.
func (r *pageRun) session(name string) *recipeSession {
	r.Helper()
	if r.sessions[name] == nil {
		r.sessions[name] = r.connect(recipesDatabase)
	}
	return r.sessions[name]
}

func (r *pageRun) closeSession(name string) {
	if session := r.sessions[name]; session != nil {
		session.Close(r.ctx)
		delete(r.sessions, name)
	}
}

func (r *pageRun) connect(database string) *recipeSession {
	r.Helper()
	config, err := pgx.ParseConfig(r.node.DSN(database))
	if err != nil {
		r.Fatal(err)
	}
	session := new(recipeSession)
	config.RuntimeParams["timezone"] = "UTC"
	config.RuntimeParams["application_name"] = "recipes"
	config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		session.messages = append(session.messages, psqlMessage((*pgconn.PgError)(notice))...)
	}
	if session.Conn, err = pgx.ConnectConfig(r.ctx, config); err != nil {
		r.Fatal(err)
	}
	return session
}

// must runs a statement that may not fail.
func (s *recipeSession) must(r *pageRun, sql string, arguments ...any) {
	r.Helper()
	if _, err := s.Exec(r.ctx, sql, arguments...); err != nil {
		r.Fatalf("%v\n%s", err, sql)
	}
}

// int64 and text are the single value of a query.
func (s *recipeSession) int64(r *pageRun, sql string, arguments ...any) int64 {
	r.Helper()
	return valueOf[int64](s, r, sql, arguments...)
}

func (s *recipeSession) text(r *pageRun, sql string, arguments ...any) string {
	r.Helper()
	return valueOf[string](s, r, sql, arguments...)
}

func valueOf[T any](s *recipeSession, r *pageRun, sql string, arguments ...any) (value T) {
	r.Helper()
	if err := s.QueryRow(r.ctx, sql, arguments...).Scan(&value); err != nil {
		r.Fatalf("%v\n%s", err, sql)
	}
	return value
}
