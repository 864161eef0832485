package recipes

import (
	"fmt"
	"strings"
)

// Outcome is what a block of SQL gave: the last rows that came back, and the messages in psql's words.
type Outcome struct {
	Columns  []string
	Rows     [][]string // NULL is empty, as psql shows it
	Messages []string   // "NOTICE:  text", "ERROR:  text", "DETAIL:  text"
}

// etc stands in a printed result for what differs from run to run: in a cell or message for any text, alone on a
// line for any lines.
const etc = "…"

// Check compares an outcome with the result that a page prints: a table as psql shows it, or messages.
func (o *Outcome) Check(printed string) error {
	lines := strings.Split(strings.Trim(printed, "\n"), "\n")
	if first, _, _ := strings.Cut(lines[0], ":"); isSeverity(first) {
		return compare(cells(lines), cells(o.Messages))
	}
	if len(lines) < 2 || strings.Trim(lines[1], "-+ ") != "" {
		return fmt.Errorf("a result is a table as psql prints it, or messages")
	}
	count := ""
	if last := lines[len(lines)-1]; strings.HasPrefix(last, "(") {
		lines, count = lines[:len(lines)-1], last
	}
	if err := compare([][]string{row(lines[0])}, [][]string{o.Columns}); err != nil {
		return fmt.Errorf("columns: %w", err)
	}
	var want [][]string
	for _, line := range lines[2:] {
		want = append(want, row(line))
	}
	if err := compare(want, o.Rows); err != nil {
		return err
	}
	if rows := plural(len(o.Rows)); count != "" && count != rows {
		return fmt.Errorf("the page says %s, there are %s", count, rows)
	}
	return nil
}

func plural(rows int) string {
	if rows == 1 {
		return "(1 row)"
	}
	return fmt.Sprintf("(%d rows)", rows)
}

func isSeverity(word string) bool {
	switch word {
	case "NOTICE", "WARNING", "ERROR", "INFO":
		return true
	}
	return false
}

// cells makes a row of one cell of each line.
func cells(lines []string) [][]string {
	var rows [][]string
	for _, line := range lines {
		rows = append(rows, []string{strings.Join(strings.Fields(line), " ")})
	}
	return rows
}

func row(line string) []string {
	cells := strings.Split(line, " | ")
	if trimmed := strings.TrimRight(line, " "); strings.HasSuffix(trimmed, " |") {
		cells = append(strings.Split(strings.TrimSuffix(trimmed, " |"), " | "), "")
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// compare finds the first difference between printed rows and real ones.
func compare(want, got [][]string) error {
	for len(want) > 0 {
		if len(want[0]) == 1 && want[0][0] == etc {
			for skip := 0; skip <= len(got); skip++ {
				if compare(want[1:], got[skip:]) == nil {
					return nil
				}
			}
			return fmt.Errorf("nothing matches what is printed after %s", etc)
		}
		if len(got) == 0 {
			return fmt.Errorf("missing: %s", strings.Join(want[0], " | "))
		}
		if !same(want[0], got[0]) {
			return fmt.Errorf("printed: %s\n    real: %s", strings.Join(want[0], " | "), strings.Join(got[0], " | "))
		}
		want, got = want[1:], got[1:]
	}
	if len(got) > 0 {
		return fmt.Errorf("not printed: %s", strings.Join(got[0], " | "))
	}
	return nil
}

// same compares two rows.
func same(want, got []string) bool {
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if !fits(strings.Join(strings.Fields(want[i]), " "), strings.Join(strings.Fields(got[i]), " ")) {
			return false
		}
	}
	return true
}

// fits says whether a real text is the printed one, in which etc stands for any text.
func fits(printed, real string) bool {
	parts := strings.Split(printed, etc)
	if len(parts) == 1 {
		return printed == real
	}
	last := len(parts) - 1
	if !strings.HasPrefix(real, parts[0]) {
		return false
	}
	real = real[len(parts[0]):]
	for _, part := range parts[1:last] {
		at := strings.Index(real, part)
		if at < 0 {
			return false
		}
		real = real[at+len(part):]
	}
	return strings.HasSuffix(real, parts[last])
}
