package agentctl

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"agents.example/controlplane/shared/client"
)

// envEntry is one variable of a .env file.
type envEntry struct {
	key, value string
	// inject says to which requests the value is added; nil for a variable with the value.
	inject *client.SecretInject
	// line is where it begins.
	line int
}

// envFile is what a .env file has.
type envFile struct {
	entries []envEntry
	// problems are the lines that could not be read. They never have a value.
	problems []string
}

// envReader reads a .env file by the rules of the console, which envfile_test.go compares. The libraries for such files
// replace references such as $HOME, or end a value at a # inside it, so an imported secret would differ from the file.
type envReader struct {
	text       string
	line, at   int
	assignment *regexp.Regexp
}

// readEnv reads KEY=value lines with an optional export, comments, and values in quotes, which may go over several
// lines. References such as ${OTHER} stay as they are. The last one of several values of a key counts.
func readEnv(text string) envFile {
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	r := &envReader{
		text: text, line: 1,
		assignment: regexp.MustCompile("^[ \t]*(?:export[ \t]+)?([^\\s\\v\\p{Z}\ufeff=#'\"`]+)[ \t]*=[ \t]*"),
	}
	var f envFile
	for r.at < len(text) {
		line := r.line
		e, problem := r.entry()
		switch {
		case problem != "":
			f.problems = append(f.problems, fmt.Sprintf("line %d: %s", line, problem))
		case e.key != "":
			e.line = line
			f.entries = append(slices.DeleteFunc(f.entries, func(o envEntry) bool { return o.key == e.key }), e)
		}
	}
	return f
}

// entry reads the next variable, or a problem; neither for an empty line or a comment.
func (r *envReader) entry() (e envEntry, problem string) {
	line := r.restOfLine()
	if start := strings.TrimLeftFunc(line, isEnvSpace); start == "" || start[0] == '#' {
		r.skipLine()
		return e, ""
	}
	found := r.assignment.FindStringSubmatch(line)
	if found == nil {
		r.skipLine()
		if strings.Contains(line, "=") {
			return e, `there is no name before "=". Write NAME=value`
		}
		return e, `there is no "=". Write NAME=value`
	}
	r.at += len(found[0])
	if e.value, problem = r.value(); problem != "" {
		return e, problem
	}
	if problem = checkKey(found[1]); problem != "" {
		return e, problem
	}
	e.key = found[1]
	return e, ""
}

// isEnvSpace reports whether a character is white space in a .env file.
func isEnvSpace(c rune) bool { return c != '\u0085' && unicode.IsSpace(c) || c == '\ufeff' }

// value reads the value after the equals sign, and the rest of its line.
func (r *envReader) value() (value, problem string) {
	line := r.restOfLine()
	if line == "" || !strings.ContainsRune("\"'`", rune(line[0])) {
		r.skipLine()
		if comment := regexp.MustCompile(`(^|[ \t]+)#`).FindStringIndex(line); comment != nil {
			line = line[:comment[0]]
		}
		return strings.TrimRightFunc(line, isEnvSpace), ""
	}
	quote := line[0]
	end := r.endOf(quote)
	if end < 0 {
		r.skipLine()
		return "", fmt.Sprintf("the value begins with %c, but no closing %c follows", quote, quote)
	}
	inner := r.text[r.at+1 : end]
	r.moveTo(end + 1)
	after := strings.TrimLeft(r.restOfLine(), " \t")
	r.skipLine()
	if after != "" && after[0] != '#' {
		return "", fmt.Sprintf(`there is text after the closing %c. Remove it, or write \" for a quote inside`, quote)
	}
	if quote == '"' {
		inner = unescapeEnv(inner)
	}
	return inner, ""
}

// endOf returns where the quote at the present place ends, or -1. Only double quotes can be escaped.
func (r *envReader) endOf(quote byte) int {
	for i := r.at + 1; i < len(r.text); i++ {
		if r.text[i] == quote {
			return i
		}
		if r.text[i] == '\\' && quote == '"' {
			i++
		}
	}
	return -1
}

func (r *envReader) restOfLine() string {
	line, _, _ := strings.Cut(r.text[r.at:], "\n")
	return line
}

func (r *envReader) skipLine() { r.moveTo(min(r.at+len(r.restOfLine())+1, len(r.text))) }

func (r *envReader) moveTo(place int) {
	r.line += strings.Count(r.text[r.at:place], "\n")
	r.at = place
}

// unescapeEnv replaces the escapes of a value in double quotes. Unknown ones stay.
func unescapeEnv(text string) string {
	return strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", `\"`, `"`, `\\`, `\`, `\$`, "$").Replace(text)
}
