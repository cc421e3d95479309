package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/api/distribution"
	"google.golang.org/genproto/googleapis/api/metric"

	"agents.example/controlplane/emulators/monitoringemu"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
)

// agentsPerOrganization is as many agents as the largest plan allows.
const agentsPerOrganization = 100

// createAgents creates running agents with a few minutes of metrics.
func (d *deployment) createAgents(ctx context.Context, n int) ([]agent.Agent, error) {
	var mu sync.Mutex
	var all []agent.Agent
	var errs []error
	var making sync.WaitGroup
	for first := 0; first < n; first += agentsPerOrganization {
		making.Go(func() {
			made, err := d.createInOrganization(ctx, min(agentsPerOrganization, n-first))
			mu.Lock()
			defer mu.Unlock()
			all = append(all, made...)
			if err != nil {
				errs = append(errs, err)
			}
		})
	}
	making.Wait()
	if len(errs) > 0 {
		return nil, errs[0]
	}
	pods := &healthyPods{agents: all}
	d.deps.Namespaces, d.deps.Pods, d.deps.Objects = pods, pods, pods
	for _, a := range all {
		if err := d.monitoring.Feed(d.project, samples(d.project, a, time.Now())...); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// createInOrganization creates the agents of one organization, sequentially because they change the same usage.
func (d *deployment) createInOrganization(ctx context.Context, n int) ([]agent.Agent, error) {
	ctx, key, err := d.createOrganization(ctx)
	if err != nil {
		return nil, err
	}
	var made []agent.Agent
	for i := range n {
		draft := agent.Draft{Name: fmt.Sprintf("agent %d", i), Plan: plan.Starter, Cloud: "gcp", Region: region}
		a, err := d.deps.Agents.Create(ctx, agent.New(newID(), cell, draft, time.Now().Add(-time.Hour)))
		if err != nil {
			return nil, err
		}
		a, err = d.deps.WorkerStore.Update(ctx, a, func(a *agent.Agent) {
			for _, stage := range agent.StageNames() {
				a.EndStage(stage, agent.StageSucceeded, time.Now().Add(-time.Hour))
			}
			a.BecameReady(time.Now().Add(-time.Hour))
		})
		if err != nil {
			return nil, err
		}
		made = append(made, a)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.key = key
	return made, nil
}

// samples returns what GKE and Managed Prometheus write about an agent in the last minutes.
func samples(project string, a agent.Agent, now time.Time) []monitoringemu.Sample {
	var all []monitoringemu.Sample
	host := a.Hostname(agent.Addresses{Domain: domain})
	began := now.Truncate(time.Minute).Add(-time.Hour)
	for minute := range 10 {
		at := now.Truncate(time.Minute).Add(-time.Duration(9-minute) * time.Minute)
		of := func(metricType, resource string, value any, total bool, labels map[string]string) {
			namespace := a.Namespace()
			if resource == "prometheus_target" {
				namespace = "agent-gateway" // the router counts
			}
			s := monitoringemu.Sample{
				Metric: metricType, MetricLabels: labels, Resource: resource, End: at, Value: value,
				ResourceLabels: map[string]string{
					"project_id": project, "location": region, "cluster_name": cell, "cluster": cell,
					"namespace_name": namespace, "namespace": namespace, "container_name": "agent",
				},
			}
			if total {
				s.Kind, s.Start = metric.MetricDescriptor_CUMULATIVE, began
			}
			all = append(all, s)
		}
		counted := int64(30 * (minute + 1))
		of("kubernetes.io/container/cpu/core_usage_time", "k8s_container", float64(15*minute), true, nil)
		of("kubernetes.io/container/memory/used_bytes", "k8s_container", int64(512<<20), false,
			map[string]string{"memory_type": "non-evictable"})
		of("kubernetes.io/pod/volume/utilization", "k8s_pod", 0.1, false, map[string]string{"volume_name": "data"})
		of("prometheus.googleapis.com/http_requests_total/counter", "prometheus_target", float64(counted), true,
			map[string]string{"host": host, "code": "200"})
		of("prometheus.googleapis.com/http_request_duration_seconds/histogram", "prometheus_target",
			&distribution.Distribution{
				Count: counted, BucketCounts: []int64{0, counted},
				BucketOptions: &distribution.Distribution_BucketOptions{
					Options: &distribution.Distribution_BucketOptions_ExplicitBuckets{
						ExplicitBuckets: &distribution.Distribution_BucketOptions_Explicit{Bounds: []float64{0.1, 0.2}},
					},
				},
			}, true, map[string]string{"host": host})
	}
	return all
}

// healthyPods emulates clusters in which every agent has a healthy pod. Calls to clusters cost nothing, so they are not
// counted.
type healthyPods struct{ agents []agent.Agent }

// Cells implements provisioning.PodLister.
func (h *healthyPods) Cells() []string { return []string{cell} }

// Pods implements provisioning.PodLister.
func (h *healthyPods) Pods(context.Context, string) ([]provisioning.Pod, error) {
	pods := make([]provisioning.Pod, len(h.agents))
	for i, a := range h.agents {
		pods[i] = provisioning.Pod{AgentID: a.ID, Since: a.CreatedAt}
	}
	return pods, nil
}

// Objects implements provisioning.ObjectLister.
func (h *healthyPods) Objects(context.Context, string) (provisioning.Snapshot, error) { return h, nil }

// Differences implements provisioning.Snapshot.
func (h *healthyPods) Differences(agent.Agent) []provisioning.Difference { return nil }

// KeptLogs implements provisioning.Snapshot.
func (h *healthyPods) KeptLogs() []provisioning.KeptLog { return nil }

// Current implements provisioning.PodLister.
func (h *healthyPods) Current(agent.Agent, provisioning.Pod) bool { return true }

// Existence implements provisioning.PodLister.
func (h *healthyPods) Existence(context.Context, agent.Agent) (provisioning.Existence, error) {
	return provisioning.Existence{Namespace: true, Pod: true}, nil
}

// Namespaces implements provisioning.NamespaceLister.
func (h *healthyPods) Namespaces(context.Context) ([]provisioning.Placement, error) {
	all := make([]provisioning.Placement, len(h.agents))
	for i, a := range h.agents {
		all[i] = provisioning.Placement{Cell: cell, AgentID: a.ID, CreatedAt: time.Now().Add(-metrics.Day)}
	}
	return all, nil
}

// MarkNamespace implements provisioning.NamespaceLister.
func (h *healthyPods) MarkNamespace(_ context.Context, p provisioning.Placement, _ time.Time) error {
	return fmt.Errorf("the orphan collector marks the namespace of existing agent %s", p.AgentID)
}

// DeleteSources implements provisioning.NamespaceLister.
func (h *healthyPods) DeleteSources(context.Context) error { return nil }

// DeleteNamespace implements provisioning.NamespaceLister.
func (h *healthyPods) DeleteNamespace(_ context.Context, p provisioning.Placement) error {
	return fmt.Errorf("the orphan collector deletes the namespace of existing agent %s", p.AgentID)
}

// healthyBackups are made all the time. Reading their list costs nothing.
type healthyBackups struct{}

// SafeSince implements workers.Backups.
func (healthyBackups) SafeSince(context.Context) (time.Time, error) { return time.Now(), nil }
