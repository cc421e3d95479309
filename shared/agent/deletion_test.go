package agent_test

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
)

func TestRequestDeletion_KeepsTheFirstRequest(t *testing.T) {
	t.Parallel()
	a := agent.Agent{Status: agent.Running}
	for i, by := range []string{"ada", "grace"} {
		if err := a.RequestDeletion(by, at(i)); err != nil {
			t.Fatal(err)
		}
	}
	if want := (agent.Deletion{RequestedAt: at(0), RequestedBy: "ada"}); a.Deletion != want {
		t.Errorf("Deletion = %+v, want %+v", a.Deletion, want)
	}
}

func TestDeletion_HasOnlyWhatWasObserved(t *testing.T) {
	t.Parallel()
	steps := []struct {
		name  string
		apply func(*agent.Deletion, time.Time)
		want  agent.Deletion
	}{
		{"requested", (*agent.Deletion).RequestCluster, agent.Deletion{ClusterRequestedAt: at(0)}},
		{"requested again", (*agent.Deletion).RequestCluster, agent.Deletion{ClusterRequestedAt: at(0)}},
		{
			"nothing gone", func(d *agent.Deletion, t time.Time) { d.ObserveCluster(false, false, t) },
			agent.Deletion{ClusterRequestedAt: at(0)},
		},
		{
			"namespace gone", func(d *agent.Deletion, t time.Time) { d.ObserveCluster(true, false, t) },
			agent.Deletion{ClusterRequestedAt: at(0), NamespaceGoneAt: at(3)},
		},
		{
			"volume gone, too", func(d *agent.Deletion, t time.Time) { d.ObserveCluster(true, true, t) },
			agent.Deletion{ClusterRequestedAt: at(0), NamespaceGoneAt: at(3), VolumeGoneAt: at(4)},
		},
		{
			"both exist again", func(d *agent.Deletion, t time.Time) { d.ObserveCluster(false, false, t) },
			agent.Deletion{ClusterRequestedAt: at(0)},
		},
		{
			"both gone again", func(d *agent.Deletion, t time.Time) { d.ObserveCluster(true, true, t) },
			agent.Deletion{ClusterRequestedAt: at(0), NamespaceGoneAt: at(6), VolumeGoneAt: at(6)},
		},
	}
	var d agent.Deletion
	for i, s := range steps {
		if s.apply(&d, at(i)); d != s.want {
			t.Fatalf("%s: %+v, want %+v", s.name, d, s.want)
		}
	}
}

// The clock of the store may be behind that of the worker.
func TestComplete_IsNotBeforeTheObservations(t *testing.T) {
	t.Parallel()
	observed := agent.Deletion{NamespaceGoneAt: at(1), VolumeGoneAt: at(2), SecretsGoneAt: at(4)}
	r := agent.DeletionRecord{Deletion: observed}
	for stored, want := range map[time.Time]time.Time{at(3): at(4), at(5): at(5)} {
		if r.Complete(stored); !r.CompletedAt.Equal(want) {
			t.Errorf("CompletedAt = %v for a removal at %v, want %v", r.CompletedAt, stored, want)
		}
	}
}
