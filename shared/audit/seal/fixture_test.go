package seal_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/audit/seal"
	"agents.example/controlplane/shared/audit/seal/sealtest"
)

const organization = "org_1"

var start = time.Date(2026, time.March, 2, 9, 30, 0, 1000, time.UTC)

// entryAt makes an entry that is created some time after the start, and written a second later.
func entryAt(n int, after time.Duration) seal.Entry {
	e := audit.Entry{
		ID: fmt.Sprintf("entry-%04d", n), CreatedAt: start.Add(after), Action: "StopAgent", Outcome: audit.Succeeded,
		Changes: []audit.Change{{Field: "name", Old: "a <b> \u2028", New: "b"}},
	}
	line, _ := json.Marshal(e.Show())
	return seal.Entry{
		ID: e.ID, CreatedAt: e.CreatedAt, ExpiresAt: e.CreatedAt.AddDate(0, 0, 30),
		WrittenAt: e.CreatedAt.Add(time.Second), JSON: line,
	}
}

// fixture is a log with a sealer, at a time that tests move.
type fixture struct {
	*sealtest.Memory
	t      *testing.T
	now    time.Time
	sealer *seal.Sealer
}

// newFixture makes a log with one entry a minute, the first at the start.
func newFixture(t *testing.T, entries int) *fixture {
	t.Helper()
	f := &fixture{t: t, now: start}
	f.Memory = &sealtest.Memory{OrganizationID: organization, Now: func() time.Time { return f.now }}
	for i := range entries {
		f.Log = append(f.Log, entryAt(i, time.Duration(i)*time.Minute))
	}
	f.sealer = &seal.Sealer{Store: f.Memory, Now: f.Now}
	return f
}

// sealAt runs the sealer some time after the start.
func (f *fixture) sealAt(after time.Duration) {
	f.t.Helper()
	f.now = start.Add(after)
	if err := f.sealer.Run(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) verify(anchor *seal.Anchor) seal.Report {
	f.t.Helper()
	report, err := seal.Verify(f.t.Context(), f.Memory, organization, f.Now, anchor)
	if err != nil {
		f.t.Fatal(err)
	}
	return report
}

// sealedFixture has 300 entries in three seals or more, and 20 newer entries in none.
func sealedFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, 320)
	for _, after := range []time.Duration{2 * time.Hour, 3 * time.Hour, 320 * time.Minute} {
		f.sealAt(after)
	}
	if len(f.Sealed) != 3 || f.Sealed[2].SealedUntil != start.Add(300*time.Minute) {
		t.Fatalf("%d seals until %v, want 3 until %v", len(f.Sealed), f.Sealed[2].SealedUntil, start.Add(5*time.Hour))
	}
	return f
}
