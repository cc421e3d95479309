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
	requested := agent.Deletion{ClusterRequestedAt: at(0)}
	gone := func(minute int) agent.Finding {
		return agent.ClusterDeletionSeen{NamespaceGone: true, VolumeGone: true, At: at(minute)}
	}
	steps := []struct {
		name    string
		finding agent.Finding
		want    agent.Deletion
	}{
		{name: "requested", finding: agent.ClusterDeletionRequested{At: at(0)}, want: requested},
		{name: "requested again", finding: agent.ClusterDeletionRequested{At: at(1)}, want: requested},
		{name: "nothing gone", finding: agent.ClusterDeletionSeen{At: at(2)}, want: requested},
		{
			name: "namespace gone", finding: agent.ClusterDeletionSeen{NamespaceGone: true, At: at(3)},
			want: agent.Deletion{ClusterRequestedAt: at(0), NamespaceGoneAt: at(3)},
		},
		{
			name: "volume gone, too", finding: gone(4),
			want: agent.Deletion{ClusterRequestedAt: at(0), NamespaceGoneAt: at(3), VolumeGoneAt: at(4)},
		},
		{name: "both exist again", finding: agent.ClusterDeletionSeen{At: at(5)}, want: requested},
		{
			name: "both gone again", finding: gone(6),
			want: agent.Deletion{ClusterRequestedAt: at(0), NamespaceGoneAt: at(6), VolumeGoneAt: at(6)},
		},
	}
	var a agent.Agent
	for _, s := range steps {
		if a.Learn(s.finding); a.Deletion != s.want {
			t.Fatalf("%s: %+v, want %+v", s.name, a.Deletion, s.want)
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
