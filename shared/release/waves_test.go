package release

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/page"
)

// fleet counts the agents that are read.
type fleet struct {
	*world

	read int
}

func (f *fleet) ListAll(_ context.Context, after string, limit int) (page.Page[agent.Agent], error) {
	begin, _ := slices.BinarySearchFunc(f.agents, after, func(a agent.Agent, id string) int {
		return cmp.Or(cmp.Compare(a.ID, id), -1)
	})
	p := page.Page[agent.Agent]{Items: f.agents[begin:min(len(f.agents), begin+limit)]}
	if f.read += len(p.Items); len(p.Items) == limit {
		p.Next = p.Items[limit-1].ID
	}
	return p, nil
}

// TestMove_ReadsFewMoreAgentsThanItMoves, and the fewer of them it can move, the more it reads.
func TestMove_ReadsFewMoreAgentsThanItMoves(t *testing.T) {
	t.Parallel()
	r := Release{
		ID: "assistant-1", Image: "assistant", Waves: []int{100}, Total: 2 * visitPage, Surveyed: true,
		DefaultSet: true,
		Target:     image.Choice{ID: "assistant", Version: "2", Reference: "r/a@sha256:2"},
	}
	begin := r.start()
	for name, row := range map[string]struct {
		movable             int // one in so many
		wantMoved, wantRead int
	}{
		"all can move":    {movable: 1, wantMoved: MaxChanges, wantRead: MaxChanges},
		"half can move":   {movable: 2, wantMoved: MaxChanges, wantRead: 3 * MaxChanges},
		"almost none can": {movable: 2 * visitPage, wantMoved: 1, wantRead: visitPage},
	} {
		f := &fleet{world: &world{}}
		for i := range 2 * visitPage {
			a := agent.Agent{
				ID: fmt.Sprintf("%s-%04d", begin, i), Status: agent.Paused,
				Image: agent.Software{Choice: image.Choice{ID: "assistant", Version: "1", Reference: "r/a@sha256:1"}},
			}
			if i%row.movable == 0 {
				a.Status = agent.Running
			}
			f.agents = append(f.agents, a)
		}
		o := &Roller{Releases: f, Agents: f, Metrics: f, Nudger: f, Now: func() time.Time { return began }}
		if _, err := o.move(t.Context(), r, &watch{}); err != nil {
			t.Fatal(err)
		}
		if len(f.saved) != row.wantMoved || f.read != row.wantRead {
			t.Errorf("%s: a step moves %d agents and reads %d, want %d and %d", name, len(f.saved), f.read,
				row.wantMoved, row.wantRead)
		}
	}
}
