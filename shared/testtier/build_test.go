package testtier

import (
	"strings"
	"testing"
	"time"
)

func TestCheckTime_FailsBeforeABuildThatDoesNotFit(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		needed, left time.Duration
		fits         bool
	}{
		"cold build, whole suite's timeout": {needed: 12 * time.Minute, left: 40 * time.Minute, fits: true},
		"cold build, default timeout":       {needed: 12 * time.Minute, left: 10 * time.Minute},
		"cold build, nothing left after it": {needed: 12 * time.Minute, left: 13 * time.Minute},
		"warm build, default timeout":       {needed: 2 * time.Minute, left: 10 * time.Minute, fits: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := checkTime(row.needed, row.left)
			if (err == nil) != row.fits {
				t.Fatalf("checkTime(%s, %s) = %v, want it to fit: %t", row.needed, row.left, err, row.fits)
			}
			if err != nil && !strings.Contains(err.Error(), "go run ./emulators build") {
				t.Errorf("the error %q does not say what to do", err)
			}
		})
	}
}
