package firestore

import (
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
)

// exportInterval is the time in which limitedExports refill a GiB.
const exportInterval = 24 * time.Hour / 50

// limitedExports allow an organization 50 GiB a day.
func limitedExports(now time.Time) Options {
	return Options{
		Exports: ratelimit.Limit{Quota: 50, Window: 24 * time.Hour}, Now: func() time.Time { return now },
	}
}

// takeSnapshot gives the fixture's agent a snapshot of 20 GiB that is ready.
func (x tenantFixture) takeSnapshot(t *testing.T) (id string) {
	t.Helper()
	_, err := x.client.WorkerStore().Update(x.org.Ctx, x.agent, func(a *agent.Agent) {
		id = a.ID + "-snapshot"
		a.Snapshots = append(a.Snapshots, agent.Snapshot{ID: id, Status: agent.SnapshotReady, SizeBytes: 20 << 30})
	})
	must(t, err)
	return id
}

// wantExports checks what the exports of the fixture's organization cost.
func (x tenantFixture) wantExports(t *testing.T, gib int) {
	t.Helper()
	o, err := x.client.Directory().Organization(x.org.Ctx, x.org.ID)
	must(t, err)
	if want := x.client.now().Add(time.Duration(gib) * exportInterval); !o.ExportsFullAt.Equal(want) {
		t.Errorf("ExportsFullAt = %v, want %v: the exports cost %d GiB", o.ExportsFullAt, want, gib)
	}
}

// TestAdmitExport_ChangesTheAgentAndItsOrganizationOrNeither exports the snapshots of three agents of an organization.
func TestAdmitExport_ChangesTheAgentAndItsOrganizationOrNeither(t *testing.T) {
	t.Parallel()
	c := open(t, "", limitedExports(agenttest.Now()))
	x := newTenantFixture(t, c)
	for i, wantCode := range []string{"", "", "rate_limited"} {
		if i > 0 {
			x.agent = x.org.Create(plan.Pro)
		}
		id := x.takeSnapshot(t)
		_, err := c.WorkerStore().AdmitExport(x.org.Ctx, x.agent, id, "a call")
		if fault.Code(err) != wantCode {
			t.Errorf("export %d: %v, want code %q", i, err, wantCode)
		}
		if held := x.loadAgent(t).Reader.SnapshotID != ""; held != (wantCode == "") {
			t.Errorf("export %d: the agent has a reader: %t", i, held)
		}
		if _, err := c.WorkerStore().AdmitExport(x.org.Ctx, x.agent, id, "another call"); err == nil {
			t.Errorf("another call than export %d has its reader", i)
		}
		x.wantExports(t, 20*min(i+1, 2))
	}
}

// TestAdmitExport_IsExactOverProcesses exports from two processes that have read the organization concurrently.
func TestAdmitExport_IsExactOverProcesses(t *testing.T) {
	t.Parallel()
	c := open(t, "", limitedExports(agenttest.Now()))
	x := newTenantFixture(t, c)
	clients := []*Client{c, open(t, c.project(), limitedExports(c.now()))}
	refused := make([]string, 6)
	var all sync.WaitGroup
	for i := range refused {
		x.agent = x.org.Create(plan.Pro)
		a, id := x.agent, x.takeSnapshot(t)
		all.Go(func() {
			_, err := clients[i%len(clients)].WorkerStore().AdmitExport(x.org.Ctx, a, id, "a call")
			refused[i] = fault.Code(err)
		})
	}
	all.Wait()
	allowed := 0
	for _, code := range refused {
		if code == "" {
			allowed++
		}
	}
	if allowed != 2 {
		t.Errorf("%d exports were admitted, want 2: %q", allowed, refused)
	}
	x.wantExports(t, 40)
}

// TestAdmitExport_CountsOnceIfItsAnswerIsLost: another worker writes the agent before the call repeats its commit, so
// that it does not find it.
func TestAdmitExport_CountsOnceIfItsAnswerIsLost(t *testing.T) {
	t.Parallel()
	c := open(t, "", limitedExports(agenttest.Now()))
	x := newTenantFixture(t, c)
	id, lost := x.takeSnapshot(t), false
	o := limitedExports(c.now())
	o.DialOptions = []grpc.DialOption{aroundCommits(func(commit func() error) error {
		err := commit()
		if lost {
			return err
		}
		must(t, err)
		lost = true
		_, err = c.WorkerStore().Update(t.Context(), x.loadAgent(t), func(a *agent.Agent) { a.Attempts++ })
		must(t, err)
		return status.Error(codes.Unavailable, "the answer is lost")
	})}
	a, err := open(t, c.project(), o).WorkerStore().AdmitExport(x.org.Ctx, x.agent, id, "a call")
	must(t, err)
	if !lost || a.Reader.Holder != "a call" || a.Attempts != 1 {
		t.Errorf("the agent has %d attempts and the reader %+v; an answer was lost: %t", a.Attempts, a.Reader, lost)
	}
	x.wantExports(t, 20)
}

// TestCountSent_SharesTheLimitOfExports counts bytes that were sent from two processes, next to an export of 20 GiB.
func TestCountSent_SharesTheLimitOfExports(t *testing.T) {
	t.Parallel()
	c := open(t, "", limitedExports(agenttest.Now()))
	x := newTenantFixture(t, c)
	clients := []*Client{c, open(t, c.project(), limitedExports(c.now()))}
	_, err := c.WorkerStore().AdmitExport(x.org.Ctx, x.agent, x.takeSnapshot(t), "a call")
	must(t, err)
	refused := make([]string, 4)
	var all sync.WaitGroup
	for i := range refused {
		all.Go(func() {
			refused[i] = fault.Code(clients[i%len(clients)].WorkerStore().CountSent(x.org.Ctx, x.org.ID, 10<<30))
		})
	}
	all.Wait()
	slices.Sort(refused)
	if want := []string{"", "", "", "rate_limited"}; !slices.Equal(refused, want) {
		t.Errorf("codes %q, want %q: 50 GiB a day, of which 20 are exported", refused, want)
	}
	x.wantExports(t, 50)
	if err := c.WorkerStore().CountSent(x.org.Ctx, "org_unknown", 1); !fault.Is(err, fault.NotFound) {
		t.Errorf("bytes of an organization without a record: %v, want NotFound", err)
	}
}
