//go:build unix

package gcloudtest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/shared/testtier"
)

func TestChoose_ShortUsesEmbedded(t *testing.T) {
	t.Parallel()
	for tier, want := range map[testtier.Tier]gcloud.Choice{
		testtier.Embedded: gcloud.Embedded, testtier.Official: gcloud.Official, testtier.Both: gcloud.Auto,
	} {
		if got := choose(tier, false); got != want {
			t.Errorf("choose(%q, false) = %q, want %q", tier, got, want)
		}
		if got := choose(tier, true); got != gcloud.Embedded {
			t.Errorf("choose(%q, true) = %q, want %q", tier, got, gcloud.Embedded)
		}
	}
}

// fakeEmulator is an emulator whose Close may fail.
type fakeEmulator struct {
	choice   gcloud.Choice
	closeErr error
}

func (e fakeEmulator) String() string { return string(e.choice) }
func (e fakeEmulator) Close() error   { return e.closeErr }

func TestRunOn(t *testing.T) {
	t.Parallel()
	missing, broken := fmt.Errorf("java: %w", gcloud.ErrMissing), errors.New("broken")
	for name, row := range map[string]struct {
		choice    gcloud.Choice
		attach    string
		startErrs map[gcloud.Choice]error
		closeErr  error
		codes     map[gcloud.Choice]int // exit codes of the test runs

		wantRuns []gcloud.Choice
		wantCode int
	}{
		"auto runs on both": {choice: gcloud.Auto, wantRuns: []gcloud.Choice{gcloud.Official, gcloud.Embedded}},
		"a failure on one fails the whole": {
			choice: gcloud.Auto, codes: map[gcloud.Choice]int{gcloud.Official: 1},
			wantRuns: []gcloud.Choice{gcloud.Official, gcloud.Embedded}, wantCode: 1,
		},
		"auto goes without a missing official emulator": {
			choice: gcloud.Auto, startErrs: map[gcloud.Choice]error{gcloud.Official: missing},
			wantRuns: []gcloud.Choice{gcloud.Embedded},
		},
		"an emulator that cannot start fails": {
			choice: gcloud.Auto, startErrs: map[gcloud.Choice]error{gcloud.Official: broken}, wantCode: 1,
		},
		"an explicit choice that is missing fails": {
			choice: gcloud.Official, startErrs: map[gcloud.Choice]error{gcloud.Official: missing}, wantCode: 1,
		},
		"embedded only": {choice: gcloud.Embedded, wantRuns: []gcloud.Choice{gcloud.Embedded}},
		"official only": {choice: gcloud.Official, wantRuns: []gcloud.Choice{gcloud.Official}},
		"attached":      {choice: gcloud.Auto, attach: "127.0.0.1:1", wantRuns: []gcloud.Choice{gcloud.Auto}},
		"a failing Close fails": {
			choice: gcloud.Embedded, closeErr: broken, wantRuns: []gcloud.Choice{gcloud.Embedded}, wantCode: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var runs []gcloud.Choice
			code := runOn(row.choice, row.attach,
				func(c gcloud.Choice) (fakeEmulator, error) {
					return fakeEmulator{c, row.closeErr}, row.startErrs[c]
				},
				func(e fakeEmulator) int { runs = append(runs, e.choice); return row.codes[e.choice] })
			if code != row.wantCode {
				t.Errorf("exit code %d, want %d", code, row.wantCode)
			}
			if !slices.Equal(runs, row.wantRuns) {
				t.Errorf("tests ran on %v, want %v", runs, row.wantRuns)
			}
		})
	}
}
