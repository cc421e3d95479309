package agent_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

// restWith returns an agent that came to rest in a status after TOKEN was set to the versions up to the last one, all
// of them bound but none proven.
func restWith(t *testing.T, status agent.Status, last int64) agent.Agent {
	t.Helper()
	a := withSecret()
	a.Status, a.ObservedGeneration = status, a.Generation
	for version := int64(2); version <= last; version++ {
		id := fmt.Sprint("v", version)
		begin(t, &a, 5, set(id, "TOKEN"))
		recordStored(t, &a, 5, id, version)
		a.BindSecrets(at(5))
		a.MarkSecretsSynced(at(5))
		if a.Status == agent.Error {
			a.GiveUp(agent.Failure{Code: "image_pull_failed"}, at(6))
		} else {
			a.MarkObserved(at(6))
		}
	}
	return a
}

func TestSupersededVersions_AreThoseThatNoStartNeeds(t *testing.T) {
	t.Parallel()
	former := []agent.VersionSpan{{Key: "TOKEN", From: 1, Before: 4}}
	for name, c := range map[string]struct {
		given agent.Agent
		then  func(*testing.T, *agent.Agent)
		want  []agent.VersionSpan
	}{
		"stopped":  {given: restWith(t, agent.Stopped, 4), want: former},
		"paused":   {given: restWith(t, agent.Paused, 4), want: former},
		"in error": {given: restWith(t, agent.Error, 4), want: former},
		"only one": {given: restWith(t, agent.Stopped, 1)},
		"destroyed once": {
			given: restWith(t, agent.Stopped, 4),
			then:  func(_ *testing.T, a *agent.Agent) { a.MarkPruned(a.SupersededVersions()) },
		},
		"another value that is not bound": {
			given: restWith(t, agent.Stopped, 2),
			then: func(t *testing.T, a *agent.Agent) {
				t.Helper()
				store(t, a, 7, 3, set("new", "TOKEN"))
			},
			want: []agent.VersionSpan{{Key: "TOKEN", From: 1, Before: 2}},
		},
		"a value that may be stored": {
			given: restWith(t, agent.Stopped, 2),
			then:  func(t *testing.T, a *agent.Agent) { t.Helper(); begin(t, a, 7, set("new", "TOKEN")) },
			want:  []agent.VersionSpan{{Key: "TOKEN", From: 1, Before: 2}},
		},
		"a deletion that is not bound": {
			given: restWith(t, agent.Stopped, 2),
			then:  func(t *testing.T, a *agent.Agent) { t.Helper(); begin(t, a, 7, del("d", "TOKEN")) },
			want:  []agent.VersionSpan{{Key: "TOKEN", From: 1, Before: 2}},
		},
		"a deletion": {
			given: restWith(t, agent.Stopped, 2),
			then: func(t *testing.T, a *agent.Agent) {
				t.Helper()
				begin(t, a, 7, del("d", "TOKEN"))
				a.BindSecrets(at(7))
				a.MarkSecretsSynced(at(7))
				a.MarkObserved(at(7))
			},
			want: []agent.VersionSpan{{Key: "TOKEN", From: 1, Before: 3}},
		},
		"a start": {
			given: restWith(t, agent.Stopped, 4),
			then: func(t *testing.T, a *agent.Agent) {
				t.Helper()
				if err := a.Act(agent.Start, "", at(8)); err != nil {
					t.Fatal(err)
				}
			},
		},
		"a rotation": {
			given: restWith(t, agent.Stopped, 1),
			then: func(t *testing.T, a *agent.Agent) {
				t.Helper()
				store(t, a, 7, 2, rotate("r"))
				a.BindSecrets(at(7))
				a.MarkSecretsSynced(at(7))
				a.MarkObserved(at(7))
			},
		},
	} {
		a := c.given
		if c.then != nil {
			c.then(t, &a)
		}
		if got := a.SupersededVersions(); !slices.Equal(got, c.want) {
			t.Errorf("%s: SupersededVersions = %v, want %v", name, got, c.want)
		}
	}
}

func TestMarkObserved_SchedulesTheDestructionOfSupersededVersions(t *testing.T) {
	t.Parallel()
	a := restWith(t, agent.Stopped, 3)
	if want := at(6).Add(agent.NudgeGrace); !a.WorkDueAt.Equal(want) {
		t.Errorf("WorkDueAt = %v, want %v", a.WorkDueAt, want)
	}
	a.RetryDestroy("secret_quota_exceeded", true, at(7))
	if a.WorkDueAt.IsZero() {
		t.Error("WorkDueAt is zero after a failed destruction, want another run")
	}
	a.MarkPruned(a.SupersededVersions())
	if !a.WorkDueAt.IsZero() {
		t.Errorf("WorkDueAt = %v after the destruction, want none", a.WorkDueAt)
	}
}

func TestBeginOperations_RefusesAnEleventhLiveVersion(t *testing.T) {
	t.Parallel()
	a := restWith(t, agent.Stopped, agent.MaxLiveVersions)
	a.Live = nil
	planned, err := a.PlanOperations([]secret.Operation{set("x", "TOKEN")}, at(9))
	if !fault.Is(err, fault.Conflict) || fault.Code(err) != "secret_versions_full" {
		t.Fatalf("PlanOperations = %v, %v, want secret_versions_full", planned, err)
	}
	if got := fault.From(err).After(); got <= 0 || got > time.Minute {
		t.Errorf("After = %s, want some seconds", got)
	}
	for what, requested := range map[string]secret.Operation{
		"another key": set("x", "OTHER"), "a deletion": del("x", "TOKEN"), "a rotation": rotate("x"),
	} {
		if _, err := a.PlanOperations([]secret.Operation{requested}, at(9)); err != nil {
			t.Errorf("%s: %v, want no error", what, err)
		}
	}
	a.MarkPruned(a.SupersededVersions())
	if _, err := a.PlanOperations([]secret.Operation{set("x", "TOKEN")}, at(9)); err != nil {
		t.Errorf("after the destruction: %v, want no error", err)
	}
}
