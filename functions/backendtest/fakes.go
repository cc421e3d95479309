package backendtest

import (
	"context"
	"io"
	"net/http"
	"slices"
	"time"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/agentexec/agentexectest"
	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/provisioning"
)

// Cluster is a cluster that reaches every desired state immediately.
type Cluster struct {
	*uses
	cells []string
	// Healthy are the agents whose pods are ready, and have been for a day.
	Healthy []string
	// Drifted are the agents whose objects differ from their records.
	Drifted map[string]provisioning.Problem
	// Orphans are the agents of namespaces that are a day old.
	Orphans []string
}

var (
	_ provisioning.Cluster         = (*Cluster)(nil)
	_ provisioning.NamespaceLister = (*Cluster)(nil)
	_ provisioning.Volumes         = (*Cluster)(nil)
	_ provisioning.PodLister       = (*Cluster)(nil)
	_ provisioning.ObjectLister    = (*Cluster)(nil)
	_ provisioning.LogKeeper       = (*Cluster)(nil)
	_ provisioning.Readers         = (*Cluster)(nil)
)

// Apply implements provisioning.Cluster.
func (c *Cluster) Apply(context.Context, agent.Agent, agent.StageName, provisioning.RuntimeInput) error {
	c.add("Cluster")
	return nil
}

// CheckReady implements provisioning.Cluster.
func (c *Cluster) CheckReady(context.Context, agent.Agent) error {
	c.add("Cluster")
	return nil
}

// Prune implements provisioning.Cluster.
func (c *Cluster) Prune(context.Context, agent.Agent) error {
	c.add("Cluster")
	return nil
}

// Delete implements provisioning.Cluster.
func (c *Cluster) Delete(context.Context, agent.Agent) error {
	c.add("Cluster")
	return nil
}

// CheckGone implements provisioning.Cluster.
func (c *Cluster) CheckGone(context.Context, agent.Agent) (provisioning.Gone, error) {
	c.add("Cluster")
	return provisioning.Gone{Namespace: true, Volume: true, Snapshots: true}, nil
}

// Snapshot implements provisioning.Volumes.
func (c *Cluster) Snapshot(context.Context, agent.Agent, agent.Snapshot, bool) (agent.SnapshotState, error) {
	c.add("Volumes")
	return agent.SnapshotState{CutAt: time.Now(), Handle: "handle", Ready: true, SizeBytes: 1 << 30}, nil
}

// DeleteSnapshot implements provisioning.Volumes.
func (c *Cluster) DeleteSnapshot(context.Context, agent.Agent, agent.Snapshot) (bool, error) {
	c.add("Volumes")
	return true, nil
}

// AdoptSnapshot implements provisioning.Volumes.
func (c *Cluster) AdoptSnapshot(context.Context, agent.Agent, agent.Snapshot) error {
	c.add("Volumes")
	return nil
}

// RetainSnapshot implements provisioning.Volumes.
func (c *Cluster) RetainSnapshot(context.Context, agent.Agent, agent.Snapshot, bool) error {
	c.add("Volumes")
	return nil
}

// DeleteVolume implements provisioning.Volumes.
func (c *Cluster) DeleteVolume(context.Context, agent.Agent, int64) (bool, error) {
	c.add("Volumes")
	return true, nil
}

// ApplyReader implements provisioning.Readers.
func (c *Cluster) ApplyReader(context.Context, agent.Agent, agent.Snapshot) error {
	c.add("Readers")
	return nil
}

// DeleteReader implements provisioning.Readers.
func (c *Cluster) DeleteReader(context.Context, agent.Agent, []string) (bool, error) {
	c.add("Readers")
	return true, nil
}

// Namespaces implements provisioning.NamespaceLister.
func (c *Cluster) Namespaces(context.Context) ([]provisioning.Placement, error) {
	c.add("Namespaces")
	var all []provisioning.Placement
	for _, id := range c.Orphans {
		all = append(all, provisioning.Placement{
			Cell: c.cells[0], AgentID: id, UID: id,
			CreatedAt: time.Now().AddDate(0, 0, -1),
		})
	}
	return all, nil
}

// MarkNamespace implements provisioning.NamespaceLister.
func (c *Cluster) MarkNamespace(context.Context, provisioning.Placement, time.Time) error {
	c.add("Namespaces")
	return nil
}

// DeleteSources implements provisioning.NamespaceLister.
func (c *Cluster) DeleteSources(context.Context) error {
	c.add("Namespaces")
	return nil
}

// DeleteNamespace implements provisioning.NamespaceLister.
func (c *Cluster) DeleteNamespace(_ context.Context, p provisioning.Placement) error {
	c.add("Namespaces")
	c.Orphans = slices.DeleteFunc(c.Orphans, func(id string) bool { return id == p.AgentID })
	return nil
}

// Cells implements provisioning.PodLister.
func (c *Cluster) Cells() []string {
	c.add("Pods")
	return c.cells
}

// Pods implements provisioning.PodLister.
func (c *Cluster) Pods(_ context.Context, cell string) ([]provisioning.Pod, error) {
	c.add("Pods")
	if cell != c.cells[0] {
		return nil, nil
	}
	var pods []provisioning.Pod
	for _, id := range c.Healthy {
		pods = append(pods, provisioning.Pod{
			AgentID: id, Since: time.Now().AddDate(0, 0, -1),
			Ended: []provisioning.EndedContainer{{Ended: agentlog.Ended{Container: id}}},
		})
	}
	return pods, nil
}

// Objects implements provisioning.ObjectLister.
func (c *Cluster) Objects(context.Context, string) (provisioning.Snapshot, error) {
	c.add("Objects")
	return objects(c.Drifted), nil
}

// objects implements provisioning.Snapshot.
type objects map[string]provisioning.Problem

// Differences implements provisioning.Snapshot.
func (o objects) Differences(a agent.Agent) []provisioning.Difference {
	if o[a.ID] == "" {
		return nil
	}
	return []provisioning.Difference{{Object: "NetworkPolicy agent", Problem: o[a.ID]}}
}

// KeptLogs implements provisioning.Snapshot. Each agent that differs has a log that is too old.
func (o objects) KeptLogs() (all []provisioning.KeptLog) {
	for id := range o {
		all = append(all, provisioning.KeptLog{AgentID: id, Name: "agent-log-1"})
	}
	return all
}

// KeepLogs implements provisioning.LogKeeper.
func (c *Cluster) KeepLogs(context.Context, string, string, []provisioning.EndedContainer) error {
	c.add("LogKeeper")
	return nil
}

// KeepLastLogs implements provisioning.LogKeeper.
func (c *Cluster) KeepLastLogs(context.Context, agent.Agent) error {
	c.add("LogKeeper")
	return nil
}

// DropLog implements provisioning.LogKeeper.
func (c *Cluster) DropLog(context.Context, string, provisioning.KeptLog) error {
	c.add("LogKeeper")
	return nil
}

// Current implements provisioning.PodLister.
func (c *Cluster) Current(agent.Agent, provisioning.Pod) bool {
	c.add("Pods")
	return true
}

// Existence implements provisioning.PodLister.
func (c *Cluster) Existence(_ context.Context, a agent.Agent) (provisioning.Existence, error) {
	c.add("Pods")
	return provisioning.Existence{Namespace: true, Pod: slices.Contains(c.Healthy, a.ID)}, nil
}

// prober reaches every agent.
type prober struct{ *uses }

var _ functions.Prober = prober{}

// Probe implements provisioning.AgentProber.
func (p prober) Probe(context.Context, agent.Agent) error {
	p.add("Prober")
	return nil
}

// Dashboard implements agents.DashboardProber.
func (p prober) Dashboard(context.Context, agent.Agent) (int, error) {
	p.add("Prober")
	return http.StatusOK, nil
}

// Accepts implements provisioning.AgentProber.
func (p prober) Accepts(context.Context, agent.Agent, credential.Credentials) (provisioning.Verdict, error) {
	p.add("Prober")
	return provisioning.Accepted, nil
}

// Calls implements provisioning.CallingFront.
func (p prober) Calls(context.Context, agent.Agent, credential.Credentials, []string) (agent.FrontReport, error) {
	p.add("Prober")
	return agent.FrontReport{Front: "front"}, nil
}

// Order implements provisioning.CallingFront.
func (p prober) Order(context.Context, agent.Agent, credential.Credentials, agent.Order) error {
	p.add("Prober")
	return nil
}

// Door implements provisioning.AgentProber.
func (p prober) Door(context.Context, agent.Agent) (provisioning.Door, error) {
	p.add("Prober")
	return provisioning.Door{Gone: true}, nil
}

// logSource records the use of a source of logs.
type logSource struct {
	*uses
	source agentlog.Source
}

var _ agentlog.Source = logSource{}

// Open implements agentlog.Source.
func (s logSource) Open(ctx context.Context, a agent.Agent, o agentlog.Options) (agentlog.Stream, error) {
	s.add("Logs")
	return s.source.Open(ctx, a, o)
}

// commands records the use of commands in containers.
type commands struct {
	*uses
	source agentexec.Source
}

var _ agentexec.Source = commands{}

// Open implements agentexec.Source.
func (c commands) Open(ctx context.Context, a agent.Agent, command agentexec.Command) (agentexec.Stream, error) {
	c.add("Commands")
	return c.source.Open(ctx, a, command)
}

// quiescer counts as a use of the programs that make volumes quiet.
type quiescer struct{ *uses }

// Quiesce implements provisioning.Quiescer.
func (q quiescer) Quiesce(context.Context, agent.Agent, string) error {
	q.add("Quiescer")
	return nil
}

// programs are those of every agent's image. All write what they read.
func programs() map[string]agentexectest.Program {
	echo := func(_ context.Context, p *agentexectest.Process) int {
		_, _ = io.Copy(p.Stdout, p.Stdin)
		return 0
	}
	all := map[string]agentexectest.Program{}
	for _, name := range []string{"ls", "cat", "tar", "rm", "mkdir", "sh", dataplane.FrontCommand} {
		all[name] = echo
	}
	return all
}

// metricsSource has no samples.
type metricsSource struct{ *uses }

var _ metrics.Source = metricsSource{}

// Read implements metrics.Source.
func (s metricsSource) Read(context.Context, metrics.Query, func(metrics.Sample)) (metrics.Usage, error) {
	s.add("MetricsSource")
	return metrics.Usage{Calls: 1}, nil
}

// backups has one of an hour ago.
type backups struct{ *uses }

// SafeSince implements workers.Backups.
func (b backups) SafeSince(context.Context) (time.Time, error) {
	b.add("Backups")
	return time.Now().Add(-time.Hour), nil
}
