package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/metrics"
)

// P10: a cycle of metrics makes the same calls for ten agents as for a hundred times as many, and writes a document
// each.
func measureCycles(ctx context.Context, l *environment) (Report, error) {
	few, err := l.cycle(ctx, max(1, l.agents/100))
	if err != nil {
		return Report{}, err
	}
	many, err := l.cycle(ctx, l.agents)
	if err != nil {
		return Report{}, err
	}
	return Report{Rows: []Row{
		{
			ID: "P10", What: fmt.Sprintf("cycle of metrics, %d agents", l.agents), Ours: float64(many.MonitoringCalls),
			Limit: float64(len(metrics.Metrics())),
			Unit:  "Monitoring calls", Most: 1,
			Note: fmt.Sprintf("%d for %d agents", few.MonitoringCalls, max(1, l.agents/100)),
		},
		{
			ID: "P10", What: "the same, documents written", Ours: float64(many.Writes-1) / float64(l.agents), Limit: 1,
			Unit: "an agent", Most: 1,
			Note: "and one for the progress",
		},
	}}, nil
}

// cycle counts the second cycle of a number of agents: the first one reads a whole day.
func (l *environment) cycle(ctx context.Context, agents int) (_ Tally, err error) {
	d, err := l.deploy(ctx)
	if err != nil {
		return Tally{}, err
	}
	defer func() { err = closeDeployment(err, d) }()
	if _, err := d.createAgents(ctx, agents); err != nil {
		return Tally{}, err
	}
	return d.countCycle(ctx)
}

func (d *deployment) countCycle(ctx context.Context) (Tally, error) {
	ago := time.Now().Add(-metrics.Cycle)
	if err := d.deps.MetricsWorkerStore.SetProgress(ctx,
		map[string]metrics.Progress{cell: {Until: ago, Next: ago}}); err != nil {
		return Tally{}, err
	}
	return d.countRun(ctx, "CollectMetrics")
}

// countRun counts a run of a scheduled worker.
func (d *deployment) countRun(ctx context.Context, name string) (Tally, error) {
	return d.countDelivery(ctx, name, []byte("{}"))
}

// countDelivery counts a run of a worker, with the message that caused it.
func (d *deployment) countDelivery(ctx context.Context, name string, data []byte) (Tally, error) {
	for _, w := range functions.Workers(d.deps) {
		if w.Name != name {
			continue
		}
		d.drain()
		if err := w.Handle(ctx, function.Message{Data: data, PublishedAt: time.Now(), Attempt: 1}); err != nil {
			return Tally{}, fmt.Errorf("%s: %w", name, err)
		}
		return d.drain().plus(Tally{Requests: 1, Messages: 1}), nil
	}
	return Tally{}, fmt.Errorf("there is no worker %s", name)
}

// daysOfMonth is how long the month is.
const daysOfMonth = 30

// runsOfMonth is how often a schedule is due in a month: every minute, or at some minute of every hour, or of a day.
func runsOfMonth(schedule string) (int64, error) {
	fields := strings.Fields(schedule)
	if len(fields) != 5 || fields[2] != "*" || fields[3] != "*" || fields[4] != "*" ||
		strings.ContainsAny(schedule, ",-/") {
		return 0, fmt.Errorf("the schedule %q is not one that is counted", schedule)
	}
	runs := int64(daysOfMonth)
	if fields[1] == "*" {
		runs *= 24
	}
	if fields[0] == "*" {
		runs *= 60
	}
	return runs, nil
}

// P11: a month of agents that run and that nobody touches, from what every scheduled worker spends at a tick.
func measureMonth(ctx context.Context, l *environment) (_ Report, err error) {
	d, err := l.deploy(ctx)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = closeDeployment(err, d) }()
	agents, err := d.createAgents(ctx, l.agents)
	if err != nil {
		return Report{}, err
	}
	cost := Cost{Title: fmt.Sprintf("A month of %s running agents that nobody touches", withThousands(int64(l.agents)))}
	for _, w := range functions.Workers(d.deps) {
		if w.Schedule == "" {
			continue
		}
		runs, err := runsOfMonth(w.Schedule)
		if err != nil {
			return Report{}, fmt.Errorf("%s: %w", w.Name, err)
		}
		cost.Schedules++
		if w.Name == "CollectMetrics" {
			if err := d.countCollector(ctx, &cost, runs); err != nil {
				return Report{}, err
			}
			continue
		}
		t, err := d.countRun(ctx, w.Name)
		if err != nil {
			return Report{}, err
		}
		cost.Parts = append(cost.Parts, Part{w.Name, runs, t})
	}
	ticks := int64(daysOfMonth * 24 * time.Hour / metrics.Cycle)
	series := int64(len(metrics.Metrics()) - 1) // there are no errors to count
	cost.Limit = Tally{Series: series, Reads: 1, Writes: 1}.times(ticks * int64(l.agents))
	cost.Of = fmt.Sprintf("%d series, one document read and one written an agent and cycle", series)
	watched := Cost{Title: "A month of one agent that somebody looks at all the time, beside that"}
	snapshot, err := d.deps.MetricsWorkerStore.Load(ctx, []string{agents[0].ID})
	if err != nil {
		return Report{}, err
	}
	idle, err := d.countRun(ctx, "CollectMetrics")
	if err != nil {
		return Report{}, err
	}
	d.deps.Metrics.MarkViewed(ctx, snapshot[agents[0].ID])
	d.records.Flush()
	seen, err := d.countRun(ctx, "CollectMetrics")
	if err != nil {
		return Report{}, err
	}
	watched.Parts = []Part{{"CollectMetrics", daysOfMonth*24*60 - ticks, seen.plus(idle.times(-1))}}
	list, err := d.countRead(ctx, d.key, "/api/v1/agents?limit=100")
	if err != nil {
		return Report{}, err
	}
	return Report{Rows: []Row{cost.row(), {
		ID: "P12", What: fmt.Sprintf("list of an organization's agents, of %s in all", withThousands(int64(l.agents))),
		Ours:  float64(list.Reads),
		Limit: float64(min(l.agents, ofOrganization)), Unit: "documents", Most: 1.02,
		Note: fmt.Sprintf("in %d Firestore calls", list.Calls),
	}}, Costs: []Cost{cost, watched}}, nil
}

// countCollector counts the ticks of the collector: one in five is a cycle.
func (d *deployment) countCollector(ctx context.Context, c *Cost, runs int64) error {
	cycle, err := d.countCycle(ctx)
	if err != nil {
		return err
	}
	idle, err := d.countRun(ctx, "CollectMetrics")
	if err != nil {
		return err
	}
	of := int64(metrics.Cycle / time.Minute)
	c.Parts = append(c.Parts, Part{"CollectMetrics, cycles", runs / of, cycle},
		Part{"CollectMetrics, between", runs - runs/of, idle})
	return nil
}
