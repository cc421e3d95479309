package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	gcp "cloud.google.com/go/firestore"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/emulators/process"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/plan"
)

const (
	largeFew, largeMany = 500, 5000
	// largeRecords is the number of entries in the audit log: those of a year in which 100,000 agents are created.
	largeRecords = 100_000
	// largeLast is how many agents are created last, among all others.
	largeLast = 50
	// largeRounds is how often each scheduled worker runs.
	largeRounds = 3
	// largeMemory is the target of the memory of the worker at its peak, in KiB.
	largeMemory = 256 << 10
	pushAccount = "push@bench.iam.gserviceaccount.com"
)

// largeTicks are the scheduled workers whose work grows with the fleet.
func largeTicks() []string {
	return []string{"ObserveAgents", "CheckDrift", "SweepAgents", "CollectMetrics", "CollectOrphans"}
}

// large is what a fleet of one size costs.
type large struct {
	// cpu is the time of the worker for an agent, in microseconds, by scheduled worker; creation is in milliseconds.
	cpu      map[string]float64
	creation float64
	// longest is the longest run of a scheduled worker, and memory the worker's at its peak, in KiB.
	longest time.Duration
	memory  float64
}

// measureLarge measures P20: what an agent costs the worker in a large fleet, compared with a small one.
func measureLarge(ctx context.Context, l *environment) (_ Report, err error) {
	k, err := cluster.Start(ctx, cluster.Options{
		Kind: l.cluster, Dir: filepath.Join(l.dir, "kubernetes-large"), Progress: l.progress,
	})
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	few, err := l.fleet(ctx, k, largeFew)
	if err != nil {
		return Report{}, err
	}
	many, err := l.fleet(ctx, k, largeMany)
	if err != nil {
		return Report{}, err
	}
	note := fmt.Sprintf("limit: the same with %d agents", largeFew)
	var rows []Row
	for _, name := range largeTicks() {
		rows = append(rows, Row{
			ID: "P20", What: fmt.Sprintf("%s with %d agents", name, largeMany), Ours: many.cpu[name],
			Limit: few.cpu[name], Unit: "µs of CPU an agent", Most: 1.2, Note: note, Timed: true,
		})
	}
	return Report{Rows: append(rows, Row{
		ID: "P20", What: "provisioning one more", Ours: many.creation, Limit: few.creation, Unit: "ms of CPU",
		Most: 1.2, Note: note, Timed: true,
	}, Row{
		ID: "P20", What: "longest run of a scheduled worker", Ours: many.longest.Seconds(), Limit: 60, Unit: "s",
		Most: 1, Timed: true,
	}, Row{
		ID: "P20", What: "memory of the worker at its peak", Ours: many.memory, Limit: largeMemory, Unit: "KiB",
		Most:  1,
		Timed: true, Note: fmt.Sprintf("%.0f KiB with %d agents", few.memory, largeFew),
	})}, nil
}

// largeFleet is a worker, as it is deployed, and its fleet.
type largeFleet struct {
	*deployment
	copies *copies
	worker *process.Process
	url    string
	token  string
}

// fleet measures a fleet of a number of agents.
func (l *environment) fleet(ctx context.Context, k *cluster.Cluster, agents int) (_ large, err error) {
	d, err := l.deploy(ctx)
	if err != nil {
		return large{}, err
	}
	defer func() { err = closeDeployment(err, d) }()
	if err := d.fillAuditLog(ctx, l.host); err != nil {
		return large{}, err
	}
	all, err := d.pendingAgents(ctx, agents)
	if err != nil {
		return large{}, err
	}
	f := largeFleet{deployment: d}
	if err := f.start(ctx, l, k, all[0].ID); err != nil {
		return large{}, err
	}
	found := large{cpu: map[string]float64{}}
	if err := f.provision(ctx, all[:1]); err != nil { // the model
		return large{}, err
	}
	if err := f.provision(ctx, all[1:agents-largeLast]); err != nil {
		return large{}, err
	}
	used, err := during(f.worker.Pid(), func() error { return f.provision(ctx, all[agents-largeLast:]) })
	if err != nil {
		return large{}, err
	}
	found.creation = milliseconds(used) / largeLast
	if err := errors.Join(f.feed(all), wait(ctx, driftAge)); err != nil {
		return large{}, err
	}
	for _, name := range largeTicks() {
		if err := f.measureTick(ctx, name, agents, &found); err != nil {
			return large{}, err
		}
	}
	if err := f.checkConverged(ctx, agents); err != nil {
		return large{}, err
	}
	found.memory, err = peakKiB(f.worker.Pid())
	return found, err
}

// checkConverged checks that no scheduled worker found that an agent differs from its record.
func (f *largeFleet) checkConverged(ctx context.Context, agents int) error {
	running := 0
	for after := ""; ; {
		page, err := f.deps.WorkerStore.ListByStatus(ctx, agent.Running, after, agentsPerOrganization)
		if err != nil {
			return err
		}
		for _, a := range page.Items {
			if a.Converged() {
				running++
			}
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if running != agents {
		return fmt.Errorf("%d of %d agents run as their records demand", running, agents)
	}
	return nil
}

func (f *largeFleet) measureTick(ctx context.Context, name string, agents int, found *large) error {
	var cpu []float64
	for range largeRounds {
		ago := time.Now().Add(-metrics.Cycle)
		progress := map[string]metrics.Progress{cell: {Until: ago, Next: ago}}
		if err := f.deps.MetricsWorkerStore.SetProgress(ctx, progress); err != nil {
			return err
		}
		began := time.Now()
		used, err := during(f.worker.Pid(), func() error { return f.push(ctx, name, []byte("{}")) })
		if err != nil {
			return err
		}
		found.longest = max(found.longest, time.Since(began))
		cpu = append(cpu, 1000*milliseconds(used)/float64(agents))
	}
	found.cpu[name] = median(cpu)
	return nil
}

// start starts the API server of copies, a router and the worker.
func (f *largeFleet) start(ctx context.Context, l *environment, k *cluster.Cluster, model string) error {
	var config net.ListenConfig
	api, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if f.copies, err = startCopies(api, k.Kubeconfig, filepath.Join(l.dir, "kubeconfig-"+model)); err != nil {
		return err
	}
	f.copies.model = model
	router, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ready := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })}
	go func() { _ = ready.Serve(router) }() // ends with ErrServerClosed
	tokens, err := issuer.Start(ctx, issuer.Options{Address: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	f.closers = append(f.closers, f.copies.server.Close, ready.Close, tokens.Close)
	if f.token, err = tokens.Push("bench", pushAccount); err != nil {
		return err
	}
	dir, err := dataplane.BuildImagePackages(ctx, "agents.example/controlplane/functions/cmd/worker")
	if err != nil {
		return err
	}
	port, err := process.FreePort()
	if err != nil {
		return err
	}
	f.url = "http://127.0.0.1:" + strconv.Itoa(port)
	cells, err := json.Marshal([]map[string]string{{"name": cell, "region": region, "kubeconfig": f.copies.kubeconfig}})
	if err != nil {
		return err
	}
	s := starter{deployment: f.deployment, host: l.host}
	f.worker, err = process.Start(ctx, process.Options{
		Name: "the worker", Path: filepath.Join(dir, "worker"), LogFile: filepath.Join(l.dir, "worker-"+model+".log"),
		Env: append(s.environment(), "PORT="+strconv.Itoa(port), "CELLS="+string(cells), "AGENT_SCHEME=http",
			"AGENT_ROUTER_ADDRESS="+router.Addr().String(), "PUSH_ISSUER="+tokens.URL()),
		Ready: func(ctx context.Context) error { return f.push(ctx, "SweepAgents", []byte("{}")) },
	})
	if err == nil {
		f.closers = append(f.closers, f.worker.Close)
	}
	return err
}

// push delivers a message to the worker, as Pub/Sub does.
func (f *largeFleet) push(ctx context.Context, worker string, data []byte) error {
	message := map[string]any{"messageId": newID(), "publishTime": time.Now(), "data": data}
	body, err := json.Marshal(map[string]any{"message": message, "deliveryAttempt": 1})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+"/workers/"+worker, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+f.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err == nil && res.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s: status %d: %s", worker, res.StatusCode, answer)
	}
	return err
}

// provision delivers the messages of agents until they run.
func (f *largeFleet) provision(ctx context.Context, agents []agent.Agent) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(paceWorkers)
	for _, a := range agents {
		group.Go(func() error {
			nudge, err := json.Marshal(function.AgentNudge{AgentID: a.ID})
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(groupCtx, patience)
			defer cancel()
			for {
				if err := f.push(ctx, "ReconcileAgent", nudge); err != nil {
					return err
				}
				now, err := f.deps.WorkerStore.Load(ctx, a.ID)
				if err != nil || now.Status == agent.Running {
					return err
				}
				if err := wait(ctx, readyPause); err != nil {
					return fmt.Errorf("agent %s is still %s: %w", a.ID, now.Status, err)
				}
			}
		})
	}
	return group.Wait()
}

// readyPause is how long a delivery waits that finds the pod not Ready.
const readyPause = 100 * time.Millisecond

// feed writes a few minutes of metrics of agents.
func (f *largeFleet) feed(agents []agent.Agent) error {
	for _, a := range agents {
		if err := f.monitoring.Feed(f.project, samples(f.project, a, time.Now())...); err != nil {
			return err
		}
	}
	return nil
}

// pendingAgents creates agents that no worker has provisioned yet.
func (d *deployment) pendingAgents(ctx context.Context, n int) ([]agent.Agent, error) {
	all := make([]agent.Agent, n)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(paceWorkers)
	for first := 0; first < n; first += agentsPerOrganization {
		group.Go(func() error {
			ctx, _, err := d.createOrganization(groupCtx)
			if err != nil {
				return err
			}
			for i := first; i < min(n, first+agentsPerOrganization); i++ {
				draft := agent.Draft{Name: fmt.Sprintf("agent %d", i), Plan: plan.Starter, Cloud: "gcp", Region: region}
				all[i], err = d.deps.Agents.Create(ctx, agent.New(newID(), cell, draft, time.Now()))
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all, group.Wait()
}

// fillAuditLog writes the records that stay when agents are deleted.
func (d *deployment) fillAuditLog(ctx context.Context, host string) (err error) {
	ctx, key, err := d.createOrganization(ctx)
	if err != nil {
		return err
	}
	if _, err := d.createAgent(ctx, key); err != nil {
		return err
	}
	client, err := gcp.NewClient(ctx, d.project, option.WithEndpoint(host), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	entries := client.Collection("audit_log")
	found, err := entries.Limit(1).Documents(ctx).GetAll()
	if err != nil || len(found) == 0 {
		return errors.Join(err, fmt.Errorf("the audit log has %d entries of a creation", len(found)))
	}
	writer := client.BulkWriter(ctx)
	for range largeRecords {
		if _, err := writer.Create(entries.Doc(newID()), found[0].Data()); err != nil {
			return err
		}
	}
	writer.End()
	return nil
}
