package firestore

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
)

// TestAuditLog_HasOneEntryPerCallUnderFaults fails every call of every audited operation. If no change reports that it
// wrote the entry of the call, the test appends one, as the server does. Then there must be one entry, with the real
// outcome, whatever the client was answered.
func TestAuditLog_HasOneEntryPerCallUnderFaults(t *testing.T) {
	t.Parallel()
	for name, op := range operations() {
		if op.unaudited {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t, "", Options{}) // queries read a collection of all tenants
			forEachFault(func(f *injectedFault) bool { return checkEntryWithFault(t, c, op, f) },
				codes.Unavailable, codes.Aborted)
		})
	}
}

func checkEntryWithFault(t *testing.T, c *Client, op operation, f *injectedFault) (reached bool) {
	t.Helper()
	tenant := newTenantFixture(t, c)
	entriesBefore := len(tenant.org.Entries())
	var trail *audit.CallEntry
	tenant.org.Ctx, trail = tenant.org.Call()
	err := op.run(open(t, c.project(), f.options()), tenant)
	done := op.timesDone(t, tenant)
	if trail.Written() && done != 1 {
		t.Errorf("%s: done %d times, but the entry is reported as written", f, done)
	}
	if !trail.Written() {
		outcome := audit.Succeeded
		if err != nil {
			outcome = fault.From(err).Code
		}
		must(t, c.AuditLog().Append(t.Context(), audit.Entry{
			ID: trail.ID(), OrganizationID: tenant.org.ID, Actor: call.From(tenant.org.Ctx).Caller, Action: "TestAgent",
			Outcome: outcome,
		}))
	}

	wantOutcome := audit.Succeeded
	if done != 1 && err != nil {
		wantOutcome = fault.From(err).Code
	}
	entries := tenant.org.Entries()[entriesBefore:]
	if len(entries) != 1 {
		t.Errorf("%s: done %d times (%v), entries %+v; want one", f, done, err, entries)
		return f.reached()
	}
	if got, want := entries[0].ID, trail.ID(); got != want {
		t.Errorf("%s: entry %s, want %s", f, got, want)
	}
	if got := entries[0].Outcome; got != wantOutcome {
		t.Errorf("%s: done %d times (%v), outcome %s, want %s", f, done, err, got, wantOutcome)
	}
	return f.reached()
}

func TestAppend_WritesOneEntryUnderFaults(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	for _, loseAnswer := range []bool{false, true} {
		for call, reached := 1, true; reached; call++ {
			f := &injectedFault{call: call, code: codes.Unavailable, loseAnswer: loseAnswer}
			id := fmt.Sprintf("entry-%t-%d", loseAnswer, call)
			if err := open(t, c.project(), f.options()).AuditLog().
				Append(t.Context(), audit.Entry{ID: id, OrganizationID: id, Outcome: audit.Succeeded}); err != nil {
				t.Errorf("%s: append: %v", f, err)
			}
			entries, err := c.readEntries(t.Context(), id)
			must(t, err)
			if len(entries) != 1 {
				t.Errorf("%s: %d entries, want 1", f, len(entries))
			}
			reached = f.reached()
		}
	}
}

func TestAppend_IsUnavailableWhileTheDatabaseIsDown(t *testing.T) {
	t.Parallel()
	f := &injectedFault{call: 1, code: codes.Unavailable, permanent: true}
	err := open(t, "", f.options()).AuditLog().Append(t.Context(), audit.Entry{ID: "e", OrganizationID: "o"})
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("error %v, want Unavailable", err)
	}
}
