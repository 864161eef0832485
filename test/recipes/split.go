package recipes

import (
	"regexp"
	"strings"
)

// dollarTag is the opening of a dollar-quoted string.
var dollarTag = regexp.MustCompile(`^\$(?:[A-Za-z_][A-Za-z0-9_]*)?\$`)

// Split cuts SQL into its statements at the semicolons outside of quotes, comments and parentheses, as psql does, so
// that each can be sent on its own. Statements keep their inner comments; empty ones are left out.
func Split(sql string) []string {
	var statements []string
	start, depth, filled := 0, 0, false // filled: more than spaces and comments since start
	cut := func(end int) {
		if filled {
			statements = append(statements, strings.TrimSpace(sql[start:end]))
		}
		start, filled = end+1, false
	}
	for i := 0; i < len(sql); {
		rest := sql[i:]
		switch c := sql[i]; {
		case c == ';' && depth <= 0:
			cut(i)
			i++
		case strings.HasPrefix(rest, "--"):
			i += untilAfter(rest, "\n", 2)
		case strings.HasPrefix(rest, "/*"):
			i += commentLength(rest)
		case c == '$' && dollarTag.MatchString(rest) && !afterIdentifier(sql, i):
			tag := dollarTag.FindString(rest)
			i += untilAfter(rest, tag, len(tag))
			filled = true
		case c == '\'':
			i += quotedLength(rest, i > 0 && (sql[i-1] == 'E' || sql[i-1] == 'e') && !afterIdentifier(sql, i-1))
			filled = true
		case c == '"':
			i += untilAfter(rest, `"`, 1)
			filled = true
		default:
			if c == '(' {
				depth++
			} else if c == ')' {
				depth--
			}
			filled = filled || strings.TrimSpace(rest[:1]) != ""
			i++
		}
	}
	cut(len(sql))
	return statements
}

// untilAfter is the length of text up to and with the first end at or after from, all of it when there is none.
func untilAfter(text, end string, from int) int {
	if at := strings.Index(text[from:], end); at >= 0 {
		return from + at + len(end)
	}
	return len(text)
}

// commentLength is the length of the comment that text begins with; comments nest.
func commentLength(text string) int {
	depth := 0
	for i := 0; i < len(text); {
		switch {
		case strings.HasPrefix(text[i:], "/*"):
			depth++
			i += 2
		case strings.HasPrefix(text[i:], "*/"):
			depth--
			i += 2
			if depth == 0 {
				return i
			}
		default:
			i++
		}
	}
	return len(text)
}

// quotedLength is the length of the string that text begins with; escaped says that a backslash hides a quote. A
// doubled quote ends one string and begins the next, which comes to the same.
func quotedLength(text string, escaped bool) int {
	for i := 1; i < len(text); i++ {
		if escaped && text[i] == '\\' {
			i++
		} else if text[i] == '\'' {
			return i + 1
		}
	}
	return len(text)
}

// afterIdentifier says whether the character before position i belongs to a name or a number.
func afterIdentifier(sql string, i int) bool {
	if i <= 0 {
		return false
	}
	c := sql[i-1]
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
