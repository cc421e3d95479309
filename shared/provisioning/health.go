package provisioning

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/logevent"
)

// HealthController keeps the records of agents true to what becomes of their pods while nobody works on them: a running
// agent whose pod breaks goes to error, and one in error whose pod mends goes back to running.
//
// A run costs one list of pods for each cell, and reads at most observeBatch records of agents in error and as many of
// running ones, however many there are, and one for each pod that is broken. What it writes is what changed.
//
// Nothing follows from a list that failed. What follows from an agent's not being in a list is decided by asking for
// that agent.
type HealthController struct {
	Records agent.WorkerStore
	Pods    PodLister
	Prober  AgentProber
	Nudger  agent.Nudger
	// Now is the clock.
	Now func() time.Time
}

const (
	// observeBatch is how many agents of a status one run reads. A fleet that is larger is gone through in turns, see
	// turn.
	observeBatch = 200
	// observers is how many agents are attended to at the same time.
	observers = 16
	// settling is how long ago a record must have been written for a list to be about what it says. Clocks differ by
	// less.
	settling = 5 * time.Second
	// maxMissingPerRun bounds how many agents without a pod one run acts on: that many at once are rather a mistake in
	// the settings.
	maxMissingPerRun = 5
)

// podSnapshot is one look at all cells.
type podSnapshot struct {
	begun time.Time
	// cells has the pods of each cell that was seen whole, by agent.
	cells map[string]map[string]Pod
}

// covers reports whether the sighting is of the state that a record tells of: it has been brought about, and a while
// before.
func (s podSnapshot) covers(a agent.Agent) bool {
	_, seen := s.cells[a.Cell]
	return seen && a.Converged() && a.UpdatedAt.Before(s.begun.Add(-settling))
}

// CheckHealth looks at all agents once. The trouble of one cell, or of one agent, does not keep it from the others.
func (o *HealthController) CheckHealth(ctx context.Context) error {
	s, unseen := o.listPods(ctx)
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
		if there && s.covers(a) && a.Recoverable() && p.steady(s.begun) && o.Pods.Current(a, p) {
			work = append(work, func() error { return o.recoverAgent(ctx, a) })
		}
	}
	for _, a := range o.missing(ctx, s, running) {
		work = append(work, func() error { return o.restoreObjects(ctx, s, a) })
	}
	return errors.Join(unseen, failedErr, runningErr, runConcurrently(work))
}

// listPods lists the pods of every cell.
func (o *HealthController) listPods(ctx context.Context) (podSnapshot, error) {
	s := podSnapshot{begun: o.Now(), cells: map[string]map[string]Pod{}}
	var errs []error
	for _, cell := range o.Pods.Cells() {
		list, err := o.Pods.Pods(ctx, cell)
		if err != nil {
			errs = append(errs, fmt.Errorf("look at cell %s: %w", cell, err))
			continue
		}
		s.cells[cell] = make(map[string]Pod, len(list))
		for _, p := range list {
			s.cells[cell][p.AgentID] = p
		}
	}
	return s, errors.Join(errs...)
}

// agentsWithStatus reads the agents of a status whose turn it is, which are all unless there are more than
// observeBatch.
func (o *HealthController) agentsWithStatus(ctx context.Context, status agent.Status, now time.Time) ([]agent.Agent,
	error,
) {
	begin := listCursor(now)
	agents, err := o.Records.ListByStatus(ctx, status, begin, observeBatch)
	if err != nil || len(agents) == observeBatch {
		return agents, err
	}
	rest, err := o.Records.ListByStatus(ctx, status, "", observeBatch-len(agents))
	for _, a := range rest {
		if a.ID > begin {
			break
		}
		agents = append(agents, a)
	}
	return agents, err
}

// listCursor is the id at which the run of a minute begins. Multiples of the golden ratio, modulo 1, are spread so
// evenly that no agent of n is passed over for much longer than n/observeBatch minutes, and nothing has to be
// remembered from one run to the next.
func listCursor(now time.Time) string {
	const golden = 0x9E3779B97F4A7C15 // of 2^64
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], uint64(now.Unix()/60)*golden) //nolint:gosec // it is to overflow
	return id.String()
}

// breakAgent records that the pod of a running agent is broken.
func (o *HealthController) breakAgent(ctx context.Context, s podSnapshot, cell, id string, f *PodFailure) error {
	a, err := o.Records.Load(ctx, id)
	if err != nil {
		return ignoreSuperseded(id, err)
	}
	if a.Cell != cell || a.Status != agent.Running || !s.covers(a) {
		return nil
	}
	return o.recordFailure(ctx, a, agent.Failure{Code: f.Code, Message: f.Message, Retryable: !f.Permanent})
}

func (o *HealthController) recordFailure(ctx context.Context, a agent.Agent, f agent.Failure) error {
	slog.WarnContext(ctx, "a running agent broke", logevent.Key, logevent.AgentBroke, "agent_id", a.ID, "cell", a.Cell,
		"code", f.Code)
	_, err := o.Records.Update(ctx, a, func(a *agent.Agent) { a.Break(f, o.Now()) })
	return ignoreSuperseded(a.ID, err)
}

// recoverAgent records that an agent in error runs again, if it answers.
func (o *HealthController) recoverAgent(ctx context.Context, a agent.Agent) error {
	if err := o.Prober.Probe(ctx, a); err != nil {
		slog.InfoContext(ctx, "an agent's pod is ready again, but doesn't answer", "agent_id", a.ID, "error", err)
		return nil
	}
	slog.InfoContext(ctx, "an agent recovered", "agent_id", a.ID, "cell", a.Cell)
	_, err := o.Records.Update(ctx, a, func(a *agent.Agent) { a.Recover(o.Now()) })
	return ignoreSuperseded(a.ID, err)
}

// missing lists the running agents that the sighting has no pod of, as far as one run may act on them.
func (o *HealthController) missing(ctx context.Context, s podSnapshot, running []agent.Agent) []agent.Agent {
	var missing []agent.Agent
	for _, a := range running {
		if _, there := s.cells[a.Cell][a.ID]; !there && s.covers(a) {
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

// restoreObjects has the pod of a running agent made again that somebody took away. An agent whose namespace is gone
// has lost its volume, too: that is for a person to know and to decide on. A cell without any pod of ours may be
// another than that of the agents, so that no namespace is missed there.
func (o *HealthController) restoreObjects(ctx context.Context, s podSnapshot, a agent.Agent) error {
	there, err := o.Pods.Existence(ctx, a)
	if err != nil {
		return ignoreSuperseded(a.ID, err)
	}
	switch {
	case there.Pod:
		return nil
	case there.Namespace:
		slog.WarnContext(ctx, "a running agent has no pod and is brought up again", "agent_id", a.ID, "cell", a.Cell)
		if _, err = o.Records.Update(ctx, a, func(a *agent.Agent) { a.Repair(o.Now()) }); err == nil {
			err = o.Nudger.Nudge(ctx, a.ID)
		}
		return ignoreSuperseded(a.ID, err)
	case len(s.cells[a.Cell]) == 0:
		slog.ErrorContext(ctx, "a cell has no pods at all: check that it is the one that agents were placed on", "cell",
			a.Cell, "agent_id", a.ID)
		return nil
	default:
		return o.recordFailure(ctx, a, agent.Failure{
			Code: CodeNamespaceMissing, Retryable: true,
			Message: "The agent's namespace was deleted from its cluster by somebody else, and its volume with it. " +
				"Start the agent to have it provisioned anew, with an empty volume.",
		})
	}
}

// ignoreSuperseded is the error of one agent, unless the agent's state has passed on meanwhile.
func ignoreSuperseded(id string, err error) error {
	if err == nil || errors.Is(err, agent.ErrSuperseded) || fault.Is(err, fault.NotFound) {
		return nil
	}
	return fmt.Errorf("agent %s: %w", id, err)
}

// runConcurrently does all of the work, some at a time.
func runConcurrently(work []func() error) error {
	errs := make([]error, len(work))
	var all sync.WaitGroup
	free := make(chan struct{}, observers)
	for i, do := range work {
		free <- struct{}{}
		all.Go(func() {
			errs[i] = do()
			<-free
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
