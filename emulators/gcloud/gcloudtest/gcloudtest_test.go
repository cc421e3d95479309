//go:build unix

package gcloudtest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"agents.example/controlplane/emulators/gcloud"
)

func TestChoose_ShortUsesEmbeddedUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		environment string
		short       bool
		want        gcloud.Choice
	}{
		{environment: "", want: gcloud.Embedded},
		{environment: "auto", want: gcloud.Auto},
		{environment: "embedded", want: gcloud.Embedded},
		{environment: "official", want: gcloud.Official},
		{environment: "", short: true, want: gcloud.Embedded},
		{environment: "auto", short: true, want: gcloud.Embedded},
		{environment: "official", short: true, want: gcloud.Official},
	} {
		if got, err := choose(row.environment, row.short); err != nil || got != row.want {
			t.Errorf("choose(%q, %t) = %q, %v; want %q", row.environment, row.short, got, err, row.want)
		}
	}
	if got, err := choose("java", false); err == nil {
		t.Errorf(`choose("java", false) = %q, want an error`, got)
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
