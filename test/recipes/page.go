// Package recipes reads the how-to pages of docs/ for the test that runs them: the fenced blocks with what the page
// says about each, the statements in a block of SQL, and the results that a page prints under it.
package recipes

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Page is one Markdown file.
type Page struct {
	Name   string // of the file, "queries.md"
	Needs  string // what the whole page needs, from a needs comment above its first heading
	Blocks []*Block
}

// Block is a fenced block of SQL.
//
// HTML comments between the text and the fence say how it is to be run; the reader of the page does not see them:
//
//	<!-- error: 23514 -->           the last statement fails with this SQLSTATE
//	<!-- needs: postgresql 14 -->   runs only there; also an extension and its least version
//	<!-- session: other -->         runs in another session of this name
//	<!-- reconnect -->              its session is closed first and opened anew
//	<!-- step: name -->             the test does something of its own before the block
type Block struct {
	Line      int // of the fence, from 1
	SQL       string
	Result    string // the text block directly under it, empty when there is none
	Error     string
	Needs     string
	Session   string
	Reconnect bool
	Step      string
}

// fences that a page may have beside sql and text: they hold nothing that can be run in a database.
var otherFences = map[string]bool{"ini": true, "js": true, "sh": true}

var directive = regexp.MustCompile(`^<!--\s*([a-z]+)(?::\s*(.*?))?\s*-->$`)

// Load reads every page of a folder, sorted by name.
func Load(folder string) ([]*Page, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no pages in %s: %v", folder, err)
	}
	var pages []*Page
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		page, err := Parse(filepath.Base(file), string(text))
		if err != nil {
			return nil, err
		}
		pages = append(pages, page)
	}
	return pages, nil
}

// Parse reads one page. It refuses what the test could not act on: an unknown comment or fence, a fence that is
// never closed, a comment that belongs to no block of SQL.
func Parse(name, text string) (*Page, error) {
	var (
		page    = &Page{Name: name}
		next    = new(Block) // collects comments for the block to come
		pending string       // the last comment not yet used
		heading bool
		last    *Block // the block of SQL directly above, nil after other text
		lines   = strings.Split(text, "\n")
	)
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		fail := func(format string, args ...any) error {
			return fmt.Errorf("%s:%d: %s", name, i+1, fmt.Sprintf(format, args...))
		}
		switch comment := directive.FindStringSubmatch(line); {
		case line == "":
		case comment != nil:
			if !heading {
				if comment[1] != "needs" {
					return nil, fail("above the first heading only needs: can stand")
				}
				page.Needs = comment[2]
				continue
			}
			if err := next.note(comment[1], comment[2]); err != nil {
				return nil, fail("%v", err)
			}
			pending = line
		case strings.HasPrefix(line, "```"):
			fence, start := strings.TrimPrefix(line, "```"), i
			for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
			}
			if i == len(lines) {
				i = start
				return nil, fail("the fence is never closed")
			}
			body := strings.Join(lines[start+1:i], "\n")
			switch {
			case fence == "sql":
				next.Line, next.SQL = start+1, body
				page.Blocks = append(page.Blocks, next)
				last, next, pending = next, new(Block), ""
				continue
			case pending != "":
				return nil, fail("%s belongs to no block of SQL", pending)
			case fence == "text" && last != nil && last.Result == "":
				last.Result = body
			case fence == "text" || !otherFences[fence]:
				return nil, fail("a block of %q here is neither SQL nor the result of the block above it", fence)
			}
			last = nil
		case pending != "":
			return nil, fail("%s belongs to no block of SQL", pending)
		default:
			heading = heading || strings.HasPrefix(line, "#")
			last = nil
		}
	}
	return page, nil
}

// note takes a comment in.
func (b *Block) note(key, value string) error {
	switch key {
	case "error":
		b.Error = value
	case "needs":
		b.Needs = value
	case "session":
		b.Session = value
	case "step":
		b.Step = value
	case "reconnect":
		b.Reconnect = true
		return nil
	default:
		return fmt.Errorf("unknown comment %q", key)
	}
	if value == "" {
		return fmt.Errorf("comment %q without a value", key)
	}
	return nil
}
