package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/metrics"
)

// cycleRows are P10: a collection of metrics makes the same number of calls for few agents as for many, and writes one
// document for each agent.
func (l *environment) cycleRows(ctx context.Context, many Tally) ([]Row, error) {
	n := max(1, l.agents/100)
	few, err := l.cycle(ctx, n)
	if err != nil {
		return nil, err
	}
	return []Row{
		{
			ID: "P10", What: fmt.Sprintf("collection of metrics, %d agents", l.agents),
			Ours:  float64(many.MonitoringCalls),
			Limit: float64(len(metrics.Metrics()) + 1), // sandboxed agents have another metric of memory
			Unit:  "Monitoring calls", Most: 1,
			Note: fmt.Sprintf("%d for %d agents", few.MonitoringCalls, n),
		},
		{
			ID: "P10", What: "the same: documents written for each agent",
			Ours: float64(many.Writes-1) / float64(l.agents), Limit: 1,
			Unit: "documents", Most: 1,
			Note: "plus one for the progress",
		},
	}, nil
}

// cycle counts a collection for a number of agents, after a first one, which reads a whole day.
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

// countDelivery counts the delivery of a message to a worker.
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
	return Tally{}, fmt.Errorf("unknown worker %s", name)
}

// daysOfMonth is the length of the month.
const daysOfMonth = 30

// runsOfMonth returns how often a schedule runs in a month. It supports schedules of every minute, every n minutes,
// every hour and every day.
func runsOfMonth(schedule string) (int64, error) {
	fields := strings.Fields(schedule)
	if len(fields) != 5 || fields[2] != "*" || fields[3] != "*" || fields[4] != "*" ||
		strings.ContainsAny(schedule, ",-") {
		return 0, fmt.Errorf("schedule %q is not every minute, every n minutes, every hour or every day", schedule)
	}
	runs := int64(daysOfMonth)
	if fields[1] == "*" {
		runs *= 24
	}
	if every, ok := strings.CutPrefix(fields[0], "*/"); ok {
		n, err := strconv.ParseInt(every, 10, 64)
		if err != nil || n < 1 || 60%n != 0 {
			return 0, fmt.Errorf("schedule %q does not divide an hour", schedule)
		}
		runs *= 60 / n
	}
	if fields[0] == "*" {
		runs *= 60
	}
	return runs, nil
}

// measureMonth counts P11: a month of running agents without requests, from what each run of each scheduled worker
// costs. It also counts what else depends on the number of agents.
func measureMonth(ctx context.Context, l *environment, d *deployment) (Report, error) {
	agents, err := d.createAgents(ctx, l.agents)
	if err != nil {
		return Report{}, err
	}
	cost := Cost{Title: fmt.Sprintf("A month of %s running agents without requests", withThousands(int64(l.agents)))}
	var cycle Tally
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
			if cycle, err = d.countCollector(ctx, &cost, runs); err != nil {
				return Report{}, err
			}
			continue
		}
		t, err := d.countRun(ctx, w.Name)
		if err != nil {
			return Report{}, err
		}
		cost.Parts = append(cost.Parts, Part{What: w.Name, Times: runs, Each: t})
	}
	collections := int64(daysOfMonth * 24 * time.Hour / metrics.Cycle)
	series := int64(len(metrics.Metrics()) - 1) // these agents have no errors
	cost.Limit = Tally{Series: series, Reads: 1, Writes: 1}.times(collections * int64(l.agents))
	cost.Of = fmt.Sprintf("%d series, one document read and one written for each agent and collection", series)
	watched, err := d.countWatched(ctx, agents[0].ID, daysOfMonth*24*60-collections)
	if err != nil {
		return Report{}, err
	}
	list, err := d.countRead(ctx, d.key, "/api/v1/agents?limit=100")
	if err != nil {
		return Report{}, err
	}
	cycles, err := l.cycleRows(ctx, cycle)
	if err != nil {
		return Report{}, err
	}
	return Report{Rows: append(cycles, cost.row(), Row{
		ID: "P12", What: fmt.Sprintf("list of an organization's agents, among %s agents",
			withThousands(int64(l.agents))),
		Ours:  float64(list.Reads),
		Limit: float64(min(l.agents, agentsPerOrganization)), Unit: "documents", Most: 1.02,
		Note: fmt.Sprintf("in %d Firestore calls", list.Calls),
	}), Costs: []Cost{cost, watched}}, nil
}

// countWatched counts what one agent costs in addition while its metrics are watched, in all runs between collections.
func (d *deployment) countWatched(ctx context.Context, agentID string, runs int64) (Cost, error) {
	snapshot, err := d.deps.MetricsWorkerStore.Load(ctx, []string{agentID})
	if err != nil {
		return Cost{}, err
	}
	idle, err := d.countRun(ctx, "CollectMetrics")
	if err != nil {
		return Cost{}, err
	}
	d.deps.Metrics.MarkViewed(ctx, snapshot[agentID])
	d.records.Flush()
	watched, err := d.countRun(ctx, "CollectMetrics")
	if err != nil {
		return Cost{}, err
	}
	return Cost{
		Title: "In addition: a month of one agent whose metrics are always watched",
		Parts: []Part{{What: "CollectMetrics", Times: runs, Each: watched.plus(idle.times(-1))}},
	}, nil
}

// countCollector counts the runs of the collector. One in five collects metrics of all agents, which is returned.
func (d *deployment) countCollector(ctx context.Context, c *Cost, runs int64) (cycle Tally, err error) {
	if cycle, err = d.countCycle(ctx); err != nil {
		return cycle, err
	}
	idle, err := d.countRun(ctx, "CollectMetrics")
	if err != nil {
		return cycle, err
	}
	of := int64(metrics.Cycle / time.Minute)
	c.Parts = append(c.Parts, Part{What: "CollectMetrics, collecting", Times: runs / of, Each: cycle},
		Part{What: "CollectMetrics, in between", Times: runs - runs/of, Each: idle})
	return cycle, nil
}
