package simulationtest

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/release"
	"agents.example/controlplane/shared/secretwrite"
	"agents.example/controlplane/shared/webhook"
)

// World is the outside of one schedule, and the control plane's processes in it.
type World struct {
	*Scheduler
	Database *Database
	Secrets  *SecretStore
	Cluster  *Cluster
	// Other is the cell to which agents are moved; nil in a world with one cell.
	Other *Cluster
	Queue *Queue
	// Plant is the planted defect.
	Plant Plant
	setup Setup

	clients []*client
	calls   []*call
	started map[string]int
	workers int
	// created counts the agents.
	created int
	// prefix begins the names of calls.
	prefix string
	// delivered counts the deliveries of the hour by agent.
	hour      int
	delivered map[string]int
	skews     []time.Duration
	// unnotified: no notifier runs.
	unnotified bool
	// looks counts the looks at an agent that waits, while only the sweep causes them.
	looks map[string]int
	// mayFail holds the agents whose pods were disturbed, so that the status error is legitimate.
	mayFail map[string]bool
	// deletedByHand holds the agents whose namespace a person deleted.
	deletedByHand map[string]bool
	// unkept holds the former volumes whose snapshot a client deletes, or is deleted after its time.
	unkept map[formerVolume]bool
	// lostVolume holds the volumes that a person deleted, until a client starts the agent again.
	lostVolume map[string]int
	// volumes holds the volumes of agents as they were seen last.
	volumes    map[string]seenVolume
	quietSince time.Duration
	quiet      bool
	swept      time.Duration

	// webhookQueue has the nudges of webhooks, notifiers are those of the instances of the services, receiver is the
	// customers' server, and webhookWorkers and webhooksMade count.
	webhookQueue                 *Queue
	notifiers                    []*webhook.Notifier
	receiver                     Receiver
	webhookWorkers, webhooksMade int
	// narrowed: a webhook did not want all types at some time.
	narrowed bool
	// calmCalls: clients have made their calls about webhooks in the calm.
	calmCalls bool
	// ordered is how many first receipts of each webhook were checked.
	ordered map[string]int
	// promptFrom is the place in the log from which events must be delivered soon, by webhook.
	promptFrom map[string]int

	// clocksJumped: records may have times that are minutes ahead.
	clocksJumped bool
	// subscriptions are the organization's, as the payment provider has them, oldest first; none without billing.
	subscriptions []*billing.Subscription
	events        []*paymentEvent
	// sent counts the events, and enforced the enforcements at the end.
	sent, enforced int

	// rolled is what the oracle knows of releases.
	rolled rolled

	// called is what the oracle knows of the calls of schedules.
	called   scheduled
	visitors visitors

	violation string
	checked   [3]int64
	actions   []Action
}

// Plant undoes a guard. Nil functions and zero rules leave the world as it is.
type Plant struct {
	// Records wraps the store of workers. process is the kind of process, such as "worker" or "sweep".
	Records func(w *World, process string, inner agent.WorkerStore) agent.WorkerStore
	// Agents wraps the store of routes.
	Agents func(w *World, inner agent.Store) agent.Store
	// Sleepers wraps the stores that put agents to sleep (front) and wake them (wake).
	Sleepers func(kind string, inner agent.Store) agent.Store
	// Accounts wraps the store of accounts.
	Accounts func(w *World, inner billing.Store) billing.Store
	// Report replaces the nudges of webhooks after a commit of a process.
	Report func(w *World, process string, nudge func())
	// Payments wraps the payment provider.
	Payments func(inner billing.Payments) billing.Payments
	// Answer changes what a delivery answers the queue.
	Answer func(w *World, id string, err error) error
	// Focus changes the setup so that the guard matters more often.
	Focus func(s *Scheduler, u *Setup)
	// Ignores names promises that the defect breaks on purpose.
	Ignores map[string]bool
	// Collect replaces the collector of orphans.
	Collect func(ctx context.Context, w *World, p *Process) error
	// NoDriftCheck leaves out the check of all agents' objects.
	NoDriftCheck bool
	// Roll changes the worker of releases.
	Roll     func(r *release.Roller)
	Cluster  ClusterRules
	Fronts   FrontRules
	Secrets  SecretRules
	Database DatabaseRules
	Sleep    SleepRules
	// Prober wraps a worker's way to agents.
	Prober func(inner provisioning.AgentProber) provisioning.AgentProber
}

// The organization and its caller.
const organizationID = "9b2ee9a5-7b60-4a51-93a4-1d6a3d4f2c11"

// newWorld returns a world without agents.
func newWorld(s *Scheduler) *World {
	w := &World{
		Scheduler: s, Database: NewDatabase(), Queue: &Queue{}, started: map[string]int{}, mayFail: map[string]bool{},
		deletedByHand: map[string]bool{}, unkept: map[formerVolume]bool{}, delivered: map[string]int{}, prefix: "call",
		looks: map[string]int{}, webhookQueue: &Queue{}, receiver: newReceiver(),
		promptFrom: map[string]int{}, ordered: map[string]int{}, volumes: map[string]seenVolume{},
	}
	w.Secrets, w.Cluster = NewSecretStore(s.Now), NewCluster(s.Now, s.Elapsed)
	w.Database.SetPlan(organizationID, plan.Pro)
	w.Database.Catalog = catalog()
	return w
}

// agentID is the id of the agent with a number.
func agentID(n int) string {
	return "3fa85f64-5717-4562-b3fc-" + strconv.FormatInt(0x2c963f66a000+int64(n), 16)
}

// start starts a process. A panic is a violation.
func (w *World) start(kind string, run func(ctx context.Context, p *Process) error) {
	w.started[kind]++
	name := kind + " " + strconv.Itoa(w.started[kind])
	if len(w.skews) > 0 {
		w.skew = w.skews[w.started[kind]%len(w.skews)]
	}
	w.Go(name, func(ctx context.Context, p *Process) {
		defer func() {
			if v := recover(); v != nil {
				w.violate("panic", "panic of %s: %v\n%s", name, v, debug.Stack())
			}
		}()
		if err := run(ctx, p); w.Keep {
			w.mu.Lock()
			w.Note(name, "ends: %v", err)
			w.mu.Unlock()
		}
	})
}

// violate records that a promise did not hold.
func (w *World) violate(promise, format string, args ...any) {
	if w.Plant.Ignores[promise] {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.violation == "" {
		w.violation = promise + ": " + fmt.Sprintf(format, args...)
		if w.Keep {
			w.Note("oracle", "%s", w.violation)
		}
	}
}

// records is a worker's store.
func (w *World) records(kind string, p *Process) agent.WorkerStore {
	var s agent.WorkerStore = WorkerStore{Database: w.Database, Process: p, Report: w.report(kind, p)}
	if w.Plant.Records != nil {
		s = w.Plant.Records(w, kind, s)
	}
	return s
}

// agents is the store of a kind of process that is not a worker, or that wakes agents.
func (w *World) agents(kind string, p *Process) agent.Store {
	found := Agents{Database: w.Database, Process: p, Report: w.report(kind, p)}
	if kind != "wake" {
		found.Nudger = w.publisher(p)
	}
	if w.Plant.Agents != nil && kind == "api" {
		return w.Plant.Agents(w, found)
	}
	if w.Plant.Sleepers != nil && kind != "api" {
		return w.Plant.Sleepers(kind, found)
	}
	return found
}

func (w *World) publisher(p Stepper) Publisher {
	return Publisher{Queue: w.Queue, Process: p, Scheduler: w.Scheduler}
}

func (w *World) clusterClient(p *Process) ClusterClient {
	return ClusterClient{Cluster: w.Cluster, Other: w.Other, Process: p, Name: p.Name}
}

func (w *World) prober(p *Process) Prober {
	return Prober{Cluster: w.Cluster, Other: w.Other, Process: p, Failed: func(id string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.mayFail[id] = true
	}}
}

func (w *World) secretClient(p Stepper) SecretClient {
	return SecretClient{Store: w.Secrets, Process: p}
}

// reconciler is the worker of a process.
func (w *World) reconciler(p *Process) *provisioning.Reconciler {
	return &provisioning.Reconciler{
		Records: w.records("worker", p), Cluster: w.clusterClient(p), Volumes: w.clusterClient(p),
		Secrets: w.secretClient(p), Readers: w.clusterClient(p),
		Front:  Front{w.prober(p)},
		Prober: w.workerProber(p), Agents: w.agents("wake", p), Now: p.Now,
	}
}

func (w *World) workerProber(p *Process) provisioning.AgentProber {
	if w.Plant.Prober != nil {
		return w.Plant.Prober(w.prober(p))
	}
	return w.prober(p)
}

func (w *World) sweeper(kind string, p *Process) *provisioning.Sweeper {
	nudger := w.publisher(p)
	nudger.Swept = kind == "sweep"
	return &provisioning.Sweeper{Records: w.records(kind, p), Nudger: nudger, Now: p.Now}
}

// writer is the secret service of a route.
func (w *World) writer(p *Process) secretwrite.Service {
	return secretwrite.Service{Agents: w.agents("api", p), Secrets: w.secretClient(p), Now: p.Now}
}

// deliver starts a worker with a message.
func (w *World) deliver(m *message) {
	m.delivered, m.since = true, w.Elapsed()
	if !m.observed {
		w.checkLoad(m.agentID)
	}
	m.attempts++
	w.Queue.Delivered++
	w.workers++
	attempt := m.attempts
	w.start("worker", func(ctx context.Context, p *Process) error {
		ctx, cancel := context.WithTimeout(ctx, pushTime)
		defer cancel()
		d := w.beginPush(p, m)
		reconcile := w.reconciler(p).Reconcile
		if m.wake && !w.Plant.Sleep.DropWakes {
			reconcile = func(ctx context.Context, id string) error {
				return w.reconciler(p).Wake(ctx, id, agent.WokenByRequest, m.asked)
			}
		}
		err := reconcile(ctx, m.agentID)
		if w.Plant.Answer != nil {
			err = w.Plant.Answer(w, m.agentID, err)
		}
		d.end(err)
		if p.crashed {
			err = &Error{Verdict: CrashesAfter, Step: "delivery"}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.workers--
		if m.attempts == attempt || err == nil {
			w.Queue.end(m, err, w.Elapsed())
		}
		return err
	})
}

// bury starts the worker of a dead letter.
func (w *World) bury(m *message) {
	w.Queue.dead = slices.DeleteFunc(w.Queue.dead, func(other *message) bool { return other == m })
	w.start("dead letter", func(ctx context.Context, p *Process) error {
		err := w.sweeper("dead letter", p).DeadLetter(ctx, m.agentID)
		if err != nil || p.crashed {
			w.mu.Lock()
			m.notBefore = w.Elapsed() + minBackOff
			w.Queue.dead = append(w.Queue.dead, m)
			w.mu.Unlock()
		}
		return err
	})
}

// sweep starts the sweep.
func (w *World) sweep() {
	w.swept = w.Elapsed()
	w.start("sweep", func(ctx context.Context, p *Process) error { return w.sweeper("sweep", p).Sweep(ctx) })
	if w.setup.webhooks() {
		w.sweepWebhooks()
	}
	if w.setup.Release != nil {
		w.roll()
		w.checkHealth()
	}
}

// checkHealth starts the health controller.
func (w *World) checkHealth() {
	w.start("health", func(ctx context.Context, p *Process) error {
		return (&provisioning.HealthController{
			Records: w.records("health", p), Pods: PodClient(w.clusterClient(p)),
			Prober: w.prober(p), Nudger: w.publisher(p), Now: p.Now,
		}).CheckHealth(ctx)
	})
}

// caller is the client's identity.
func caller() identity.Caller {
	return identity.Caller{
		Type: identity.Session, ID: "user", OrganizationID: organizationID, Role: identity.RoleAdmin,
	}
}

// stamp is the process's time in the precision of the database.
func (w *World) stamp(p *Process) time.Time { return p.Now().UTC().Truncate(time.Microsecond) }
