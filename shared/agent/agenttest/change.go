package agenttest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/plan"
)

func change(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	stopped := org.change(a.ID, act(agent.Stop))
	if got := org.load(a.ID); !reflect.DeepEqual(got, stopped) || got.Status != agent.Stopped {
		t.Errorf("Load differs from what Change returned:\n got %+v\nwant %+v", got, stopped)
	}
	if stopped.Version == a.Version || stopped.ChangeID == a.ChangeID {
		t.Errorf("version %q and change id %q are the former ones", stopped.Version, stopped.ChangeID)
	}
	if got, want := org.Usage(), sum(t, stopped); got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
}

func changeNothing(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	for name, apply := range map[string]func(*agent.Agent) error{
		"an empty closure":         func(*agent.Agent) error { return nil },
		"a target that is reached": act(agent.Start),
		"equal values": func(a *agent.Agent) error {
			a.Env = append([]agent.EnvVar{}, a.Env...)
			a.CreatedAt = a.CreatedAt.Local()
			return nil
		},
	} {
		got := org.change(a.ID, apply)
		if !reflect.DeepEqual(got, a) {
			t.Errorf("%s returned another record:\n got %+v\nwant %+v", name, got, a)
		}
	}
	if got := org.load(a.ID); got.Version != a.Version {
		t.Errorf("version %q, want the former %q", got.Version, a.Version)
	}
	if n := len(org.Entries()); n != 1 {
		t.Errorf("%d audit entries, want that of the creation only", n)
	}
	if n := w.Nudges.Count(a.ID); n != 1 {
		t.Errorf("%d nudges, want that of the creation only", n)
	}
}

func changeRefused(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	refusal := errors.New("refused")
	_, err := w.Store.Change(org.Ctx, a.ID, func(a *agent.Agent) error {
		a.Name, a.Stages[0].Attempt, a.Env[0].Value = "changed", 99, "changed"
		return refusal
	})
	if !errors.Is(err, refusal) {
		t.Errorf("error %v, want the closure's own", err)
	}
	if got := org.load(a.ID); !reflect.DeepEqual(got, a) {
		t.Errorf("the record changed:\n got %+v\nwant %+v", got, a)
	}
	if n := len(org.Entries()); n != 1 {
		t.Errorf("%d audit entries, want that of the creation only", n)
	}
}

func changeIdentity(t *testing.T, w World) {
	org, other := w.Tenant(t, plan.Pro), w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	got := org.change(a.ID, func(a *agent.Agent) error {
		a.ID, a.OrganizationID, a.Name = ID(), other.ID, "moved"
		return nil
	})
	if got.ID != a.ID || got.OrganizationID != org.ID || org.load(a.ID).Name != "moved" {
		t.Errorf("a closure moved the agent to %s of %s", got.ID, got.OrganizationID)
	}
}

func auditOfChange(t *testing.T, w World) {
	org := w.Tenant(t, plan.Enterprise)
	a := org.Create(plan.Hobby)
	org.change(a.ID, func(a *agent.Agent) error {
		a.Name, a.Plan, a.Sandbox, a.Status, a.Config = "Renamed", plan.Starter, true, agent.Stopped,
			[]byte(`{"k":"hidden-1"}`)
		a.Env = []agent.EnvVar{{Key: "FIRST", Value: "hidden-2"}, {Key: "LEVEL", Value: "hidden-3"}}
		return nil
	})
	entries := org.Entries()
	if len(entries) != 2 {
		t.Fatalf("%d audit entries, want 2", len(entries))
	}
	want := []audit.Change{
		{Field: "name", Old: "Support Bot", New: "Renamed"},
		{Field: "resource_plan", Old: "hobby", New: "starter"},
		{Field: "status", Old: "provisioning", New: "stopped"},
		{Field: "sandbox_enabled", Old: "false", New: "true"},
		{Field: "config", New: "changed"},
		{Field: "env_vars.FIRST", New: "set"},
		{Field: "env_vars.LEVEL", New: "changed"},
		{Field: "env_vars.TOKEN", New: "removed"},
	}
	if got := entries[1].Changes; !reflect.DeepEqual(got, want) {
		t.Errorf("the entry's changes:\n got %+v\nwant %+v", got, want)
	}
	if kept := entries[1].ExpiresAt.Sub(entries[1].CreatedAt).Hours() / 24; kept != 548 {
		t.Errorf("the entry is kept for %v days, want 548 on the enterprise plan", kept)
	}
	if text := fmt.Sprintf("%+v", entries); strings.Contains(text, "hidden-") || strings.Contains(text, "plain-value") {
		t.Errorf("the audit log shows values of the environment or the config: %s", text)
	}
}

func nudge(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	org.change(a.ID, func(a *agent.Agent) error {
		a.Name = "only a label"
		return nil
	})
	if n := w.Nudges.Count(a.ID); n != 1 {
		t.Errorf("%d nudges after a change that no worker needs to see, want 1", n)
	}
	w.Nudges.Fail(errors.New("the queue is down"))
	org.change(a.ID, act(agent.Stop))
	if n := w.Nudges.Count(a.ID); n != 2 {
		t.Errorf("%d nudges after a new generation, want 2", n)
	}
	if _, err := w.Store.Create(org.Ctx, Draft(plan.Hobby)); err != nil {
		t.Errorf("a lost nudge failed a creation: %v", err)
	}
}

func manyChanges(t *testing.T, w World) {
	const writers = 16
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	errs := make([]error, writers)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			_, errs[i] = w.Store.Change(org.Ctx, a.ID, func(a *agent.Agent) error {
				a.Rollout++
				return nil
			})
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("concurrent changes: %v", err)
	}
	if got := org.load(a.ID).Rollout; got != writers {
		t.Errorf("%d of %d concurrent changes were kept", got, writers)
	}
	if n := len(org.Entries()); n != writers+1 {
		t.Errorf("%d audit entries, want %d", n, writers+1)
	}
}
