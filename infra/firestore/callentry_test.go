package firestore

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
)

// TestOneEntryAfterFaults fails every call of every change in every way, and then writes the entry of the call as
// whoever serves it does when no change is known to have written it. There is one entry, and it tells what became of
// the change, whatever the client was told.
func TestOneEntryAfterFaults(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	for name, op := range operations() {
		if op.silent {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyFailure(func(s *sabotage) bool { return entered(t, c, op, s) }, codes.Unavailable, codes.Aborted)
		})
	}
}

// entered makes a call under sabotage and checks its entry. It is false when the operation makes fewer calls.
func entered(t *testing.T, c *Client, op operation, s *sabotage) bool {
	t.Helper()
	o, label := s.options()
	scene := newScene(t, c)
	before := len(scene.org.Entries())
	var trail *audit.CallEntry
	scene.org.Ctx, trail = scene.org.Call()
	err := op.do(open(t, c.project(), o), scene)
	done := op.done(t, scene)
	if trail.Written() && done != 1 {
		t.Errorf("%s: done %d times, and the trail says that the entry was written", label, done)
	}
	outcome := audit.Succeeded
	if err != nil {
		outcome = fault.From(err).Code
	}
	if !trail.Written() {
		if err := c.AuditLog().Append(t.Context(), audit.Entry{
			ID: trail.ID(), OrganizationID: scene.org.ID, Actor: identity.From(scene.org.Ctx), Action: "TestAgent",
			Outcome: outcome,
		}); err != nil {
			t.Fatal(err)
		}
	}
	if done == 1 {
		outcome = audit.Succeeded
	}
	entries := scene.org.Entries()[before:]
	if len(entries) != 1 || entries[0].ID != trail.ID() || entries[0].Outcome != outcome {
		t.Errorf("%s: done %d times (%v), entries %+v; want one that says %s", label, done, err, entries, outcome)
	}
	return s.calls >= s.at
}

// TestAppendAfterFaults: an entry is appended once, whatever becomes of the answers.
func TestAppendAfterFaults(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	for _, late := range []bool{false, true} {
		for at, more := 1, true; more; at++ {
			s := &sabotage{code: codes.Unavailable, late: late, at: at}
			id := fmt.Sprintf("entry-%t-%d", late, at)
			err := open(t, c.project(), Options{DialOptions: s.interceptors()}).AuditLog().
				Append(t.Context(), audit.Entry{ID: id, OrganizationID: id, Outcome: audit.Succeeded})
			entries, readErr := c.entries(t.Context(), id)
			if err != nil || readErr != nil || len(entries) != 1 {
				t.Errorf("call %d fails (late %t): %v, %d entries (%v); want one", at, late, err, len(entries), readErr)
			}
			more = s.calls >= s.at
		}
	}
	s := &sabotage{code: codes.Unavailable, at: 1, forever: true}
	down := open(t, c.project(), Options{DialOptions: s.interceptors(), Timeout: 400 * time.Millisecond}).AuditLog()
	if err := down.Append(t.Context(), audit.Entry{ID: "e", OrganizationID: "o"}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("append while the database is down: %v, want unavailable", err)
	}
}
