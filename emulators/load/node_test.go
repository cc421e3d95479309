package load

import (
	"strings"
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	for p, want := range map[int]time.Duration{0: 1, 50: 2, 99: 4, 100: 4} {
		if got := percentile([]time.Duration{4, 2, 3, 1}, p); got != want {
			t.Errorf("percentile %d = %d, want %d", p, got, want)
		}
	}
	if got := percentile(nil, 50); got != 0 {
		t.Errorf("percentile of nothing = %d, want 0", got)
	}
}

func TestPrintNodes_ComparesWithTheFirstKind(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := PrintNodes(&out, []NodeFigures{
		{Kind: "processes", Rate: 200, Running: []time.Duration{time.Second}},
		{Kind: "gVisor", Rate: 50, Memory: 3 << 20, Running: []time.Duration{2 * time.Second, 3 * time.Second}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"processes", "gVisor", "200/s, 1.00 x", "50/s, 0.25 x", "3 MiB", " 1s ", "3s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, out.String())
		}
	}
}
