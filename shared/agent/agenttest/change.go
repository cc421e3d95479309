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

func changeIsKept(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	stopped := org.change(a.ID, act(agent.Stop))
	sameRecord(t, "Load after Change", org.load(a.ID), stopped)
	equal(t, "status", stopped.Status, agent.Stopped)
	if stopped.Version == a.Version {
		t.Errorf("version %q did not change", stopped.Version)
	}
	if stopped.ChangeID == a.ChangeID {
		t.Errorf("change id %q did not change", stopped.ChangeID)
	}
	equal(t, "usage", org.Usage(), sum(stopped))
}

func emptyChange(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	for name, apply := range map[string]func(*agent.Agent) error{
		"empty closure":                    func(*agent.Agent) error { return nil },
		"action that is already satisfied": act(agent.Start),
		"equal values": func(a *agent.Agent) error {
			a.Env = append([]agent.EnvVar{}, a.Env...)
			a.CreatedAt = a.CreatedAt.Local()
			return nil
		},
	} {
		sameRecord(t, "Change with "+name, org.change(a.ID, apply), a)
	}
	equal(t, "version", org.load(a.ID).Version, a.Version)
	equal(t, "number of audit entries (one of the creation)", len(org.Entries()), 1)
	equal(t, "number of nudges (one of the creation)", w.Nudges.Count(a.ID), 1)
}

func refusedChange(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	refusal := errors.New("refused")
	_, err := w.Store.Change(org.Ctx, a.ID, func(a *agent.Agent) error {
		a.Name, a.Stages[0].Attempt, a.Env[0].Value = "changed", 99, "changed"
		return refusal
	})
	if !errors.Is(err, refusal) {
		t.Errorf("Change = %v, want the closure's error", err)
	}
	sameRecord(t, "the record after a refused change", org.load(a.ID), a)
	equal(t, "number of audit entries (one of the creation)", len(org.Entries()), 1)
}

func changeOfIdentity(t testing.TB, w Fixture) {
	org, other := w.Tenant(t, plan.Pro), w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	got := org.change(a.ID, func(a *agent.Agent) error {
		a.ID, a.OrganizationID, a.Name = ID(), other.ID, "moved"
		return nil
	})
	equal(t, "id", got.ID, a.ID)
	equal(t, "organization id", got.OrganizationID, org.ID)
	equal(t, "name", org.load(a.ID).Name, "moved")
}

func auditOfChange(t testing.TB, w Fixture) {
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
	days := entries[1].ExpiresAt.Sub(entries[1].CreatedAt).Hours() / 24
	equal(t, "days that the entry is kept on the enterprise plan", days, 548)
	if text := fmt.Sprintf("%+v", entries); strings.Contains(text, "hidden-") || strings.Contains(text, "plain-value") {
		t.Errorf("the audit log shows values of the environment or the config: %s", text)
	}
}

func nudgeOnNewGeneration(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	org.change(a.ID, func(a *agent.Agent) error {
		a.Name = "only a label"
		return nil
	})
	equal(t, "nudges after a change without a new generation", w.Nudges.Count(a.ID), 1)
	w.Nudges.Fail(errors.New("the queue is down"))
	org.change(a.ID, act(agent.Stop))
	equal(t, "nudges after a new generation", w.Nudges.Count(a.ID), 2)
	if _, err := w.Store.Create(org.Ctx, Draft(plan.Hobby)); err != nil {
		t.Errorf("Create with a lost nudge: %v, want success", err)
	}
}

func concurrentChanges(t testing.TB, w Fixture) {
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
	equal(t, "number of concurrent changes that were kept", org.load(a.ID).Rollout, writers)
	equal(t, "number of audit entries", len(org.Entries()), writers+1)
}
