package firestore

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// TestRecount_ReportsADriftOnceUnderFaults fails every call of a recount. A drift is reported once, unless the recount
// fails.
func TestRecount_ReportsADriftOnceUnderFaults(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	for _, drift := range []int64{0, 1} {
		t.Run(fmt.Sprintf("usage too high by %d agents", drift), func(t *testing.T) {
			forEachFault(func(f *injectedFault) bool { return checkRecountWithFault(t, c, drift, f) },
				codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.Internal)
		})
	}
}

// checkRecountWithFault recounts an organization whose recorded number of agents is too high by drift.
func checkRecountWithFault(t *testing.T, c *Client, drift int64, f *injectedFault) (reached bool) {
	t.Helper()
	org := agentFixture(c).Tenant(t, plan.Pro)
	org.Create(plan.Pro)
	held := org.Usage()
	must(t, c.overwriteUsage(t.Context(), org.ID, held.Plus(organization.Usage{Agents: drift})))
	got, found, err := open(t, c.project(), f.options()).Counts().Recount(t.Context(), org.ID)
	correct := org.Usage() == held

	if err != nil {
		if found || got != (organization.Drift{}) {
			t.Errorf("%s: drift %+v (found %t) together with the error %v, want none", f, got, found, err)
		}
		if !fault.Is(err, fault.Unavailable) && f.code != codes.Internal {
			t.Errorf("%s: error %v, want Unavailable", f, err)
		}
	} else {
		if !correct {
			t.Errorf("%s: success, but usage %+v, want %+v", f, org.Usage(), held)
		}
		if want := drift != 0; found != want {
			t.Errorf("%s: found %t, want %t", f, found, want)
		}
		if agents := got.Recorded.Minus(got.Counted).Agents; found && agents != drift {
			t.Errorf("%s: drift of %d agents, want %d", f, agents, drift)
		}
	}

	_, found, err = c.Counts().Recount(t.Context(), org.ID)
	if err != nil {
		t.Errorf("%s: next recount: %v", f, err)
	}
	if want := !correct; found != want {
		t.Errorf("%s: next recount found a drift: %t, want %t", f, found, want)
	}
	return f.reached()
}

// TestRecount_IgnoresACountThatWasNotCommitted: an agent is created between the read of the organization and the count,
// so the count disagrees with what was read. Then the repair's commit fails with an unknown outcome. It was not carried
// out, and there never was a drift.
func TestRecount_IgnoresACountThatWasNotCommitted(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentFixture(c).Tenant(t, plan.Pro)
	org.Create(plan.Pro)
	created, failed := false, false
	interceptors := []grpc.DialOption{
		aroundStreams(func(method string, open openStream) (grpc.ClientStream, error) {
			if strings.HasSuffix(method, "/RunQuery") && !created {
				created = true
				org.Create(plan.Pro)
			}
			return open()
		}),
		aroundCommits(func(commit func() error) error {
			if !failed {
				failed = true
				return status.Error(codes.Unavailable, "injected fault")
			}
			return commit()
		}),
	}
	drift, found, err := open(t, c.project(), Options{DialOptions: interceptors}).Counts().Recount(t.Context(), org.ID)
	must(t, err)
	if found {
		t.Errorf("found the drift %+v, want none", drift)
	}
	if !created {
		t.Error("no agent was created during the count")
	}
	if !failed {
		t.Error("no commit failed")
	}
}

// TestRecount_ReadsPages counts a recount's calls, which read an organization's documents a page at a time.
func TestRecount_ReadsPages(t *testing.T) {
	t.Parallel()
	recorder := &callRecorder{}
	c := open(t, "", Options{Observe: recorder.observe})
	org := agentFixture(c).Tenant(t, plan.Enterprise)
	for range 5 {
		org.Create(plan.Hobby)
	}
	for _, row := range []struct {
		page  int
		drift bool
		want  string
	}{
		{page: countPage, drift: false, want: "read query query"},
		{page: countPage, drift: true, want: "read query query commit"},
		{page: 4, drift: false, want: "read query query query"},
		{page: 5, drift: false, want: "read query query query"}, // a full page may not be the last
	} {
		if row.drift {
			must(t, c.overwriteUsage(t.Context(), org.ID, organization.Usage{}))
		}
		got := recorder.during(func() {
			_, found, err := (&Counts{client: c, page: row.page}).Recount(t.Context(), org.ID)
			must(t, err)
			if found != row.drift {
				t.Errorf("pages of %d: found a drift: %t, want %t", row.page, found, row.drift)
			}
		})
		if got != row.want {
			t.Errorf("pages of %d, drift %t: calls %q, want %q", row.page, row.drift, got, row.want)
		}
	}
}
