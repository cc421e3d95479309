package agentlog_test

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/agentlog"
)

func TestPosition_SurvivesItsText(t *testing.T) {
	t.Parallel()
	for _, p := range []agentlog.Position{
		{Container: agentlog.Container("pod", "run")},
		{
			Container: agentlog.Container("pod", "run"), Time: time.Date(2026, time.March, 2, 9, 30, 0, 1, time.UTC),
			Text: 0xffffffff, Occurrence: 999_999_999,
		},
	} {
		if got, err := agentlog.ParsePosition(p.String()); err != nil || got != p {
			t.Errorf("%s is read as %+v, %v, want %+v", p, got, err, p)
		}
	}
}

func FuzzPosition(f *testing.F) {
	f.Add("0123456789abcdef-1772443800000000001-00000001-1")
	f.Add("0123456789abcdef-9999999999999999999-ffffffff-999999999")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := agentlog.ParsePosition(text)
		if err != nil {
			return
		}
		if again, err := agentlog.ParsePosition(p.String()); err != nil || again != p {
			t.Errorf("%q is read as %+v, and its text as %+v, %v", text, p, again, err)
		}
	})
}
