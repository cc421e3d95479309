package firestore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/plan"
)

// What a later release stored of one move, volume, reader, call or build is not true of the next one.
func TestRest_GoesWithWhatIsReplaced(t *testing.T) {
	t.Parallel()
	full := agenttest.FullAgent(agenttest.Now())
	doc := encodeAgent(full, "")
	addUnknown(doc, agentFields(&agent.Agent{}, new(string)))
	read := func() agent.Agent {
		a, _, err := decodeAgent(full.ID, inMap(doc))
		must(t, err)
		return a
	}
	schedule := func(a *agent.Agent) *agent.Schedule { return &a.Schedules[0] }
	later := full.CreatedAt.Add(1000 * time.Hour)
	for path, row := range map[string]struct{ change, replace func(*agent.Agent) }{
		"move": {
			change:  func(a *agent.Agent) { a.Move.State = agent.MoveFailed },
			replace: func(a *agent.Agent) { a.Move.RequestedAt = later },
		},
		"volume": {
			change:  func(a *agent.Agent) { a.Volume.Unmade = !a.Volume.Unmade },
			replace: func(a *agent.Agent) { a.Volume.Number++ },
		},
		"reader": {
			change:  func(a *agent.Agent) { a.Reader.Holder = "another" },
			replace: func(a *agent.Agent) { a.Reader.Number++ },
		},
		"deletion": {
			change:  func(a *agent.Agent) { a.Deletion.VolumeGoneAt = later },
			replace: func(a *agent.Agent) { a.Deletion = agent.Deletion{RequestedAt: later} },
		},
		"schedules.call": {
			change:  func(a *agent.Agent) { schedule(a).Call.LookAt = later },
			replace: func(a *agent.Agent) { schedule(a).Call = agent.Call{} },
		},
		"schedules.last": {
			change:  func(a *agent.Agent) { schedule(a).Last.Status = 418 },
			replace: func(a *agent.Agent) { schedule(a).Last = agent.CallResult{DueAt: later} },
		},
		"image": {
			change:  func(a *agent.Agent) { a.Image.Version = "another name" },
			replace: func(a *agent.Agent) { a.Image.Reference = "another build" },
		},
		"front.update": {
			change:  func(a *agent.Agent) { a.Front.Update.Restarts++ },
			replace: func(a *agent.Agent) { a.Front.Update.Release = "another" },
		},
	} {
		unknown := func(a agent.Agent) any {
			m := encodeAgent(a, "")
			for name := range strings.SplitSeq(path, ".") {
				switch inside := m[name].(type) {
				case map[string]any:
					m = inside
				case []any:
					m = inside[0].(map[string]any)
				default: // an empty group
					return nil
				}
			}
			return m[unknownField]
		}
		a := read()
		if row.change(&a); unknown(a) == nil {
			t.Errorf("%s: a change loses what a later release stored", path)
		}
		a = read()
		if row.replace(&a); unknown(a) != nil {
			t.Errorf("%s: another one has what a later release stored of the former one", path)
		}
	}
}

// Each release finds other times at which an agent's schedules and snapshots are due. What this one has written stays.
func TestUpdate_CorrectsTheDueTimeOfAnotherRelease(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	x := newTenantFixture(t, c)
	now := time.Date(2026, 3, 2, 9, 30, 0, 123456789, time.UTC) // the database keeps microseconds
	a, err := c.WorkerStore().Update(t.Context(), x.loadAgent(t), func(a *agent.Agent) {
		a.BecameReady(now)
		for i := range 3 {
			s := agent.Schedule{ScheduleTerms: agent.ScheduleTerms{ID: "s", Cron: "0 9 * * *", Timezone: "UTC"}}
			s.After = now
			if i > 0 {
				s.Call = agent.Call{DueAt: now, OrderedAt: now, LookAt: now.Add(time.Duration(i) * time.Minute)}
			}
			a.Schedules = append(a.Schedules, s)
		}
		a.Snapshots = []agent.Snapshot{{ID: "s", Status: agent.SnapshotPending, CreatedAt: now}}
	})
	must(t, err)
	due := x.loadAgent(t).CallsDueAt
	if loaded := x.loadAgent(t); due.IsZero() || a.Misdated() || loaded.Misdated() {
		t.Errorf("the agent is due at %v, which is corrected: %t; want a time that stays", due, loaded.Misdated())
	}
	ref, _ := c.agent(x.agent.ID)
	_, err = ref.Update(t.Context(), []gcp.Update{{Path: "calls_due_at", Value: nil}})
	must(t, err)
	found := x.loadAgent(t)
	if !found.Misdated() {
		t.Error("the time of another release is right")
	}
	_, err = c.WorkerStore().Update(t.Context(), found, func(*agent.Agent) {})
	must(t, err)
	if got := x.loadAgent(t).CallsDueAt; !got.Equal(due) {
		t.Errorf("the agent is due at %v, want %v", got, due)
	}
}

// A later release may restrict what an organization's new agents reach. After a roll-back, they reach no more.
func TestRest_OfRulesOfEgressGoesToNewAgents(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentFixture(c).Tenant(t, plan.Pro)
	ref, _ := c.ref(organizationCollection, org.ID)
	restricted := map[string]any{"mode": string(egress.AllowList), "allow": []string{"a.example"}, "ports": []int{443}}
	_, err := ref.Update(t.Context(), []gcp.Update{{Path: egressField, Value: restricted}})
	must(t, err)
	draft := agent.Draft{Name: "a", Plan: plan.Hobby, Region: agent.DefaultRegion}
	a, err := c.Agents(nil).Create(org.Ctx, agent.New(agenttest.ID(), "cell-1", draft, agenttest.Now()))
	must(t, err)
	ref, _ = c.agent(a.ID)
	stored, err := ref.Get(t.Context())
	must(t, err)
	if got, err := stored.DataAt("egress.ports"); err != nil || fmt.Sprint(got) != "[443]" || !a.Egress.Restricted() {
		t.Errorf("the new agent may reach %+v, and ports %v (%v) by a later release; want what its organization's may",
			a.Egress, got, err)
	}
}

// A later release may restrict what an agent reaches. After a roll-back, a clone of the agent reaches no more.
func TestRest_OfRulesOfEgressGoesToClones(t *testing.T) {
	t.Parallel()
	full := agenttest.FullAgent(agenttest.Now())
	full.Snapshots, full.Move = full.Snapshots[:1], agent.Move{}
	full.Snapshots[0].Status, full.Snapshots[0].GoneAt = agent.SnapshotReady, time.Time{}
	doc := encodeAgent(full, "")
	addUnknown(doc, agentFields(&agent.Agent{}, new(string)))
	a, _, err := decodeAgent(full.ID, inMap(doc))
	must(t, err)
	d, err := a.CloneDraft(a.Snapshots[0].ID)
	must(t, err)
	clone := encodeAgent(agent.New("a-clone", a.Cell, d, agenttest.Now()), "")
	got := slices.DeleteFunc(unknownIn(clone, agentFields(&agent.Agent{}, new(string))),
		func(path string) bool { return path == "" }) // of a map without the unknown field
	if want := []string{".egress"}; !slices.Equal(got, want) {
		t.Errorf("the clone has what a later release stored in %q, want %q", got, want)
	}
}
