// Package telemetry stands in for what measures agents in a real cluster: the kubelets, which report containers and
// volumes, and Managed Prometheus, which scrapes the agents. It follows the cluster and what agents counted, and writes
// the same metrics, with the same labels.
//
// What can be known is reported as it is: which containers run since when, their restarts, and every request with its
// status and duration. What simulated nodes do not have, the use of CPU, memory and disk, is made up from the pod's
// limits, the time and the requests, so that curves live. It does not know the control plane.
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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"agents.example/controlplane/emulators/gateway"
	"agents.example/controlplane/emulators/monitoringemu"
)

// Options says what to measure and where to write it.
type Options struct {
	Kubeconfig string
	// Selector picks the pods, by their labels.
	Selector string
	// Traffic lists what agents counted.
	Traffic func() []gateway.Traffic
	// Feed takes the points.
	Feed func(project string, samples ...monitoringemu.Sample) error
	// Project, Location and Cluster are what the points are labelled with.
	Project, Location, Cluster string
	// Every is how often points are written; in a real cluster it is a minute.
	Every time.Duration
}

// Telemetry measures until it is closed.
type Telemetry struct {
	options Options
	client  kubernetes.Interface
	stop    context.CancelFunc
	running sync.WaitGroup
	// meters are of the pods that were there when last looked.
	meters map[types.UID]*meter
}

// Start begins to measure.
func Start(ctx context.Context, o Options) (*Telemetry, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("telemetry: read the kubeconfig: %w", err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	t := &Telemetry{options: o, client: client, stop: stop, meters: map[types.UID]*meter{}}
	t.running.Go(func() { t.run(run) })
	return t, nil
}

// Close ends measuring.
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
				slog.WarnContext(ctx, "agents were not measured", "error", err)
			}
		}
	}
}

// reportAll writes a point of everything.
func (t *Telemetry) reportAll(ctx context.Context, now time.Time) error {
	pods, err := t.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: t.options.Selector})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	traffic := map[string][]gateway.Traffic{}
	for _, counted := range t.options.Traffic() {
		at := counted.Namespace + "/" + counted.Pod
		traffic[at] = append(traffic[at], counted)
	}
	known := t.meters
	t.meters = map[types.UID]*meter{}
	var samples []monitoringemu.Sample
	for i := range pods.Items {
		pod := &pods.Items[i]
		m := known[pod.UID]
		if m == nil {
			m = &meter{}
		}
		t.meters[pod.UID] = m
		p := observation{t.options, pod, now}
		samples = append(samples, p.prometheusSamples(traffic[pod.Namespace+"/"+pod.Name])...)
		samples = append(samples, p.kubeletSamples(m, traffic[pod.Namespace+"/"+pod.Name])...)
	}
	return t.options.Feed(t.options.Project, samples...)
}

// firstContainer is the status of the pod's first container, and when it was started if it runs.
func firstContainer(pod *corev1.Pod) (status corev1.ContainerStatus, since time.Time, runs bool) {
	if len(pod.Status.ContainerStatuses) == 0 {
		return status, since, false
	}
	status = pod.Status.ContainerStatuses[0]
	if status.State.Running == nil || pod.DeletionTimestamp != nil {
		return status, since, false
	}
	return status, status.State.Running.StartedAt.Time, true
}
