package bench

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/infra/gke"
	"agents.example/controlplane/infra/gke/cellwatch"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/dataplane/notifier"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/provisioning"
)

const (
	paceBatch   = 20 // agents of one batch
	paceWorkers = 8  // agents that are provisioned concurrently
	paceStarts  = 25 // measured starts of single agents
	// patience bounds what takes seconds on an idle machine. It only ends a run that hangs.
	patience = 15 * time.Minute
)

// pace measures time in a cluster whose pods are simulated: they cost nothing, and take the same time to start for
// both sides.
type pace struct {
	*deployment
	cluster  *cluster.Cluster
	gke      *gke.Clusters
	counted  *writeCounter
	raw      *rawClient
	template template
	// running receives the ID of an agent when its record says that it runs.
	running chan string
}

// measurePace measures P7 and P8: how fast the worker provisions, and how soon an agent runs, compared with client-go
// that applies the same objects to the same API server. Both sides take turns, so that the load of the machine affects
// them alike.
func measurePace(ctx context.Context, l *environment, d *deployment) (Report, error) {
	p, err := newPace(ctx, l, d)
	if err != nil {
		return Report{}, err
	}
	throughput, err := p.measureThroughput(ctx, l.provisions)
	if err != nil {
		return Report{}, err
	}
	if err := p.startNotifier(ctx); err != nil {
		return Report{}, err
	}
	start, err := p.measureStart(ctx, min(paceStarts, l.provisions))
	if err != nil {
		return Report{}, err
	}
	return Report{Rows: []Row{throughput, start}}, nil
}

func newPace(ctx context.Context, l *environment, d *deployment) (*pace, error) {
	k, err := cluster.Start(ctx, cluster.Options{
		Kind: l.cluster, Dir: filepath.Join(l.dir, "kubernetes-pace"), Progress: l.progress,
	})
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, k.Close)
	counted, err := newWriteCounter(ctx, k.Kubeconfig, filepath.Join(l.dir, "kubeconfig-pace"))
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, counted.server.Close)
	p := &pace{deployment: d, cluster: k, counted: counted, running: make(chan string, 1000)}
	d.deps.Prober = answers{} // simulated pods listen on no port
	if p.raw, err = newRawClient(k.Kubeconfig); err != nil {
		return nil, err
	}
	// The objects of one agent are recorded. From then on the worker calls the cluster directly, as client-go does.
	if err := p.connectCluster(ctx, counted.kubeconfig); err != nil {
		return nil, err
	}
	ids, err := p.createPending(ctx, 1)
	if err != nil {
		return nil, err
	}
	if err := p.reconcile(ctx, ids[0]); err != nil {
		return nil, err
	}
	p.template = template{agentID: ids[0], writes: counted.applied}
	return p, p.connectCluster(ctx, k.Kubeconfig)
}

func (p *pace) connectCluster(ctx context.Context, kubeconfig string) error {
	clusters, err := gke.Open(ctx, gke.Settings{
		Cells:     []gke.Cell{{Name: cell, Kubeconfig: kubeconfig}},
		Images:    image.BuiltIn{Platform: "registry.example.com/platform@sha256:" + strings.Repeat("0", 64)},
		Addresses: p.deps.Addresses, RouterNamespace: "agent-gateway", Database: "bench",
	})
	if err != nil {
		return err
	}
	p.closers = append(p.closers, clusters.Close)
	p.gke, p.deps.Cluster, p.deps.Objects = clusters, clusters, clusters
	return nil
}

// startNotifier delivers a nudge when a pod changes.
func (p *pace) startNotifier(ctx context.Context) error {
	config, err := cellwatch.Connect(p.cluster.Kubeconfig)
	if err != nil {
		return err
	}
	n := notifier.New(p)
	pods, err := cellwatch.NewPods(config, n)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var both sync.WaitGroup
	both.Go(func() { pods.Run(ctx) })
	both.Go(func() { n.Run(ctx) })
	p.closers = append(p.closers, func() error {
		stop()
		both.Wait()
		return nil
	})
	return nil
}

// Nudge implements agent.Nudger. It delivers the message to the worker and returns when that has handled it.
func (p *pace) Nudge(ctx context.Context, agentID string) error { return p.reconcile(ctx, agentID) }

// Wake implements agent.WakeNudger. No agent sleeps here.
func (p *pace) Wake(ctx context.Context, agentID string) error { return p.reconcile(ctx, agentID) }

// reconcile delivers a nudge to the worker.
func (p *pace) reconcile(ctx context.Context, agentID string) error {
	nudge, err := json.Marshal(function.AgentNudge{AgentID: agentID})
	if err != nil {
		return err
	}
	if _, err := p.countDelivery(ctx, "ReconcileAgent", nudge); err != nil {
		return err
	}
	a, err := p.deps.WorkerStore.Load(ctx, agentID)
	if fault.Is(err, fault.NotFound) { // an agent of client-go
		return nil
	}
	if err == nil && a.Status == agent.Running {
		select {
		case p.running <- agentID:
		default: // nothing waits for an agent
		}
	}
	return err
}

// createPending creates agents of a new organization through the API. They have no objects yet.
func (p *pace) createPending(ctx context.Context, n int) ([]string, error) {
	_, key, err := p.createOrganization(ctx)
	if err != nil {
		return nil, err
	}
	p.key = key
	ids := make([]string, n)
	for i := range ids {
		if ids[i], err = p.createAgent(ctx, key); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// answers is an agent that answers every probe.
type answers struct{}

// Probe implements provisioning.AgentProber.
func (answers) Probe(context.Context, agent.Agent) error { return nil }

// Dashboard implements agents.DashboardProber.
func (answers) Dashboard(context.Context, agent.Agent) (int, error) { return http.StatusOK, nil }

// Accepts implements provisioning.AgentProber.
func (answers) Accepts(context.Context, agent.Agent, credential.Credentials) (provisioning.Verdict, error) {
	return provisioning.Accepted, nil
}

// Calls implements provisioning.CallingFront.
func (answers) Calls(context.Context, agent.Agent, credential.Credentials, []string) (agent.FrontReport, error) {
	return agent.FrontReport{Front: "front"}, nil
}

// Order implements provisioning.CallingFront.
func (answers) Order(context.Context, agent.Agent, credential.Credentials, agent.Order) error {
	return nil
}

// Door implements provisioning.AgentProber.
func (answers) Door(context.Context, agent.Agent) (provisioning.Door, error) {
	return provisioning.Door{Gone: true}, nil
}
