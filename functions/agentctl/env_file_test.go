package agentctl //nolint:testpackage // what it reads is no output of the tool, because values are never shown

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEnvFile_IsReadAsTheConsoleDoes reads the files whose meaning emulators/consoletest checks in a browser.
func TestEnvFile_IsReadAsTheConsoleDoes(t *testing.T) {
	t.Parallel()
	type entry struct {
		Key, Value string
		Line       int
	}
	var rows []struct {
		Given    string
		Entries  []entry
		Problems []int
	}
	text, err := os.ReadFile("testdata/envfiles.json")
	if err == nil {
		err = json.Unmarshal(text, &rows)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		f := readEnv(row.Given)
		entries, problems := []entry{}, []int{}
		for _, e := range f.entries {
			entries = append(entries, entry{e.key, e.value, e.line})
		}
		for _, p := range f.problems {
			var line int
			if _, err := fmt.Sscanf(p, "line %d:", &line); err != nil {
				t.Errorf("the problem %q names no line", p)
			}
			problems = append(problems, line)
		}
		if diff := cmp.Diff(row.Entries, entries); diff != "" {
			t.Errorf("readEnv(%q) (-want +got):\n%s", row.Given, diff)
		}
		if diff := cmp.Diff(row.Problems, problems); diff != "" {
			t.Errorf("problems of %q (-want +got):\n%s", row.Given, diff)
		}
	}
}

// FuzzEnvFile looks for files that the reader cannot end, or whose problems have a value.
func FuzzEnvFile(f *testing.F) {
	f.Add("A=\"b\\\nc\"\n#d\n`=e")
	f.Fuzz(func(t *testing.T, text string) {
		const value = "canary"
		for _, p := range readEnv(strings.ReplaceAll(text, "x", value)).problems {
			if strings.Contains(p, value) {
				t.Errorf("the problem %q has a value", p)
			}
		}
	})
}
