package console_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// sources returns the text of the app's sources by name, except for libraries and the generated types. Among them are
// those of the TypeScript client.
func sources(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, root := range []string{"app", "../../shared/client/typescript/src"} {
		readSources(t, root, found)
	}
	return found
}

func readSources(t *testing.T, root string, found map[string]string) {
	t.Helper()
	before := len(found)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name == filepath.Join("app", "vendor") {
			return filepath.SkipDir
		}
		switch filepath.Ext(name) {
		case ".ts", ".tsx", ".css":
		default:
			return nil
		}
		b, err := os.ReadFile(name)
		if !strings.HasPrefix(string(b), "// Code generated") {
			found[name] = string(b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == before {
		t.Fatalf("found no source in %s", root)
	}
}

// TestApp_UsesNothingThatItsPolicyForbids names the source line. The browser would refuse it only when it runs.
func TestApp_UsesNothingThatItsPolicyForbids(t *testing.T) {
	t.Parallel()
	forbidden := regexp.MustCompile(`\b(innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|` +
		`eval\(|new Function|srcdoc|DOMParser|createContextualFragment|javascript:|setAttribute\("style")|` +
		`createPolicy|@import url|url\(["']?http`)
	for name, text := range sources(t) {
		n := 0
		for line := range strings.Lines(text) {
			n++
			if found := forbidden.FindString(line); found != "" {
				t.Errorf("%s:%d uses %s: render elements, and set styles through classes", name, n, found)
			}
		}
	}
}

// TestApp_KeepsTokensInTheTab holds that only the theme outlives the tab.
func TestApp_KeepsTokensInTheTab(t *testing.T) {
	t.Parallel()
	lasting := regexp.MustCompile(`\b(localStorage|indexedDB|document\.cookie|cookieStore|caches\.)\b`)
	for name, text := range sources(t) {
		if name == filepath.Join("app", "theme.ts") {
			continue
		}
		if found := lasting.FindString(text); found != "" {
			t.Errorf("%s uses %s: keep what belongs to a session in sessionStorage", name, found)
		}
	}
}

// TestApp_FitsAReview holds the limits of Go files for those of the app.
func TestApp_FitsAReview(t *testing.T) {
	t.Parallel()
	const columns, lines = 120, 300
	for name, text := range sources(t) {
		n := 0
		for line := range strings.Lines(text) {
			n++
			drawn := name == filepath.Join("app", "ui", "icons.tsx") // the path of an icon cannot be wrapped
			if length := len([]rune(strings.TrimSuffix(line, "\n"))); length > columns && !drawn {
				t.Errorf("%s:%d has %d columns, want at most %d", name, n, length, columns)
			}
		}
		if n > lines && filepath.Ext(name) != ".css" { // a style sheet is a list
			t.Errorf("%s has %d lines, want at most %d: split it", name, n, lines)
		}
	}
}
