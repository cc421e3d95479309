package provisioning

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/logevent"
	"agents.example/controlplane/shared/parallel"
)

// HealthController updates the records of agents whose pods change while no worker has work on them: a running agent
// whose pod breaks goes to error, and an agent in error whose pod recovers goes back to running. A running agent whose
// pod waits for a machine shows that its dashboard is warming up. The record learns when a pod ceases to serve, and how
// often its container was started again. An agent that a worker has not brought to its desired
// state, such as in an outage, is left to that worker.
//
// It keeps the logs of the containers that have ended since the run before.
//
// A run costs one list of pods per cell, at most healthBatch records of agents in error, as many of running agents, and
// one record per pod that is not Ready or became so recently. It writes only changes.
//
// A failed list has no consequences. If an agent is missing in a list, the controller asks for that agent before it
// acts.
type HealthController struct {
	Records agent.WorkerStore
	Pods    PodLister
	Prober  AgentProber
	Nudger  agent.Nudger
	// Logs keeps the logs of containers that have ended; nil keeps none.
	Logs LogKeeper
	// Now is the clock.
	Now func() time.Time
}

const (
	// healthBatch is how many agents of a status one run reads. With more agents, each run reads another part: see
	// listCursor.
	healthBatch = 200
	// maxConcurrentChecks bounds the agents that a run works on concurrently.
	maxConcurrentChecks = 16
	// settling is the minimum age of a record before a pod list may contradict it. Clocks differ by less.
	settling = 5 * time.Second
	// maxMissingPerRun bounds the agents without a pod that one run acts on. More of them probably mean a
	// misconfiguration.
	maxMissingPerRun = 5
)

// podSnapshot holds the pods of all cells at one time.
type podSnapshot struct {
	begun time.Time
	// cells maps each completely listed cell to its pods by agent id.
	cells map[string]map[string]Pod
}

// covers reports whether the snapshot is recent enough to contradict a record: the agent's cell was listed, and the
// agent had converged some time before.
func (s podSnapshot) covers(a *agent.Agent) bool {
	_, listed := s.cells[a.Cell]
	return listed && settledBefore(a, s.begun)
}

// CheckHealth checks all agents once. A failure of one cell or agent does not stop the others.
func (o *HealthController) CheckHealth(ctx context.Context) error {
	s, podsErr := o.listPods(ctx)
	failed, failedErr := o.agentsWithStatus(ctx, agent.Error, s.begun)
	running, runningErr := o.agentsWithStatus(ctx, agent.Running, s.begun)
	known := map[string]bool{}
	for _, a := range failed {
		known[a.ID] = true
	}
	var work []func() error
	for cell, pods := range s.cells {
		for id, p := range pods {
			if f := p.broken(s.begun); f != nil && !known[id] {
				work = append(work, func() error { return o.breakAgent(ctx, s, cell, id, f) })
			}
		}
	}
	for _, a := range failed {
		p, there := s.cells[a.Cell][a.ID]
		if there && s.covers(&a) && a.Recoverable() && p.steady(s.begun) && o.Pods.Current(a, p) {
			work = append(work, func() error { return o.recoverAgent(ctx, a) })
		}
	}
	for _, a := range o.missing(ctx, s, running) {
		work = append(work, func() error { return o.restoreObjects(ctx, s, a) })
	}
	work = append(work, o.sightWork(ctx, s, slices.Concat(failed, running))...)
	err := errors.Join(podsErr, failedErr, runningErr, runConcurrently(work))
	o.keepLogs(ctx, s)
	return err
}

// listPods lists the pods of every cell.
func (o *HealthController) listPods(ctx context.Context) (podSnapshot, error) {
	s := podSnapshot{begun: o.Now(), cells: map[string]map[string]Pod{}}
	var errs []error
	for _, cell := range o.Pods.Cells() {
		list, err := o.Pods.Pods(ctx, cell)
		if err != nil {
			errs = append(errs, fmt.Errorf("list the pods of cell %s: %w", cell, err))
			continue
		}
		s.cells[cell] = make(map[string]Pod, len(list))
		for _, p := range list {
			s.cells[cell][p.AgentID] = p
		}
	}
	return s, errors.Join(errs...)
}

// agentsWithStatus reads at most healthBatch agents of a status, from this minute's cursor on and then from the first.
func (o *HealthController) agentsWithStatus(ctx context.Context, status agent.Status, now time.Time) ([]agent.Agent,
	error,
) {
	begin := listCursor(now)
	listed, err := o.Records.ListByStatus(ctx, status, begin, healthBatch)
	if err != nil || listed.Next != "" || len(listed.Items) == healthBatch {
		return listed.Items, err
	}
	first, err := o.Records.ListByStatus(ctx, status, "", healthBatch-len(listed.Items))
	agents := listed.Items
	for _, a := range first.Items {
		if a.ID > begin {
			break
		}
		agents = append(agents, a)
	}
	return agents, err
}

// listCursor is the id at which the run of a minute begins. Multiples of the golden ratio, modulo 1, spread so evenly
// that each of n agents is read about every n/healthBatch minutes, without state between runs.
func listCursor(now time.Time) string {
	const golden = 0x9E3779B97F4A7C15 // of 2^64
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], uint64(now.Unix()/60)*golden) //nolint:gosec // overflow is intended
	return id.String()
}

// breakAgent records that the pod of a running agent is broken.
func (o *HealthController) breakAgent(ctx context.Context, s podSnapshot, cell, id string, f *PodFailure) error {
	a, err := o.Records.Load(ctx, id)
	if err != nil {
		return ignoreSuperseded(id, err)
	}
	if a.Cell != cell || a.Status != agent.Running || !s.covers(&a) {
		return nil
	}
	p, observed := s.cells[cell][id], f.Observed
	observed.Since = p.Since
	return o.recordFailure(ctx, a, agent.Failure{
		Code: f.Code, Message: f.Message, Retryable: !f.Permanent, Observed: observed,
	}, func(a *agent.Agent) { p.see(a, s.begun) })
}

func (o *HealthController) recordFailure(ctx context.Context, a agent.Agent, f agent.Failure, also func(*agent.Agent),
) error {
	slog.WarnContext(ctx, "running agent broke", logevent.Key, logevent.AgentBroke, "agent_id", a.ID, "cell", a.Cell,
		"code", f.Code)
	_, err := o.Records.Update(ctx, a, func(a *agent.Agent) {
		also(a)
		a.Break(f, o.Now())
	})
	return ignoreSuperseded(a.ID, err)
}

// recoverAgent records that an agent in error runs again, if it answers.
func (o *HealthController) recoverAgent(ctx context.Context, a agent.Agent) error {
	if err := o.Prober.Probe(ctx, a); err != nil {
		slog.InfoContext(ctx, "recovered pod does not answer yet", "agent_id", a.ID, "error", err)
		return nil
	}
	slog.InfoContext(ctx, "agent recovered", "agent_id", a.ID, "cell", a.Cell)
	_, err := o.Records.Update(ctx, a, func(a *agent.Agent) { a.Recover(o.Now()) })
	return ignoreSuperseded(a.ID, err)
}

// missing lists the running agents without a pod in the snapshot, at most maxMissingPerRun.
func (o *HealthController) missing(ctx context.Context, s podSnapshot, running []agent.Agent) []agent.Agent {
	var missing []agent.Agent
	for _, a := range running {
		if _, there := s.cells[a.Cell][a.ID]; !there && s.covers(&a) {
			missing = append(missing, a)
		}
	}
	if len(missing) > maxMissingPerRun {
		slog.ErrorContext(ctx, "many running agents have no pod: check that the control plane reads the right clusters",
			logevent.Key, logevent.MissingPodLimitExceeded, "missing", len(missing), "of", len(running), "attending",
			maxMissingPerRun)
		missing = missing[:maxMissingPerRun]
	}
	return missing
}

// restoreObjects makes a worker recreate the missing pod of a running agent. An agent whose namespace is gone has also
// lost its volume, so it goes to error and its client decides. In a cell without any agent's pod, a missing namespace
// has no consequences: the configuration may name the wrong cluster.
func (o *HealthController) restoreObjects(ctx context.Context, s podSnapshot, a agent.Agent) error {
	there, err := o.Pods.Existence(ctx, a)
	if err != nil {
		return ignoreSuperseded(a.ID, err)
	}
	switch {
	case there.Pod:
		return nil
	case there.Namespace:
		slog.WarnContext(ctx, "running agent has no pod; bringing it up again", "agent_id", a.ID, "cell", a.Cell)
		// Until a worker has restored it, the agent does not serve.
		return repair(ctx, o.Records, o.Nudger, a, func(a *agent.Agent) {
			a.See(agent.PodSight{Since: s.begun})
			a.Repair(o.Now())
		})
	case len(s.cells[a.Cell]) == 0:
		slog.ErrorContext(ctx, "a cell has no pods at all: check that it is the one that agents were placed on", "cell",
			a.Cell, "agent_id", a.ID)
		return nil
	default:
		return o.recordFailure(ctx, a, volumeLost(""), func(*agent.Agent) {})
	}
}

// repair makes a worker apply an agent's desired state again, after a change that calls Repair.
func repair(ctx context.Context, records agent.WorkerStore, nudger agent.Nudger, a agent.Agent,
	change func(*agent.Agent),
) error {
	_, err := records.Update(ctx, a, change)
	if err == nil {
		err = nudger.Nudge(ctx, a.ID)
	}
	return ignoreSuperseded(a.ID, err)
}

// settledBefore reports whether a list that began at the given time may contradict a record: the agent had converged
// some time before.
func settledBefore(a *agent.Agent, begun time.Time) bool {
	return a.Converged() && a.UpdatedAt.Before(begun.Add(-settling))
}

// ignoreSuperseded adds the agent's id to its error. It returns nil if the agent has changed or is gone.
func ignoreSuperseded(id string, err error) error {
	if err == nil || errors.Is(err, agent.ErrSuperseded) || fault.Is(err, fault.NotFound) {
		return nil
	}
	return fmt.Errorf("agent %s: %w", id, err)
}

// runConcurrently does all of the work, maxConcurrentChecks items at a time.
func runConcurrently(work []func() error) error {
	return errors.Join(parallel.ForEach(work, maxConcurrentChecks, func(do func() error) error { return do() })...)
}
