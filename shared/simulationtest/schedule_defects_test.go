package simulationtest

import (
	"context"
	"time"

	"agents.example/controlplane/shared/agent"
)

// uncalled lists no agent whose calls are due.
type uncalled struct{ agent.WorkerStore }

func (uncalled) ListCallsDue(context.Context, time.Time, int) ([]agent.Agent, error) { return nil, nil }

// unscheduled makes the sweep find no agent whose calls are due.
func unscheduled() Plant {
	return stores("sweep", func(s agent.WorkerStore) agent.WorkerStore { return uncalled{s} })
}

// scheduleDefects undo guards of the calls of schedules.
func scheduleDefects() []defect {
	fronts := func(rules FrontRules) Plant { return Plant{Fronts: rules, Focus: arrangeSchedules} }
	worker := func(also func(before agent.Agent, s *agent.Schedule)) Plant {
		return focused(arrangeSchedules, afterWorker("worker", func(_ *World, before agent.Agent, a *agent.Agent) {
			for i := range a.Schedules {
				if i < len(before.Schedules) {
					also(before, &a.Schedules[i])
				}
			}
		}))
	}
	return []defect{
		{
			name: "a front forgets its calls", undoes: "a front makes each call once",
			plant: fronts(FrontRules{NoMemory: true}),
		},
		{
			name: "all fronts have one name", undoes: "a call whose front is gone is not made again",
			plant: fronts(FrontRules{OneName: true}),
		},
		{
			name: "a due time stays due", undoes: "the record of a call handles its due time",
			plant: worker(func(before agent.Agent, s *agent.Schedule) {
				if former := before.Schedules; s.Call.Open() {
					s.After = former[0].After
				}
			}),
		},
		{
			name: "a call is ordered before it is recorded", undoes: "a call is recorded before it is ordered",
			plant: worker(func(_ agent.Agent, s *agent.Schedule) {
				if s.Call.Open() && s.ID == "often" {
					s.Call = agent.Call{}
				}
			}),
		},
		{
			name: "schedules are not swept", undoes: "the sweep lists the agents whose schedules are due",
			plant: focused(arrangeSchedules, unscheduled()),
		},
		{
			name: "missed calls are made", undoes: "a schedule skips what it missed",
			plant: worker(func(before agent.Agent, s *agent.Schedule) {
				for _, former := range before.Schedules {
					if former.ID == s.ID && s.Skipped > former.Skipped {
						s.Skipped = former.Skipped
					}
				}
			}),
		},
	}
}
