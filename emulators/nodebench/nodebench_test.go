//go:build unix

package nodebench

import (
	"strings"
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	sorted := []time.Duration{1, 2, 3, 4}
	for _, test := range []struct {
		share float64
		want  time.Duration
	}{{0, 1}, {0.5, 3}, {0.99, 4}, {1, 4}} {
		if got := percentile(sorted, test.share); got != test.want {
			t.Errorf("percentile(%v) = %d, want %d", test.share, got, test.want)
		}
	}
	if got := percentile(nil, 0.5); got != 0 {
		t.Errorf("percentile of nothing = %d, want 0", got)
	}
}

func TestPrint_ComparesWithTheFirstKind(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := Print(&out, []Figures{
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
