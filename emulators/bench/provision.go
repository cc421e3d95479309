package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/infra/agentprobe"
	"agents.example/controlplane/infra/gke"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/image"
)

// measureProvisioning counts P6: first provisioning writes each object once; a repeated message writes none.
func measureProvisioning(ctx context.Context, l *environment, d *deployment) (Report, error) {
	writes, err := d.attachCluster(ctx, l)
	if err != nil {
		return Report{}, err
	}
	_, key, err := d.createOrganization(ctx)
	if err != nil {
		return Report{}, err
	}
	wrote, err := d.provisionTwice(ctx, key, writes)
	if err != nil {
		return Report{}, err
	}
	objects := float64(len(wrote.first))
	return Report{Rows: []Row{
		{
			ID: "P6", What: "first provisioning of an agent", Ours: sum(wrote.first), Limit: objects,
			Unit: "Kubernetes writes", Most: (objects + 1) / objects,
			Note: "least possible: one for each object",
		},
		{
			ID: "P6", What: "the same message, repeated", Ours: sum(wrote.repeated), Limit: 0,
			Unit: "Kubernetes writes", Most: 1,
		},
		{
			ID: "P19", What: "longest push of a provisioning", Ours: wrote.longest.Seconds(), Limit: 10, Unit: "s",
			Most: 1, Timed: true,
		},
	}}, nil
}

// twice is what provisioning an agent wrote, and what the same message wrote when it was repeated.
type twice struct {
	first, repeated map[string]int
	// longest is how long the longest push was held.
	longest time.Duration
}

// provisionTwice provisions an agent and delivers the message once more. An agent whose deliveries failed, as on a busy
// machine, may have been written more often, and is replaced by another one.
func (d *deployment) provisionTwice(ctx context.Context, key string, writes *writeCounter) (wrote twice, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		id, err := d.createAgent(ctx, key)
		if err != nil {
			return wrote, err
		}
		nudge, err := json.Marshal(function.AgentNudge{AgentID: id})
		if err != nil {
			return wrote, err
		}
		var failed error
		for _, into := range []*map[string]int{&wrote.first, &wrote.repeated} {
			writes.drain()
			held, failure, err := d.deliverUntilRunning(ctx, id, nudge)
			if err != nil {
				return wrote, errors.Join(err, failure)
			}
			wrote.longest, failed = max(wrote.longest, held), errors.Join(failed, failure)
			*into = writes.drain()
		}
		if failed == nil {
			return wrote, nil
		}
	}
}

// deliverUntilRunning delivers a nudge again and again, as the notifier, the sweep and Pub/Sub do, until the agent
// runs. It returns how long the longest push was held, and the last failure of one.
func (d *deployment) deliverUntilRunning(ctx context.Context, id string, nudge []byte) (longest time.Duration,
	failed, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		begun := time.Now()
		if _, err := d.countDelivery(ctx, "ReconcileAgent", nudge); err != nil {
			failed = err
		}
		longest = max(longest, time.Since(begun))
		a, err := d.deps.WorkerStore.Load(ctx, id)
		if err != nil || a.Status == agent.Running {
			return longest, failed, err
		}
		select {
		case <-ctx.Done():
			return longest, failed, fmt.Errorf("the agent is still %s: %w", a.Status, ctx.Err())
		case <-tick.C:
		}
	}
}

func sum(writes map[string]int) float64 {
	total := 0
	for n := range maps.Values(writes) {
		total += n
	}
	return float64(total)
}

// attachCluster starts a cluster and a router and makes the deployment use them. A proxy counts what the deployment
// writes to the cluster.
func (d *deployment) attachCluster(ctx context.Context, l *environment) (*writeCounter, error) {
	platform, err := dataplane.Build(ctx)
	if err != nil {
		return nil, err
	}
	k, err := cluster.Start(ctx, cluster.Options{
		Kind: l.cluster, Dir: filepath.Join(l.dir, "kubernetes"), Progress: l.progress,
		Images: map[string]string{dataplane.Image: platform},
	})
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, k.Close)
	addresses := agent.Addresses{Domain: "agents.localhost", Scheme: "http"}
	r, err := dataplane.StartRouter(ctx, dataplane.RouterOptions{
		Kubeconfig: k.Kubeconfig, Domain: addresses.CellDomain(cell),
	})
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, r.Close)
	w, err := newWriteCounter(ctx, k.Kubeconfig, filepath.Join(l.dir, "kubeconfig"))
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, w.server.Close)
	if _, addresses.Port, err = net.SplitHostPort(r.Addr); err != nil {
		return nil, err
	}
	clusters, err := gke.Open(ctx, gke.Settings{
		Cells:     []gke.Cell{{Name: cell, Kubeconfig: w.kubeconfig}},
		Images:    image.BuiltIn{Platform: "agents.localhost/platform@sha256:" + strings.Repeat("0", 64)},
		Addresses: addresses, RouterNamespace: "agent-gateway", Database: "bench",
	})
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, clusters.Close)
	d.deps.Addresses, d.deps.Cluster = addresses, clusters
	d.deps.Prober = agentprobe.New(agentprobe.Options{Addresses: addresses, DialAddress: r.Addr})
	return w, nil
}

// writeCounter is a proxy in front of an API server that counts requests.
type writeCounter struct {
	kubeconfig string
	server     *http.Server

	mu      sync.Mutex
	reads   int
	writes  map[string]int // by path
	applied []write
}

// newWriteCounter starts a proxy for the cluster of one kubeconfig, and writes another kubeconfig for the proxy.
func newWriteCounter(ctx context.Context, upstream, kubeconfig string) (*writeCounter, error) {
	config, err := clientcmd.BuildConfigFromFlags("", upstream)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	to, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &writeCounter{kubeconfig: kubeconfig, writes: map[string]int{}}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: recorder{transport, w.remember}, FlushInterval: -1, // watches send events one by one
	}
	w.server = &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
			w.count(req)
			proxy.ServeHTTP(rw, req)
		}),
	}
	go func() { _ = w.server.Serve(listener) }() // ends with ErrServerClosed
	if err := writeKubeconfig(listener.Addr().String(), kubeconfig); err != nil {
		return nil, errors.Join(err, w.server.Close())
	}
	return w, nil
}

// writeKubeconfig writes a kubeconfig for an API server on this machine that asks for no credentials.
func writeKubeconfig(address, file string) error {
	named := clientcmdapi.NewConfig()
	named.Clusters["local"] = &clientcmdapi.Cluster{Server: "http://" + address}
	named.Contexts["local"] = &clientcmdapi.Context{Cluster: "local"}
	named.CurrentContext = "local"
	if err := clientcmd.WriteToFile(*named, file); err != nil {
		return err
	}
	return os.Chmod(file, 0o600)
}

func (w *writeCounter) count(req *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if req.Method == http.MethodGet {
		w.reads++
		return
	}
	w.writes[req.URL.Path]++
}

func (w *writeCounter) remember(applied write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.applied = append(w.applied, applied)
}

// appliedTo returns what was applied for each of some agents.
func (w *writeCounter) appliedTo(ids []string) []template {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]template, len(ids))
	for i, id := range ids {
		all[i].agentID = id
		for _, applied := range w.applied {
			if strings.Contains(applied.path, id) {
				all[i].writes = append(all[i].writes, applied)
			}
		}
	}
	return all
}

// drain returns how often each path was written since the last call.
func (w *writeCounter) drain() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	drained := w.writes
	w.reads, w.writes = 0, map[string]int{}
	return drained
}

// readCalls returns the number of reads since the last call of drain.
func (w *writeCounter) readCalls() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reads
}
