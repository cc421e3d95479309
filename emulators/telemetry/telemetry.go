// Package telemetry emulates what measures agents in a real cluster: the kubelets, which report containers and volumes,
// and Managed Prometheus, which scrapes the router and the fronts of sandboxed agents. It reads the cluster and scrapes
// them, and writes the same metrics with the same labels.
//
// Start times, restarts and requests are real. A real node measures its pods' CPU and memory. Simulated nodes use none,
// so those values are computed from the pod's limits, the time and the requests. So is the use of volumes: they are
// directories, and kubelets measure the whole file system around them. It does not know the control plane.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"agents.example/controlplane/emulators/monitoringemu"
	"agents.example/controlplane/infra/gke/cellwatch"
)

// Options configure Start.
type Options struct {
	// Kubeconfig is the file that gives access to the cluster.
	Kubeconfig string
	// Selector selects the measured pods by label.
	Selector string
	// Router is the URL of the metrics of the cell's router, and RouterNamespace the namespace that labels them.
	Router, RouterNamespace string
	// RealNode is the name of a node that runs containers; empty if there is none.
	RealNode string
	// NamespaceOf returns the namespace of the agent that a host belongs to. Requests cost the agent CPU.
	NamespaceOf func(host string) (namespace string, ok bool)
	// Feed writes points.
	Feed func(project string, samples ...monitoringemu.Sample) error
	// Project, Location and Cluster label the points.
	Project, Location, Cluster string
	// Every is the interval of points. In a real cluster it is a minute.
	Every time.Duration
}

// Telemetry measures until it is closed.
type Telemetry struct {
	options Options
	client  *rest.RESTClient
	stop    context.CancelFunc
	running sync.WaitGroup
	// meters has the meter of each pod of the last list.
	meters map[types.UID]*meter
	// counters has the counters of the last scrape of the router.
	counters counters
}

// Start starts measuring. It does not wait for the first measurement.
func Start(ctx context.Context, o Options) (*Telemetry, error) {
	config, err := cellwatch.Connect(o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	client, err := cellwatch.Client(config, "telemetry", cellwatch.Core())
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	t := &Telemetry{options: o, client: client, stop: stop, meters: map[types.UID]*meter{}}
	t.running.Go(func() { t.run(run) })
	return t, nil
}

// Close stops measuring.
func (t *Telemetry) Close() error {
	t.stop()
	t.running.Wait()
	return nil
}

func (t *Telemetry) run(ctx context.Context) {
	ticks := time.NewTicker(t.options.Every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			if err := t.reportAll(ctx, now); err != nil && ctx.Err() == nil {
				slog.WarnContext(ctx, "agents could not be measured", "error", err)
			}
		}
	}
}

// reportAll writes one point of every metric of every pod.
func (t *Telemetry) reportAll(ctx context.Context, now time.Time) error {
	var pods corev1.PodList
	agents := &metav1.ListOptions{LabelSelector: t.options.Selector}
	err := t.client.Get().Resource("pods").VersionedParams(agents, metav1.ParameterCodec).Do(ctx).Into(&pods)
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	samples, err := t.scrapeRouter(ctx, now)
	if err != nil { // as when a scrape fails: there are no points of this time
		slog.WarnContext(ctx, "the router could not be scraped", "error", err)
	}
	real, err := t.measure(ctx)
	if err != nil { // as when a kubelet does not answer
		slog.WarnContext(ctx, "the real node's pods could not be measured", "error", err)
	}
	known := t.meters
	t.meters = map[types.UID]*meter{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		m := known[pod.UID]
		if m == nil {
			m = &meter{}
		}
		t.meters[pod.UID] = m
		p := observation{t.options, pod, now}
		source := p.compute
		if t.onRealNode(pod) {
			source = real.of(pod)
		}
		samples = append(samples, p.kubeletSamples(m, t.counters.requests[pod.Namespace], source)...)
		if p.sandboxed() {
			samples = append(samples, t.scrapeFront(ctx, p)...)
		}
	}
	return t.options.Feed(t.options.Project, samples...)
}

// runningSince returns the start time of the pod's first container, if it runs.
func runningSince(pod *corev1.Pod) (since time.Time, runs bool) {
	if len(pod.Status.ContainerStatuses) == 0 || pod.DeletionTimestamp != nil {
		return since, false
	}
	running := pod.Status.ContainerStatuses[0].State.Running
	if running == nil {
		return since, false
	}
	return running.StartedAt.Time, true
}
