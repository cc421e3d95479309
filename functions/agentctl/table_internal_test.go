package agentctl

import (
	"bytes"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

func TestTable_FitsNarrowTerminals(t *testing.T) {
	t.Parallel()
	const id = "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90"
	cells := map[string]string{
		"ID": id, "NAME": "an agent with a long name", "STATUS": "provisioning", "PLAN": "enterprise",
		"REGION": "europe-west1", "AGE": "5m",
	}
	titles := []string{"ID", "NAME", "STATUS", "PLAN", "REGION", "AGE"}
	var columns []column[map[string]string]
	for _, title := range titles {
		value := func(c map[string]string) string { return c[title] }
		columns = append(columns, column[map[string]string]{title, value})
	}
	for _, row := range []struct {
		width int
		want  string // the titles that are shown
		cut   bool   // the name is cut
	}{
		{width: 0, want: "ID NAME STATUS PLAN REGION AGE"},
		{width: 200, want: "ID NAME STATUS PLAN REGION AGE"},
		{width: 90, want: "ID NAME STATUS PLAN REGION AGE", cut: true},
		{width: 75, want: "ID NAME STATUS PLAN REGION", cut: true},
		{width: 67, want: "ID NAME STATUS PLAN", cut: true},
		{width: 60, want: "ID NAME STATUS", cut: true},
		{width: 40, want: "ID NAME STATUS"},
	} {
		var b bytes.Buffer
		s := screen{Writer: &b, width: row.width, unicode: true, paint: true}
		if err := printTable(s, []map[string]string{cells}, columns); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(ansi.Strip(b.String()), "\n")
		if got := strings.Join(strings.Fields(lines[0]), " "); got != row.want {
			t.Errorf("%d columns: titles %q, want %q", row.width, got, row.want)
		}
		if isCut := !strings.Contains(lines[1], cells["NAME"]); isCut != row.cut {
			t.Errorf("%d columns: the name is cut: %t, want %t: %q", row.width, isCut, row.cut, lines[1])
		}
		if width := ansi.StringWidth(lines[1]); row.cut && width > row.width {
			t.Errorf("the line has %d columns, want at most %d: %q", width, row.width, lines[1])
		}
		if !strings.Contains(lines[1], id) || !strings.Contains(b.String(), "\x1b[33mprovisioning\x1b[0m") {
			t.Errorf("%d columns: no whole id, or no colored status: %q", row.width, b.String())
		}
	}
}

func TestTableLine_ColorsByTheWholeStatus(t *testing.T) {
	t.Parallel()
	s := screen{paint: true, unicode: true}
	if got, want := s.tableLine(false, []string{"STATUS"}, []string{"provisioning"}, []int{0}, []int{6}),
		"\x1b[33mprovi…\x1b[0m"; got != want {
		t.Errorf("the line of a cut status = %q, want %q", got, want)
	}
}
