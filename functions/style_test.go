package functions_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// avoided are words and patterns that made sentences hard to read, each with what to write instead. The pattern of all
// of them saves a test of a file that has none.
func avoided() (each map[*regexp.Regexp]string, all *regexp.Regexp) {
	words := map[string]string{
		`anew`:                             "again",
		`in vain`:                          "without effect",
		`for ever`:                         "forever",
		`(brought|brings?|bringing) about`: "applied, caused",
		`mend(s|ed|ing)?`:                  "repair",
		`meanwhile`:                        "in between, or name the time",
		`beside`:                           "in addition to, next to",
		`(is|are) to be`:                   "must",
		`nobody|somebody`:                  "name who",
		`of its own`:                       "separate",
		`at once`:                          "concurrently, immediately, or in one call",
		`// package \w+ knows`:             "a verb that says what the package provides",
	}
	patterns := map[*regexp.Regexp]string{}
	for word, instead := range words {
		patterns[avoid(word)] = instead
	}
	return patterns, avoid(slices.Sorted(maps.Keys(words))...)
}

// avoid is a pattern of words, which may be on two lines of a comment.
func avoid(words ...string) *regexp.Regexp {
	const space = `\s+(?://\s*|#\s*|\*\s*)?`
	return regexp.MustCompile(`(?i)\b(` + strings.ReplaceAll(strings.Join(words, "|"), " ", space) + `)\b`)
}

// writtenElsewhere reports whether a file is a library of others, or the bundler's output.
func writtenElsewhere(name string) bool {
	return strings.HasPrefix(name, "console/app/vendor/") || strings.HasPrefix(name, "console/static/")
}

// TestStyle_PlainEnglish refuses words that a reader stumbles over in code, Terraform and documents.
func TestStyle_PlainEnglish(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard",
		"..").Output()
	if err != nil {
		t.Skip("the files are listed by git, which does not answer here")
	}
	patterns, all := avoided()
	checked := 0
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
		if err != nil {
			t.Fatal(err)
		}
		checked++
		if !all.Match(b) {
			continue
		}
		for pattern, instead := range patterns {
			for _, found := range pattern.FindAllIndex(b, -1) {
				if found[0] > 0 && b[found[0]-1] == '.' { // a name in code, such as http.NoBody
					continue
				}
				line := 1 + strings.Count(string(b[:found[0]]), "\n")
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
