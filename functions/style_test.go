package functions_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// avoided are words and patterns that made sentences hard to read, each with what to write instead. Each begins with a
// text that is searched for before the rest: with an alternative in its place, a pattern takes ten times as long.
func avoided() map[*regexp.Regexp]string {
	patterns := map[*regexp.Regexp]string{}
	for word, instead := range map[string]string{
		`anew`:                         "again",
		`in vain`:                      "without effect",
		`for ever`:                     "forever",
		`br(ought|ings?|inging) about`: "applied, caused",
		`mend(s|ed|ing)?`:              "repair",
		`meanwhile`:                    "in between, or name the time",
		`beside`:                       "in addition to, next to",
		`is to be`:                     "must",
		`are to be`:                    "must",
		`nobody`:                       "name who",
		`somebody`:                     "name who",
		`of its own`:                   "separate",
		`at once`:                      "concurrently, immediately, or in one call",
		`// package \w+ knows`:         "a verb that says what the package provides",
	} {
		patterns[avoid(word)] = instead
	}
	return patterns
}

// avoid is a pattern of words in lower case, which may be on two lines of a comment.
func avoid(words string) *regexp.Regexp {
	const space = `\s+(?://\s*|#\s*|\*\s*)?`
	return regexp.MustCompile(strings.ReplaceAll(words, " ", space) + `\b`)
}

// writtenElsewhere reports whether a file is a library of others, or the bundler's output.
func writtenElsewhere(name string) bool {
	return strings.HasPrefix(name, "console/app/vendor/") || strings.HasPrefix(name, "console/static/")
}

// insideWord reports whether what follows a text in lower case continues its last word, or is a name in code, such as
// http.NoBody.
func insideWord(before []byte) bool {
	if len(before) == 0 {
		return false
	}
	last := before[len(before)-1]
	return last >= 'a' && last <= 'z' || last >= '0' && last <= '9' || last == '_' || last == '.'
}

// TestStyle_PlainEnglish refuses words that a reader stumbles over in code, Terraform and documents.
func TestStyle_PlainEnglish(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard",
		"..").Output()
	if err != nil {
		t.Skip("the files are listed by git, which does not answer here")
	}
	patterns, checked := avoided(), 0
	for name := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n") {
		switch filepath.Ext(name) {
		case ".go", ".tf", ".md", ".ts", ".tsx", ".css", ".py":
		default:
			continue
		}
		if name == "style_test.go" || writtenElsewhere(name) {
			continue
		}
		b, err := os.ReadFile(name)
		if os.IsNotExist(err) { // deleted, and not yet committed
			continue
		}
		must(t, err)
		checked++
		b = bytes.ToLower(b)
		for pattern, instead := range patterns {
			for _, found := range pattern.FindAllIndex(b, -1) {
				if insideWord(b[:found[0]]) {
					continue
				}
				line := 1 + bytes.Count(b[:found[0]], []byte("\n"))
				t.Errorf("%s:%d: avoid %q; write: %s", strings.TrimPrefix(name, "../"), line, b[found[0]:found[1]],
					instead)
			}
		}
	}
	if checked == 0 {
		t.Error("no file was checked")
	}
}

// TestStyle_FilesAreSources refuses what no one can read in a review, such as a program that go build left in a
// commit.
func TestStyle_FilesAreSources(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "..").Output()
	if err != nil {
		t.Skip("the files are listed by git, which does not answer here")
	}
	for name := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n") {
		if info, err := os.Stat(name); err == nil && info.Size() > most {
			t.Errorf("%s has %d bytes: keep files that are not written by hand below %d, or out of Git",
				strings.TrimPrefix(name, "../"), info.Size(), most)
		}
	}
}
