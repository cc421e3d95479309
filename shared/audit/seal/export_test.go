package seal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/shared/audit/seal"
)

// export returns the lines of an export of the log with its seals.
func (f *fixture) export() []string {
	f.t.Helper()
	var lines []string
	for _, s := range f.Sealed {
		line, err := json.Marshal(seal.Line{Seal: &s})
		if err != nil {
			f.t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	for _, e := range slices.Backward(f.Log) {
		lines = append(lines, string(e.JSON))
	}
	return lines
}

// TestVerifyExport_FindsWhatWasChanged edits a file of 3 seals and 320 entries in each row. The newest entry is line 3,
// counted from 0, and entry-0299 is the newest that is sealed.
func TestVerifyExport_FindsWhatWasChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(lines []string) []string
		want string
	}{
		"nothing": {edit: func(lines []string) []string { return lines }, want: "[]"},
		"a changed entry": {
			edit: func(lines []string) []string {
				lines[100] = strings.ReplaceAll(lines[100], "StopAgent", "StartAgent")
				return lines
			},
			want: "[{entry_changed entry-0222 3}]",
		},
		"a missing entry": {
			edit: func(lines []string) []string { return slices.Delete(lines, 100, 101) },
			want: "[{entry_missing entry-0222 3}]",
		},
		"an added entry": {
			edit: func(lines []string) []string {
				return slices.Insert(lines, 100, strings.ReplaceAll(lines[100], "entry-0222", "entry-0222a"))
			},
			want: "[{entry_added entry-0222a 0}]",
		},
		"an entry twice": {
			edit: func(lines []string) []string { return slices.Insert(lines, 100, lines[100]) },
			want: "[{entry_reordered entry-0222 0} {entry_added entry-0222 0}]",
		},
		"two entries in another order": {
			edit: func(lines []string) []string {
				lines[100], lines[101] = lines[101], lines[100]
				return lines
			},
			want: "[{entry_reordered entry-0222 3}]",
		},
		"a changed seal": {
			edit: func(lines []string) []string {
				lines[1] = strings.Replace(lines[1], `"count":60`, `"count":61`, 1)
				return lines
			},
			want: "[{seal_broken  2}]",
		},
		"a missing seal": {
			edit: func(lines []string) []string {
				entries := slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
					var e struct{ ID string }
					_ = json.Unmarshal([]byte(line), &e)
					return e.ID >= "entry-0100" && e.ID < "entry-0160"
				})
				return slices.Delete(entries, 1, 2)
			},
			want: "[{seal_broken  3}]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := sealedFixture(t)
			text := strings.Join(c.edit(f.export()), "\n") + "\n"
			report, err := seal.VerifyExport(strings.NewReader(text), f.Now, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(report.Problems); got != c.want {
				t.Errorf("problems %s, want %s", got, c.want)
			}
		})
	}
}

func TestVerifyExport_ComparesWithAnAnchor(t *testing.T) {
	t.Parallel()
	f := sealedFixture(t)
	text := strings.Join(f.export(), "\n")
	kept, err := seal.NewestOf(strings.NewReader(text))
	if err != nil || kept != f.Sealed[2].Anchor() {
		t.Fatalf("newest seal %v, %v; want %v", kept, err, f.Sealed[2].Anchor())
	}
	for _, c := range []struct {
		anchor seal.Anchor
		want   string
	}{
		{anchor: kept, want: "[]"},
		{anchor: seal.Anchor{Sequence: 2, Hash: kept.Hash}, want: "[{seal_broken  2}]"},
	} {
		report, err := seal.VerifyExport(strings.NewReader(text), f.Now, &c.anchor)
		if err != nil || fmt.Sprint(report.Problems) != c.want {
			t.Errorf("anchor %v: problems %v, %v; want %s", c.anchor, report.Problems, err, c.want)
		}
	}
}

func TestVerifyExport_RefusesOtherFiles(t *testing.T) {
	t.Parallel()
	f := sealedFixture(t)
	lines := f.export()
	later := bytes.ReplaceAll([]byte(strings.Join(lines, "\n")), []byte(`"format":1`), []byte(`"format":2`))
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"an export without seals": {text: strings.Join(lines[3:], "\n"), want: seal.ErrNoSeals},
		"an empty file":           {text: "", want: seal.ErrNoSeals},
		"seals of a later format": {text: string(later), want: seal.ErrUnknownFormat},
	} {
		if _, err := seal.VerifyExport(strings.NewReader(c.text), f.Now, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
	}
	_, err := seal.VerifyExport(strings.NewReader(lines[0]+"\nnot JSON\n"), f.Now, nil)
	if err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("error %v, want one that names line 2", err)
	}
	if _, err := seal.NewestOf(strings.NewReader(lines[4])); !errors.Is(err, seal.ErrNoSeals) {
		t.Errorf("newest seal of no seals: %v, want %v", err, seal.ErrNoSeals)
	}
}
