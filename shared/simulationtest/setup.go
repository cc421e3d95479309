package simulationtest

import (
	"fmt"
	"sync"
	"time"

	"agents.example/controlplane/shared/agent"
)

// Setup is what a schedule begins with, and what may happen in it.
type Setup struct {
	// Start is the status of the agent at the beginning; "" for no agent.
	Start agent.Status
	// Scripts are the calls of the clients.
	Scripts [][]string
	// Workers is how many deliveries run concurrently.
	Workers int
	// Faults, Stalls, Duplicates, Restarts, Lags and Ticks are how often each may happen.
	Faults, Stalls, Duplicates, Restarts, Lags, Ticks int
	// FaultRate is the share of steps that fail; 0 for the usual one. FaultService is the only service that fails.
	FaultRate    float64
	FaultService *Service
	// Verdicts are the faults to choose from; nil for all.
	Verdicts []Verdict
	// Outage is the service that fails for OutageTime.
	Outage     Service
	OutageTime time.Duration
	// Trouble is what is wrong with pods after the beginning, for TroubleTime.
	Trouble     trouble
	TroubleTime time.Duration
	// Stuck is how long a namespace is being deleted.
	Stuck time.Duration
	// CutTime is how long the storage takes to cut a snapshot.
	CutTime time.Duration
	// DeletedByHand makes a person delete the agent's namespace.
	DeletedByHand bool
	// LostVolume makes a person delete the agent's volume.
	LostVolume bool
	// DeletedObjects is how many objects of the agent a person deletes or changes.
	DeletedObjects int
	// Payments is what happens to the organization's payments. LostEvents is how many of the events about it are lost.
	Payments   []payment
	LostEvents int
	// Unpaid lets the organization's grace period end when the schedule begins.
	Unpaid bool
	// BillingTicks is how often accounts may be enforced early.
	BillingTicks int
	// Webhooks is how many webhooks the organization has at the beginning.
	Webhooks int
	// ReceiverDown is how long their receiver refuses messages, once, with ReceiverStatus.
	ReceiverDown   time.Duration
	ReceiverStatus int
	// ClockJumps is how often the clock of a process jumps.
	ClockJumps int
	// WrongDatabase makes the collector of orphans read a database without records.
	WrongDatabase bool
	// DeadLetters is how many messages the queue gives up early.
	DeadLetters int
	// Skew is how far the clocks of processes differ.
	Skew time.Duration
	// Twice makes two messages of each until the faults end.
	Twice bool
	// Visitors is how many requests are sent to the agent, which sleeps when it is idle, and Idles is how often its
	// front finds it idle.
	Visitors, Idles int
	// Release is a release to a fleet of agents; nil for none.
	Release *rollout
	// Moves gives the world a second cell, to which the agent can be moved.
	Moves bool
	// Elsewhere limits the trouble to the second cell.
	Elsewhere bool
	// Schedules gives the agent schedules, and Asleep makes it sleep at the beginning.
	Schedules, Asleep bool
	// Steps bounds the part of the schedule with faults.
	Steps int
}

// maxSkew is how far clocks differ while values may be added late: the time for storing a value includes a margin.
const maxSkew = 900 * time.Millisecond

// starts are the statuses at the beginning.
func starts() []agent.Status {
	return []agent.Status{"", agent.Running, agent.Running, agent.Running, agent.Stopped, agent.Paused}
}

// actions are the calls of clients of an agent.
func clientActions() []string {
	return []string{
		"put", "put", "put two", "remove", "replace", "rotate", "patch", "resize", "resize", "shrink", "migrate",
		"restart", "stop", "start", "pause", "resume", "delete", "reconcile", "reconcile",
	}
}

// RandomSetup chooses a setup.
func RandomSetup(s *Scheduler) Setup {
	pick := func(most int) int { return s.Choose(most + 1) }
	u := Setup{
		Start: starts()[s.Choose(len(starts()))], Workers: 1 + pick(2), Steps: 40 + s.Choose(120),
		Faults: pick(3), Stalls: pick(2), Duplicates: pick(2), Restarts: pick(1), Lags: pick(2), Ticks: pick(3),
		Skew: []time.Duration{0, maxSkew}[s.Choose(2)],
	}
	for range 1 + pick(1) {
		var script []string
		for range 1 + pick(2) {
			script = append(script, clientActions()[s.Choose(len(clientActions()))])
		}
		u.Scripts = append(u.Scripts, script)
	}
	if u.Start == "" {
		u.Scripts[0] = append([]string{[]string{"create", "create with secrets"}[s.Choose(2)]}, u.Scripts[0]...)
	}
	switch s.Choose(13) {
	case 0:
		u.Outage = Service(s.Choose(4)) //nolint:gosec // below the number of services
		u.OutageTime = []time.Duration{2 * time.Minute, 12 * time.Minute, time.Hour, 3 * time.Hour}[s.Choose(4)]
	case 1:
		u.Trouble = []trouble{neverReady, crashLoop}[s.Choose(2)]
		u.TroubleTime = []time.Duration{time.Minute, 12 * time.Minute, 30 * time.Hour}[s.Choose(3)]
	case 2:
		u.Stuck = []time.Duration{time.Minute, 30 * time.Minute, 6 * time.Hour}[s.Choose(3)]
		u.Scripts[0] = append(u.Scripts[0], "delete")
	case 3:
		u.DeletedByHand = u.Start == agent.Running && s.Choose(2) == 0
		u.LostVolume = u.Start == agent.Running && !u.DeletedByHand
	case 4:
		u.DeadLetters = 1
	case 7:
		u.WrongDatabase = s.Choose(4) == 0
	case 8:
		u.DeletedObjects, u.Stalls = 1+s.Choose(2), 0
	case 9:
		arrangePayments(s, &u)
	case 10:
		u = jumpingClocks(s, u)
	case 12:
		arrangeWebhooks(s, &u)
	case 11:
		u.Visitors, u.Idles = 1+s.Choose(3), 1+s.Choose(2)
	case 5:
		u.Verdicts, u.Faults = []Verdict{Lost, Late}, 3
	case 6:
		u.Skew = 20 * time.Second // more than the margin of the time for storing, so no values are added
		u.Scripts = [][]string{{"patch", "stop", "start"}, {"restart", "migrate"}}
		if u.Start == "" {
			u.Scripts[0] = append([]string{"create"}, u.Scripts[0]...)
		}
	}
	return u
}

// snapshots holds worlds with an agent that is at rest, by its status.
type snapshots struct {
	mu     sync.Mutex
	worlds map[agent.Status]*World
}

// prepare returns a world with an agent in a status, at rest.
func (c *snapshots) prepare(s *Scheduler, u Setup, plant Plant) (*World, error) {
	w := newWorld(s)
	w.setup, w.Plant = u, plant
	w.Jump(time.Hour) // the snapshot is older than the schedules that begin with it
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.worlds == nil {
		c.worlds = map[agent.Status]*World{}
	}
	key, make := u.Start, func(w *World) error { return w.makeAgent(u.Start) }
	if u.Release != nil {
		key, make = "fleet", (*World).makeFleet
	}
	found := c.worlds[key]
	if found == nil {
		found = newWorld(NewScheduler(1))
		if err := make(found); err != nil {
			return nil, err
		}
		c.worlds[key] = found
	}
	w.Database, w.Secrets = found.Database.Clone(), found.Secrets.Clone(s.Now)
	w.Cluster, w.created = found.Cluster.Clone(s.Now, s.Elapsed), found.created
	return w, nil
}

// makeAgent creates two agents without faults: a neighbor, which runs, and one with a secret in a status.
func (w *World) makeAgent(status agent.Status) error {
	scripts := map[agent.Status][]string{
		agent.Running: {"create with secrets"}, agent.Stopped: {"create with secrets", "stop"},
		agent.Paused: {"create with secrets", "pause"},
	}
	w.setup.Workers, w.prefix = 1, "setup"
	for i, script := range [][]string{{"create"}, scripts[status]} {
		for _, action := range script {
			w.clients = []*client{{name: "client", script: []string{action}, agentID: agentID(i)}}
			w.settle()
		}
	}
	w.Stop()
	if a, _ := w.Database.Agent(agentID(1)); a.Status != status || w.violation != "" {
		return fmt.Errorf("the agent is %s, want %s; violation: %s", a.Status, status, w.violation)
	}
	return nil
}
