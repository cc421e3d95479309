package firestore

import (
	"context"
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

// TestRecountAfterFaults fails every call of a recount in every way: a drift is found once, unless the recount says
// that it failed.
func TestRecountAfterFaults(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	for _, off := range []int64{0, 1} {
		everyFailure(func(s *sabotage) bool { return recounted(t, c, off, s) },
			codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.Internal)
	}
}

// recounted recounts an organization that is off by so many agents under sabotage. It is false when the recount makes
// fewer calls.
func recounted(t *testing.T, c *Client, off int64, s *sabotage) bool {
	t.Helper()
	o, label := s.options()
	label = fmt.Sprintf("off by %d, %s", off, label)
	org := agentWorld(c).Tenant(t, plan.Pro)
	org.Create(plan.Pro)
	held := org.Usage()
	if err := c.spoil(t.Context(), org.ID, held.Plus(organization.Usage{Agents: off})); err != nil {
		t.Fatal(err)
	}
	drift, found, err := open(t, c.project(), o).Counts().Recount(t.Context(), org.ID)
	repaired := org.Usage() == held
	switch {
	case err != nil && (found || drift != organization.Drift{}):
		t.Errorf("%s: %+v, %v", label, drift, err)
	case err != nil && !fault.Is(err, fault.Unavailable) && s.code != codes.Internal:
		t.Errorf("%s: %v, want unavailable", label, err)
	case err == nil && (!repaired || found != (off != 0) || found && drift.Recorded.Minus(drift.Counted).Agents != off):
		t.Errorf("%s: found %t, %+v, repaired %t", label, found, drift, repaired)
	}
	if _, found, err := c.Counts().Recount(t.Context(), org.ID); err != nil || found == repaired {
		t.Errorf("%s: repaired %t, and the next recount found %t, %v", label, repaired, found, err)
	}
	return s.calls >= s.at
}

// TestTornCount has a change come between the record and the count, and the commit of what was counted fail without a
// trace: nobody knows whether it was carried out. It was not, and there never was a drift.
func TestTornCount(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentWorld(c).Tenant(t, plan.Pro)
	org.Create(plan.Pro)
	torn, lost := false, false
	intrude := []grpc.DialOption{
		grpc.WithChainStreamInterceptor(func(
			ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer,
			opts ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			if strings.HasSuffix(method, "/RunQuery") && !torn {
				torn = true
				org.Create(plan.Pro)
			}
			return open(ctx, desc, cc, method, opts...)
		}),
		grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
			opts ...grpc.CallOption,
		) error {
			if strings.HasSuffix(method, "/Commit") && !lost {
				lost = true
				return status.Error(codes.Unavailable, "nobody knows")
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		}),
	}
	drift, found, err := open(t, c.project(), Options{DialOptions: intrude}).Counts().Recount(t.Context(), org.ID)
	if err != nil || found || !torn || !lost {
		t.Errorf("drift %+v, found %t, %v (torn %t, lost %t); want none of a count that was torn and lost", drift,
			found, err, torn, lost)
	}
}

// TestRecountCalls counts what a recount costs: what an organization holds is read without its contents.
func TestRecountCalls(t *testing.T) {
	t.Parallel()
	counter := &calls{}
	c := open(t, "", Options{Observe: counter.observe})
	org := agentWorld(c).Tenant(t, plan.Enterprise)
	for range 5 {
		org.Create(plan.Hobby)
	}
	for _, row := range []struct {
		page  int
		spoil bool
		want  string
	}{
		{page: countPage, spoil: false, want: "read query query"},
		{page: countPage, spoil: true, want: "read query query commit"},
		{page: 4, spoil: false, want: "read query query query"},
		{page: 5, spoil: false, want: "read query query query"}, // a full page may not be the last
	} {
		if row.spoil {
			if err := c.spoil(t.Context(), org.ID, organization.Usage{}); err != nil {
				t.Fatal(err)
			}
		}
		got := plain(counter.of(func() {
			if _, found, err := (&Counts{client: c, page: row.page}).Recount(t.Context(), org.ID); err != nil ||
				found != row.spoil {
				t.Errorf("found %t, %v", found, err)
			}
		}))
		if got != row.want {
			t.Errorf("pages of %d, spoiled %t: calls %q, want %q", row.page, row.spoil, got, row.want)
		}
	}
}
